#include "compiler/inspection/TextTable.h"

#include <doctest/doctest.h>

using namespace moec;

using Align = TextTable::Align;

TEST_CASE("a text is broken at spaces, and a longer word gets a line of its own") {
  CHECK(linesOf("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(linesOf("a-long-word b", 4) == std::vector<std::string>{"a-long-word", "b"});
  CHECK(linesOf("", 4) == std::vector<std::string>{""});
  CHECK(paragraph("one two", "  ", 6) == "  one\n  two\n");
}

TEST_CASE("a table with room has one line per row") {
  TextTable table({{"name", Align::kLeft}, {"size"}});
  table.addRow({"a", "12"});
  CHECK(table.text("  ") == "  name  size\n  a       12\n");
  CHECK(table.text("  ", 12) == "  name  size\n  a       12\n");
}

TEST_CASE("headings and texts wrap, numbers do not") {
  TextTable table({{"the change", Align::kLeft}, {"a gain"}});
  table.addRow({"more memory for all of the experts", "12.5 MiB"});
  CHECK(table.text("", 36) == "the change                    a gain\n"
                              "more memory for all of the  12.5 MiB\n"
                              "experts\n");
}

TEST_CASE("columns that do not fit follow below, after the first column again") {
  TextTable table({{"layer"}, {"one"}, {"two"}, {"three"}});
  table.addRow({"0", "1111", "2222", "3333"});
  CHECK(table.text("", 17) == "layer   one   two\n"
                              "    0  1111  2222\n"
                              "\n"
                              "layer  three\n"
                              "    0   3333\n");
}
