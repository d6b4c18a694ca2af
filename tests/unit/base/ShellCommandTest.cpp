#include "runtime/base/ShellCommand.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("a word that a shell would change is quoted") {
  CHECK(quotedWord("--memory=25%") == "--memory=25%");
  CHECK(quotedWord("my model.moe") == "'my model.moe'");
  CHECK(quotedWord("it's") == "'it'\\''s'");
  CHECK(quotedWord("") == "''");
}

TEST_CASE("a command is continued before options, never within quotes") {
  CHECK(wrappedCommand("tool in --first 1 2 --second three", 22) ==
        "  tool in \\\n      --first 1 2 \\\n      --second three\n");
  CHECK(wrappedCommand("tool --text 'a --b' && other", 20) ==
        "  tool \\\n      --text 'a --b' \\\n      && other\n");
  CHECK(wrappedCommand("tool 'it'\\''s -n' -n", 80) == "  tool 'it'\\''s -n' -n\n");
}
