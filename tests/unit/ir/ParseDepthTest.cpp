// What counts as a level of nesting and what does not.
#include "compiler/ir/ParseDepth.h"

#include <doctest/doctest.h>

using namespace moec;
using moert::strCat;

static std::string repeated(const std::string &part, uint32_t times) {
  std::string text;
  for (uint32_t i = 0; i < times; ++i)
    text += part;
  return text;
}

static bool passes(const std::string &text) {
  return checkParseDepth(text, "m.mlir").isOk();
}

TEST_CASE("brackets of every kind may be open up to the limit, not beyond it") {
  for (const char *pair : {"()", "[]", "{}", "<>"}) {
    CAPTURE(pair);
    auto nested = [&](uint32_t levels) {
      return repeated(std::string(1, pair[0]), levels) + repeated(std::string(1, pair[1]), levels);
    };
    CHECK(passes(nested(kMaxParseDepth)));
    CHECK_FALSE(passes(strCat(nested(kMaxParseDepth + 1))));
    CHECK(passes(repeated(nested(3), 5 * kMaxParseDepth)));
  }
}

TEST_CASE("the refusal names the file, the line and the limit") {
  auto status = checkParseDepth(strCat("\n\n", repeated("[", 2000)), "deep.mlir");
  CHECK(status.code() == moert::StatusCode::kInvalidInput);
  CHECK(status.message().rfind("deep.mlir:3: ", 0) == 0);
  CHECK(status.message().find("at most 1000") != std::string::npos);
}

TEST_CASE("brackets in strings, after an escaped quote too, and in comments do not count") {
  const std::string many = repeated("[", 2000);
  CHECK(passes(strCat("\"", many, "\"")));
  CHECK(passes(strCat("\"\\\"", many, "\"")));
  CHECK(passes(strCat("// it's \"half\n// ", many, "\n")));
  CHECK_FALSE(passes(strCat("\"\\\\\"", many)));
  // A string ends at the end of its line, and so does a comment.
  CHECK_FALSE(passes(strCat("\"\n", many)));
  CHECK_FALSE(passes(strCat("//\n", many)));
}

TEST_CASE("arrows and comparisons close nothing, so that they cannot hide a level") {
  CHECK(passes(repeated("(() -> (d0 >= 0, d0 <= 1))", 3000)));
  CHECK_FALSE(passes(repeated("[affine_set<(d0) : (d0 >= 0)>, ", 2000)));
  CHECK_FALSE(passes(repeated("<() -> ", 2000)));
  CHECK_FALSE(passes(repeated("[ > ) ", 2000)));
}

TEST_CASE("a comment in a dialect's own syntax hides nothing") {
  CHECK_FALSE(passes(repeated("[#x.y<//>, ", 2000)));
}

TEST_CASE("operators count as levels within one sum, not over several sums") {
  CHECK_FALSE(passes(strCat("(", repeated("-", 2000), "d0)")));
  CHECK_FALSE(passes(strCat("(", repeated("- //\n", 2000), "d0)")));
  CHECK_FALSE(passes(strCat("(d0", repeated(" floordiv s0", 2000), ")")));
  CHECK(passes(strCat("(", repeated("d0 + 1, ", 3000), ")")));
  CHECK(passes(strCat("[", repeated("-1, ", 3000), "]")));
  CHECK(passes(strCat("(", repeated("1.0e-05 2e+03 ", 3000), ")")));
  CHECK(passes(repeated("moe.scale -1.0e-05\n", 3000)));
}

TEST_CASE("an alias has the levels of its definition") {
  auto chain = [](uint32_t length) {
    std::string text = "#a0 = [1]\n";
    for (uint32_t i = 1; i < length; ++i)
      text += strCat("#a", i, " = [#a", i - 1, "]\n");
    return strCat(text, "module attributes {x = #a", length - 1, "} {}\n");
  };
  CHECK(passes(chain(400)));
  CHECK_FALSE(passes(chain(2000)));
  std::string flat = "!t = i32\n";
  for (uint32_t i = 0; i < 3000; ++i)
    flat += strCat("!t", i, " = tuple<!t>\n");
  CHECK(passes(strCat(flat, repeated("f(!t7) -> !t8\n", 3000))));
}

TEST_CASE("bytecode passes with any bytes") {
  CHECK(passes(strCat("ML\xefR", repeated("[", 2000))));
  CHECK_FALSE(passes(strCat("MLIR", repeated("[", 2000))));
}

TEST_CASE("text may end anywhere") {
  for (const char *text : {"", "\"", "\"\\", "#", "!", "/", "//", "-", "1e", "1e-", "<", "#a ="})
    CHECK_MESSAGE(passes(text), text);
}
