// Grammars in llama.cpp's notation: the texts that they take, and faults with their places.
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/grammar/CodePointSet.h"
#include "tests/unit/grammar/Matching.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace moert;
using namespace moert::test;

namespace {

void check(const std::string &text, const std::vector<const char *> &fitting,
           const std::vector<const char *> &others) {
  CAPTURE(text);
  auto grammar = grammarOfGbnf(text);
  REQUIRE_MESSAGE(grammar.isOk(), grammar.status().message());
  for (const char *one : fitting)
    CHECK_MESSAGE(matches(*grammar, one), one);
  for (const char *one : others)
    CHECK_FALSE_MESSAGE(matches(*grammar, one), one);
}

std::string refusalOf(const std::string &text) {
  return grammarOfGbnf(text).status().message();
}

} // namespace

TEST_CASE("rules have literals, alternatives, references and groups") {
  check("root ::= \"a\" word | \"\\\"\\n\\u00e9\"\nword ::= (\"x\" | \"yz\") \"!\"",
        {"ax!", "ayz!", "\"\né"}, {"a", "ax", "x!"});
  check("# a comment\nroot ::= ( # more\n  \"a\"\n  \"b\"\n) \"c\" | # and\n  \"d\"\n  | \"e\"\n\n",
        {"abc", "d", "e"}, {"ab", "c"});
  check("root ::= \"(\" root? \")\"", {"()", "((()))"}, {"", "(()"});
}

TEST_CASE("classes are of characters, not of bytes") {
  check("root ::= [a-cé\\]]+", {"abé]"}, {"", "d", "\xC3"});
  check("root ::= [^a-c\\n]", {"d", "é", "€", "𝄞"}, {"a", "\n", "", "dd", "\xC3"});
  check("root ::= [\\u4e00-\\u9fff-]", {"一", "龥", "-"}, {"a", "é"});
  check("root ::= . [\\x41]", {"éA"}, {"A", "éa"});
}

TEST_CASE("quantifiers count") {
  check("root ::= \"a\"* \"b\"+ \"c\"?", {"b", "aabbc"}, {"", "a", "bcc"});
  check("root ::= (\"a\" \"b\"){2} [0-9]{1,3} \"c\"{2,}", {"abab1cc", "abab123ccc"},
        {"ab1cc", "ababcc", "abab1c", "abab1234cc"});
  check("root ::= \"a\"{0} \"b\"{,2}", {"", "bb"}, {"a", "bbb"});
}

TEST_CASE("the grammar of JSON that llama.cpp has is read") {
  check(R"(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)",
        {R"({"a": [1, -2.5e3, "x\u00e9", null], "b": {}})", "{}"}, {"[]", "{\"a\":}"});
}

TEST_CASE("faults have their line and column") {
  CHECK(refusalOf("root ::= word") == "line 1, column 10: the rule 'word' is not defined");
  CHECK(refusalOf("a ::= \"x\"") == "the grammar has no rule 'root'");
  CHECK(refusalOf("root = \"x\"") == "line 1, column 6: found '=', expected '::=' after 'root'");
  CHECK(refusalOf("root ::= \"x\" &") ==
        "line 1, column 14: found '&', expected the end of the rule 'root'");
  CHECK(refusalOf("root ::= \"x\"\nroot ::= \"y\"") ==
        "line 2, column 1: the rule 'root' is defined twice");
  CHECK(refusalOf("root ::= (\"x\"") ==
        "line 1, column 14: found the end, expected an element of the group or ')'");
  CHECK(refusalOf("root ::= \"x") == "line 1, column 10: the literal has no second '\"'");
  CHECK(refusalOf("root ::= [a") == "line 1, column 10: the class has no ']'");
  CHECK(refusalOf("root ::= \"\\q\"").find("line 1, column 11: an unknown escape") == 0);
  CHECK(refusalOf("root ::= \"a\"{3,2}") ==
        "line 1, column 13: expected a quantifier as {2}, {2,} or {2,5}");
  for (const char *quantifier : {"{}", "{,}", "{ , }"})
    CHECK(refusalOf(strCat("root ::= \"a\"", quantifier)) ==
          "line 1, column 13: expected a quantifier as {2}, {2,} or {2,5}");
  CHECK(refusalOf("root ::= \"a\"{9999}") == "line 1, column 13: a count of more than 2000");
  CHECK(refusalOf("root ::= \xFF") == "the grammar is no UTF-8");
}

TEST_CASE("grammars that no automaton follows are refused by the rule") {
  CHECK(refusalOf("root ::= a\na ::= a \"x\" | \"y\"") ==
        "the rule 'a': it refers to itself without any text between");
  CHECK(refusalOf("root ::= (\"x\"?)*") ==
        "the rule 'root': it refers to itself without any text between");
  CHECK(refusalOf("root ::= \"x\" root") == "the rule 'root' has no text that ends");
  std::string large = "root ::= ";
  for (int i = 0; i < 60; ++i)
    large += "(\"ab\" [0-9]){2000} ";
  CHECK(refusalOf(large).find("the grammar has more than 100000 elements") != std::string::npos);
  CHECK(refusalOf("root ::= " + std::string(200'000, '|')) ==
        "line 1, column 100010: the grammar has more than 100000 elements");
  CHECK(refusalOf("root ::= \"" + std::string(200'000, 'a') + '"') ==
        "line 1, column 10: the literal has more than 100000 bytes");
  CHECK(refusalOf("root ::= " + std::string(100, '(')).find("more than 64 groups in each other") !=
        std::string::npos);
}

TEST_CASE("large classes, many of them and many rules are refused before they take long") {
  std::string apart, adjacent;
  for (uint32_t i = 0; i < 4096; ++i) {
    appendCodePoint(CodePointSet::kLast - 3 * i, apart);
    appendCodePoint(CodePointSet::kLast - i, adjacent);
  }
  CHECK(refusalOf("root ::= [" + apart + "]").find("a text can begin in 4096 ways") !=
        std::string::npos);
  check("root ::= [" + adjacent + "]", {"\U0010FFFF", "\U0010F000"}, {"\U0010EFFF"});
  CHECK(refusalOf("root ::= [" + adjacent + "a]") ==
        "line 1, column 10: the class has more than 4096 ranges");
  std::string classes = "root ::= ", rules = "root ::= a0\n";
  for (int i = 1; i < 20'000; ++i) {
    classes += "[";
    for (int bit = 0; bit < 15; ++bit)
      if ((i >> bit & 1) != 0)
        classes += static_cast<char>('a' + bit);
    classes += "]";
    rules += strCat("a", i - 1, " ::= a", i, "\n");
  }
  CHECK(refusalOf(classes).find("the grammar has more than 4096 classes") != std::string::npos);
  CHECK(refusalOf(rules).find("the grammar has more than 16384 rules") != std::string::npos);
}
