#include "tools/console/WordWrap.h"

#include <doctest/doctest.h>

#include <clocale>
#include <string>
#include <vector>

using namespace moert::cli;

/// The text of pieces, as it is written in all.
static std::string wrap(const std::vector<std::string> &pieces, size_t columns) {
  WordWrap wrapped;
  std::string out;
  for (const std::string &piece : pieces)
    out += wrapped.feed(piece, columns);
  return out + wrapped.flush(columns);
}

TEST_CASE("lines break before the word that does not fit, wherever the text is divided") {
  CHECK(wrap({"one two three"}, 9) == "one two\nthree");
  CHECK(wrap({"one t", "wo th", "ree"}, 9) == "one two\nthree");
  CHECK(wrap({"one two three"}, 13) == "one two three");
  CHECK(wrap({"one", " ", "two"}, 3) == "one\ntwo");
}

TEST_CASE("a word is held back until its end is known") {
  WordWrap wrapped;
  CHECK(wrapped.feed("one tw", 20) == "one");
  CHECK(wrapped.feed("o ", 20) == " two");
  CHECK(wrapped.flush(20).empty());
}

TEST_CASE("line breaks and indentation of the text are kept") {
  CHECK(wrap({"a:\n    b c\n\nd"}, 20) == "a:\n    b c\n\nd");
  CHECK(wrap({"    one two"}, 8) == "    one\ntwo");
}

TEST_CASE("a word longer than a line is divided at the width") {
  CHECK(wrap({"abcdefgh ij"}, 5) == "abcde\nfgh\nij");
  CHECK(wrap({"x abcdefgh"}, 5) == "x\nabcde\nfgh");
  CHECK(wrap({"  abcdefgh"}, 5) == "abcde\nfgh");
}

TEST_CASE("characters count by their columns, and wide ones break anywhere") {
  REQUIRE(std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr);
  CHECK(wrap({"été déjà"}, 8) == "été déjà");
  CHECK(wrap({"e\u0301a\u0301 oe\u0301o\u0300"}, 8) == "e\u0301a\u0301 oe\u0301o\u0300");
  CHECK(wrap({"日本語の文"}, 6) == "日本語\nの文");
}

TEST_CASE("without a width the text is unchanged") {
  CHECK(wrap({"one  two\t", "three "}, 0) == "one  two\tthree ");
}
