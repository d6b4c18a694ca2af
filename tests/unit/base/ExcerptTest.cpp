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
  CHECK(excerpt("\u009b31m\u00e4") == "\\xc2\\x9b31m\u00e4");
}

TEST_CASE("broken UTF-8 is escaped, since JSON and some terminals do not accept it") {
  CHECK(excerpt("a\xff"
                "b\xc3") == "a\\xff"
                            "b\\xc3");
}

TEST_CASE("a message keeps its line breaks and tabs; other control characters are escaped") {
  CHECK(printable("a\x1b[31m:\n\tb\r\xff") == "a\\x1b[31m:\n\tb\\x0d\\xff");
  CHECK(printable(std::string(1000, 'x')).size() == 1000);
}
