// Keywords that restrict values: the texts that they let through, and those that they do not.
#include "runtime/text/grammar/StringSet.h"
#include "tests/unit/grammar/Checking.h"

#include <fstream>

using namespace moert;
using namespace moert::test;

TEST_CASE("integers keep their bounds, of any length and sign") {
  check(R"({"type": "integer", "minimum": 3, "maximum": 120})",
        {"3", "9", "10", "99", "100", "119", "120"},
        {"0", "2", "-3", "121", "130", "200", "1000", "03", "3.0"});
  check(R"({"type": "integer", "minimum": -15, "maximum": 7})", {"-15", "-9", "-1", "0", "7"},
        {"-16", "-20", "-100", "8", "10", "-0"});
  check(R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "10", "1234567890123456"},
        {"0", "-1", "01"});
  check(R"({"type": "integer", "maximum": -10})", {"-10", "-99", "-100"}, {"-9", "0", "10"});
  check(R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 3})", {"2"}, {"1", "3"});
  check(R"({"type": "integer", "minimum": 9223372036854775807})", {"9223372036854775807"},
        {"9223372036854775806", "1"});
  // Draft 4 states with a boolean that the bound is excluded.
  check(R"({"type": "integer", "minimum": 5, "exclusiveMinimum": true})", {"6"}, {"5"});
  check(R"({"minimum": 5, "maximum": 5})", {"5", "5.0"}, {"4", "\"5\""});
}

TEST_CASE("numbers keep their bounds, digit by digit") {
  check(R"({"type": "number", "minimum": 0.25, "maximum": 12.5})",
        {"0.25", "0.3", "0.251", "1", "9.999", "12", "12.5", "12.50", "12.49999"},
        {"0", "0.24", "0.2", "0.1999", "12.51", "12.6", "13", "20", "100", "-1"});
  check(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
        {"0.1", "0.000001", "0.999"}, {"0", "0.0", "1", "1.0", "-0.5", "2"});
  check(R"({"type": "number", "minimum": -1.5, "exclusiveMaximum": -0.5})",
        {"-1.5", "-1", "-0.6", "-0.51"}, {"-0.5", "-0.50", "-1.51", "-2", "0", "0.6"});
  check(R"({"type": "number", "maximum": 1e3})", {"1000", "-5", "999.9", "0"}, {"1000.1", "1e2"});
}

TEST_CASE("multiples are found by the remainder of the digits") {
  check(R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "700", "1001"},
        {"1", "8", "-13", "1000"});
  check(R"({"type": "integer", "multipleOf": 1000, "minimum": 1})", {"1000", "25000"},
        {"0", "100", "2500", "25001"});
  check(R"({"type": "number", "multipleOf": 0.01, "minimum": 0})", {"0", "1.5", "2.75", "10.00"},
        {"1.005", "-1", "0.001"});
  check(R"({"type": "number", "multipleOf": 2.5})", {"2.5", "5", "5.0", "-7.5"}, {"1", "2.4"});
  check(R"({"type": "integer", "multipleOf": 2.5})", {"5", "10"}, {"2", "7", "2.5"});
  check(R"({"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]})", {"12", "24"},
        {"4", "6", "18"});
  check(R"({"type": "integer", "multipleOf": 999983})", {"1"}, {"1.5"}, {"#: multipleOf"});
}

TEST_CASE("a pattern matches anywhere, between its anchors") {
  check(R"({"type": "string", "pattern": "ab"})", {R"("ab")", R"("xabx")", R"("éab")"},
        {R"("a")", R"("")", R"("ba")"});
  check(R"({"type": "string", "pattern": "^[a-c]+$"})", {R"("abc")"}, {R"("")", R"("abd")"});
  check(R"({"type": "string", "pattern": "^a|b$"})", {R"("ax")", R"("xb")"},
        {R"("xa")", R"("bx")"});
  check(R"j({"type": "string", "pattern": "(^|,)x(,|$)"})j", {R"("x")", R"("a,x,b")"},
        {R"("ax")", R"("x b")"});
  check(R"({"pattern": "^\\d{2,3}-\\w\\s?$"})", {R"("12-a")", R"("123-_ ")"},
        {R"("1-a")", R"("1234-a")", R"("12-")"});
  check(R"({"pattern": "^(?:a|bc){2}x*$"})", {R"("abc")", R"("bcaxx")"}, {R"("a")", R"("aaa")"});
  check(R"({"pattern": "^[^a-y\\]]$"})", {R"("z")", R"("é")", R"("\n")", R"("\"")", R"("€")"},
        {R"("a")", R"("]")", R"("zz")"});
  check(R"({"pattern": "^\\u00e9\\x41\\t\\.$"})", {R"("éA\t.")"}, {R"("éA\tx")"});
  check(R"({"pattern": "^a{,2}$"})", {R"("a{,2}")"}, {R"("aa")"});
  check(R"({"pattern": "^.$"})", {R"("a")", R"("𝄞")"}, {R"("\n")", R"("ab")"});
}

TEST_CASE("lookaheads hold for all that follows them") {
  check(R"({"pattern": "^(?=.*\\d)(?!.*x)[a-z0-9]{3,}$"})", {R"("ab1")", R"("1234")"},
        {R"("abc")", R"("a1")", R"("ax1")"});
  check(R"({"pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})", {R"("1.5")", R"("-0")", R"("+.5")"},
        {R"("")", R"("-")", R"(".")", R"("x")"});
}

TEST_CASE("patterns, formats and lengths hold together") {
  check(R"({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3})",
        {R"("ab")", R"("abc")"}, {R"("a")", R"("abcd")", R"("A1")"});
  check(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "maxLength": 3})",
        {R"("ab")", R"("bxa")"}, {R"("aa")", R"("axxb")"});
  check(R"({"type": "string", "format": "date", "pattern": "^2024-02-"})", {R"("2024-02-29")"},
        {R"("2024-03-01")", R"("2024-02-30")"});
  check(R"({"enum": ["a", "bb", 3, 700], "pattern": "^b", "maximum": 100})", {"\"bb\"", "3"},
        {"\"a\"", "700"});
}

TEST_CASE("formats have the texts of their standards") {
  check(
      R"({"format": "date"})", {R"("2023-12-31")", R"("2000-02-29")"},
      {R"("2023-02-29")", R"("1900-02-29")", R"("2023-13-01")", R"("0000-01-01")", R"("23-1-1")"});
  check(R"({"format": "date-time"})",
        {R"("2023-12-31T23:59:59Z")", R"("2023-12-31T00:00:00.123456+05:30")"},
        {R"("2023-12-31")", R"("2023-12-31T24:00:00Z")", R"("2023-12-31 00:00:00Z")"});
  check(R"({"format": "time"})", {R"("12:00:00Z")"}, {R"("12:00")", R"("12:60:00Z")"});
  check(R"({"format": "duration"})", {R"("P1DT2H")", R"("PT5M30S")", R"("P2W")"},
        {R"("P")", R"("PT")", R"("1D")"});
  check(R"({"format": "uuid"})", {R"("01234567-89ab-cdef-0123-456789ABCDEF")"},
        {R"("0123456789abcdef0123456789abcdef")"});
  check(R"({"format": "email"})", {R"("a.b+c@mail.example.org")"},
        {R"("a@b")", R"("@b.org")", R"("a b@c.org")"});
  check(R"({"format": "ipv4"})", {R"("0.10.199.255")"}, {R"("256.1.1.1")", R"("01.1.1.1")"});
  check(R"({"format": "ipv6"})", {R"("::1")", R"("2001:db8::1")"}, {R"(":::")", R"("1::2::3")"});
  check(R"({"format": "uri", "maxLength": 2083})", {R"("https://a.example.org:80/x?y=%20#z")"},
        {R"("example.org")", R"("http://")"});
  check(R"({"format": "email", "maxLength": 30})", {R"("a@b.org")"},
        {R"("abcdefghijklmnopqrstuvwxyz@b.org")"});
  check(R"({"format": "binary"})", {R"("anything")"}, {"3"});
  check(R"({"format": "colour"})", {R"("red")"}, {"3"}, {"#: format (unknown)"});
}

TEST_CASE("tuples have an item for each place") {
  check(R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": false, "minItems": 2})",
        {R"([1, "a"])"}, {"[]", "[1]", R"(["a", 1])", R"([1, "a", 2])"});
  check(R"({"prefixItems": [{"type": "integer"}, {"type": "string"}]})",
        {"[]", "[1]", R"([1, "a"])"}, {R"([1, "a", 2])", "[\"a\"]"});
  check(R"({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}})",
        {"[]", "[1]", "[1, null, null]"}, {"[null]", "[1, 2]"});
  check(R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "maxItems": 2})",
        {"[1, null]"}, {"[1, null, null]"});
  check(R"({"items": false})", {"[]"}, {"[1]"});
}

TEST_CASE("items of few values can be kept different") {
  check(R"({"items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 1})",
        {R"(["c", "a"])", R"(["b"])", R"(["b", "c", "a"])"},
        {"[]", R"(["a", "a"])", R"(["a", "b", "a"])"});
  check(R"({"items": {"$ref": "#/$defs/e"}, "uniqueItems": true, "maxItems": 2,
            "$defs": {"e": {"enum": [1, 2, 3]}}})",
        {"[3, 1]"}, {"[1, 1]", "[1, 2, 3]"});
  check(R"({"items": {"type": "integer"}, "uniqueItems": true})", {"[1, 1]"}, {"[a]"},
        {"#: uniqueItems"});
}

TEST_CASE("properties beside the listed ones come where the schema speaks of them") {
  const char *typed = R"({"type": "object", "properties": {"a": {"type": "string"}},
      "required": ["a"], "additionalProperties": {"type": "integer"}})";
  check(typed, {R"({"a": "x"})", R"({"a": "x", "b": 1, "ab": 2})"},
        {R"({"b": 1})", R"({"a": "x", "b": "y"})", R"({"a": "x", "a": 1})", R"({"a": 1})"});
  check(R"({"properties": {"a": {"type": "null"}}, "additionalProperties": true})",
        {R"({"a": null, "b": [1]})", R"({"b": 1})", "{}"}, {R"({"a": 1})"});
  check(R"({"patternProperties": {"^n": {"type": "null"}, "t$": {"type": "boolean"}}})",
        {R"({"n": null, "t": true})", "{}"}, {R"({"n": true})", R"({"x": 1})", R"({"nt": null})"});
  check(
      R"({"properties": {"na": {"enum": [null, 1]}}, "patternProperties": {"^n": {"type": "null"}},
            "additionalProperties": false})",
      {R"({"na": null, "nb": null})"}, {R"({"na": 1})", R"({"x": null})"});
  check(R"({"propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "integer"}})",
        {R"({"x": 1, "y": 2})", "{}"}, {R"({"z": 1})"});
}

TEST_CASE("properties are counted") {
  check(R"({"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 1, "maxProperties": 2})",
        {R"({"a": 1})", R"({"a": 1, "c": 1})"}, {"{}", R"({"a": 1, "b": 1, "c": 1})"});
  check(R"({"type": "object", "minProperties": 1, "maxProperties": 2})", {R"({"a": 1})"},
        {"{}", R"({"a": 1, "b": 1, "c": 1})"});
  // Names may repeat, so that three members may be fewer properties.
  check(R"({"type": "object", "minProperties": 3})", {R"({"a": 1})"}, {"[]"}, {"#: minProperties"});
}

TEST_CASE("what stands beside alternatives and references holds in each of them") {
  check(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
            "anyOf": [{"properties": {"b": {"type": "null"}}, "required": ["b"]},
                      {"properties": {"a": {"minimum": 5}}}]})",
        {R"({"a": 1, "b": null})", R"({"a": 7})"}, {R"({"a": 1})", R"({"b": null})"});
  check(R"({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"y": {"type": "integer"}}}],
            "$defs": {"base": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}})",
        {R"({"x": 1, "y": 2})", R"({"x": 1})"}, {R"({"y": 2})"});
  check(R"({"$ref": "#/$defs/n", "maximum": 3, "$defs": {"n": {"type": "integer", "minimum": 2}}})",
        {"2", "3"}, {"1", "4"});
  check(R"({"type": ["integer", "string"], "enum": [1, "a", null]})", {"1", "\"a\""}, {"null"});
  check(R"({"type": "string", "nullable": true})", {"null", "\"a\""}, {"1"});
  // A list whose items extend the list's own schema.
  check(R"({"type": "object", "properties": {"next": {"$ref": "#", "description": "d"},
            "n": {"allOf": [{"$ref": "#/$defs/i"}, {"minimum": 0}]}},
            "$defs": {"i": {"type": "integer"}}})",
        {R"({"next": {"next": {}, "n": 1}, "n": 2})"}, {R"({"n": -1})"});
}

TEST_CASE("oneOf is kept where a value fits one alternative only") {
  const char *tagged = R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}},
      {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}}],
      "discriminator": {"propertyName": "kind"}})";
  check(tagged, {R"({"kind": "cat", "lives": 9})", R"({"kind": "dog"})"},
        {"{}", R"({"kind": "dog", "lives": 9})", R"({"lives": 9})"});
  check(R"({"oneOf": [{"type": "integer"}, {"type": "null"}]})", {"1", "null"}, {"true"});
  check(R"({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]})", {"1", "2.5"}, {},
        {"#: oneOf (a value may fit several)"});
  check(R"({"oneOf": [{"enum": [1, {"a": 1, "b": 2}]}, {"enum": [2, {"b": 2, "a": 1.0}]}]})",
        {"1", "2"}, {}, {"#: oneOf (a value may fit several)"});
}

TEST_CASE("enumerations of very many values are told from each other in a short time") {
  Json schema = {{"oneOf", Json::array()}};
  for (int i = 0; i < 64; ++i) {
    Json values = Json::array();
    for (int j = 0; j < 2000; ++j)
      values.push_back(i * 100 + j % 100);
    schema["oneOf"].push_back({{"enum", values}});
  }
  const auto made = grammarOfSchema(schema);
  REQUIRE(made.isOk());
  CHECK(made->unenforced.empty());
}

TEST_CASE("keywords that no grammar keeps are named with their places") {
  check(R"({"type": "object", "properties": {"x": {"type": "integer", "if": {}, "then": {}},
            "y": {"not": {}, "x-order": 3, "title": "Y"}}})",
        {R"({"x": 1})"}, {R"({"x": "1"})"},
        {"#/properties/x: if", "#/properties/x: then", "#/properties/y: not"});
  check(R"({"pattern": "^(a)\\1$"})", {R"("b")"}, {}, {R"(#: pattern (has the escape '\1'))"});
  check(R"({"pattern": "\\bx"})", {R"("b")"}, {}, {R"(#: pattern (has the escape '\b'))"});
  check(R"({"pattern": "(?<=a)b"})", {R"("b")"}, {}, {"#: pattern (has a lookbehind)"});
  check(R"({"pattern": "a{2000}"})", {R"("b")"}, {},
        {"#: pattern (has a count of more than 1024)"});
  check(R"({"type": "string", "maxLength": 5000})", {R"("b")"}, {}, {"#: maxLength"});
  check(R"({"type": "array", "maxItems": 5000})", {"[1]"}, {}, {"#: maxItems"});
  Json many = Json::object();
  for (int i = 0; i < 3000; ++i)
    many[strCat("keyword ", i)] = i;
  const auto made = grammarOfSchema(many);
  REQUIRE(made.isOk());
  CHECK(made->unenforced.size() > 100);
  CHECK(made->unenforced.size() < 200);
  CHECK(made->unenforced.back() == "and others");
}

TEST_CASE("patterns of very many states are left out before they take long") {
  check(R"({"type": "string", "pattern": "(a|b)*a(a|b){20}$"})", {R"("b")"}, {"1"}, {"#: pattern"});
  check(R"({"type": "string", "pattern": "^((a{500}){500}){500}$"})", {R"("b")"}, {"1"},
        {"#: pattern"});
  // The lengths are left out first.
  check(R"({"type": "string", "pattern": "^(a|bc|[d-f]+)*x{0,200}$", "maxLength": 900})",
        {R"("bcax")"}, {R"("bx")"}, {"#: maxLength"});
  // Parts that are in many others.
  std::string ahead, empty;
  for (int i = 0; i < 60; ++i) {
    ahead += "(?:a|b(?=b))";
    empty += "(?:a?|b?(?=b))";
  }
  check((R"({"type": "string", "pattern": "^)" + ahead + R"($"})").c_str(),
        {('"' + std::string(60, 'a') + '"').c_str()}, {R"("a")"});
  check((R"({"type": "string", "pattern": "^)" + empty + R"($"})").c_str(), {R"("a")"}, {"1"},
        {"#: pattern (too many steps)"});
}

TEST_CASE("what follows patterns of very many steps is kept, other patterns are left out") {
  std::string pattern = "^";
  for (int i = 0; i < 60; ++i)
    pattern += "(?:a?|b?(?=b))";
  const Json slow = {{"type", "string"}, {"pattern", pattern + "$"}};
  const Json schema = {
      {"type", "object"},
      {"properties",
       {{"slow", slow},
        {"open", Json::parse(R"({"type": "object", "properties": {"a": {"type": "null"}},
            "additionalProperties": {"type": "integer"}})")},
        {"names", Json::parse(R"({"enum": ["a", "b"], "pattern": "^a"})")},
        {"length", Json::parse(R"({"enum": ["a", "ab"], "maxLength": 1})")}}}};
  const auto made = grammarOfSchema(schema);
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  for (const char *text : {R"({"open": {"a": null, "b": 1}})", R"({"names": "b"})",
                           R"({"length": "a"})", R"({"slow": "c"})"})
    CHECK_MESSAGE(matches(made->grammar, text), text);
  for (const char *text : {R"({"open": {"a": 1}})", R"({"names": "c"})", R"({"length": "ab"})"})
    CHECK_FALSE_MESSAGE(matches(made->grammar, text), text);
  CHECK(made->unenforced ==
        std::vector<std::string>{"#/properties/names: pattern (too many steps)",
                                 "#/properties/slow: pattern (too many steps)"});
}

TEST_CASE("sets are full by their parts and ranges as well, until they are cleared") {
  StringSets sets;
  std::vector<StringSets::Set> parts;
  for (uint32_t i = 0; i < 1000; ++i)
    parts.push_back(sets.text(strCat(i, " ")));
  while (!sets.isFull()) {
    parts.push_back(sets.text(strCat(parts.size(), " ")));
    sets.unionOf(parts);
  }
  CHECK(parts.size() < 1200);
  sets.clear();
  CHECK_FALSE(sets.isFull());
  std::vector<CodePointSet::Range> ranges;
  for (uint32_t i = 0; i < 1000; ++i)
    ranges.push_back({2 * i, 2 * i});
  while (!sets.isFull()) {
    ranges.push_back({2 * static_cast<uint32_t>(ranges.size()), CodePointSet::kLast});
    sets.character(CodePointSet(ranges));
    ranges.back().last = ranges.back().first;
  }
  CHECK(ranges.size() < 1200);
}

TEST_CASE("sets that were cleared after very many steps are there again") {
  StringSets sets;
  const StringSets::Set two = sets.text("ab");
  while (!sets.isFull())
    sets.has(two, "ab");
  sets.clear();
  CHECK(sets.size() > StringSets::kAll);
  CHECK(sets.has(StringSets::kAll, "a"));
}

// Valid values are often spelled in ways, or have properties, that no grammar generates.
TEST_CASE("no value that the published tests of JSON Schema call invalid is generated") {
  std::ifstream file(MOE_TEST_DATA_DIR "/schemas/suite.jsonl");
  int schemas = 0, generated = 0;
  for (std::string line; std::getline(file, line); ++schemas) {
    const Json test = Json::parse(line);
    CAPTURE(line);
    auto made = grammarOfSchema(test["schema"]);
    REQUIRE_MESSAGE(made.isOk(), made.status().message());
    CHECK(made->unenforced.empty());
    for (const Json &value : test["invalid"])
      CHECK_FALSE_MESSAGE(matches(made->grammar, value.dump()), value.dump());
    for (const Json &value : test["valid"])
      generated += matches(made->grammar, value.dump());
  }
  CHECK(schemas == 91);
  CHECK(generated > 100);
}
