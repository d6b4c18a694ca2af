#include "runtime/base/Excerpt.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("a text up to the limit is shown whole, a longer one up to the limit and with dots") {
  CHECK(excerpt("gelu") == "gelu");
  CHECK(excerpt("abcd", 4) == "abcd");
  CHECK(excerpt("abcde", 4) == "abcd...");
  CHECK(excerpt(std::string(10000, 'x')) == std::string(kExcerptBytes, 'x') + "...");
}

TEST_CASE("a text is cut between characters, never inside of one") {
  CHECK(excerpt("aäb", 2) == "a...");
  CHECK(excerpt("aäb", 3) == "aä...");
}

TEST_CASE("control characters are escaped, since a terminal would obey them") {
  CHECK(excerpt("a\x1b[31m\n") == "a\\x1b[31m\\x0a");
}
