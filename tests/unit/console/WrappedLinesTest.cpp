#include "tools/console/WrappedLines.h"

#include <doctest/doctest.h>

using moert::cli::wrappedLines;

TEST_CASE("lines are broken at spaces and keep their length where they fit") {
  CHECK(wrappedLines("one two three", 13) == "one two three");
  CHECK(wrappedLines("one two three", 12) == "one two\nthree");
  CHECK(wrappedLines("one two three", 7) == "one two\nthree");
  CHECK(wrappedLines("one two three", 6) == "one\ntwo\nthree");
  CHECK(wrappedLines("one two\n\nthree four", 5) == "one\ntwo\n\nthree\nfour");
  CHECK(wrappedLines("one two three", 0) == "one two three");
}

TEST_CASE("a word that is longer than a line is cut, between characters") {
  CHECK(wrappedLines("abcdefg", 3) == "abc\ndef\ng");
  CHECK(wrappedLines("\xc3\xa9\xc3\xa9\xc3\xa9", 2) == "\xc3\xa9\xc3\xa9\n\xc3\xa9");
}

TEST_CASE("the second of two columns continues below its beginning") {
  CHECK(wrappedLines("/save FILE   write the messages", 26) ==
        "/save FILE   write the\n             messages");
  // Unless it begins in the right half.
  CHECK(wrappedLines("/save FILE   write the messages", 20) == "/save FILE   write\nthe messages");
}
