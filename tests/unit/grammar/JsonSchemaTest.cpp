// Schemas: the texts that their grammars take and refuse, and the keywords that are refused.
#include "tests/unit/grammar/Checking.h"

using namespace moert;
using namespace moert::test;
TEST_CASE("values of each type are JSON and nothing else is") {
  check(R"({"type": "string"})", {R"("")", R"("aé\n\"\u00e9€𝄞")"},
        {"\"\n\"", "\"\xFF\"", "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", R"("\ud800")", R"("\x")", "a",
         R"("a)"});
  check(R"({"type": "integer"})", {"0", "-7", "1234567890123456"},
        {"", "-", "01", "1.0", "1e5", "12345678901234567"});
  check(R"({"type": "number"})", {"0", "-0.5", "12.25e-10", "1E+9"},
        {".5", "1.", "1e", "+1", "1e100"});
  check(R"({"type": "boolean"})", {"true", "false"}, {"True", "1"});
  check(R"({"type": "null"})", {"null"}, {"nul", "None"});
  check(R"({"type": ["integer", "null"]})", {"3", "null"}, {"true", "\"3\""});
  check("{}", {"3", "null", R"([1, {"a": []}])", R"({"a": {"b": "c"}})"}, {"[1,]", "{a: 1}"});
}

TEST_CASE("objects have their properties in order, and optional ones may be missing") {
  const char *schema = R"({"type": "object", "properties": {"a": {"type": "integer"},
      "b": {"type": "string"}, "c": {"type": "boolean"}}, "required": ["b"],
      "additionalProperties": false})";
  check(schema, {R"({"b":"x"})", R"({"a": 1, "b": "x"})", R"({"b": "x", "c": true})", R"({
  "a": 1,
  "b": "x",
  "c": false
})"},
        {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"b": 1})", R"({"b": "x",})",
         R"({"b": "x", "d": 1})", R"({"b": "x" "c": true})"});
  check(R"({"type": "object"})", {"{}", R"({"any": [1], "thing": null})"}, {"[]", "{1:2}"});
  check(R"({"type": "object", "additionalProperties": {"type": "integer"}})",
        {"{}", R"({"x": 1, "y": 2})"}, {R"({"x": "1"})"});
  check(R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x": 1})"});
  check(R"({"type": "object", "properties": {"a": {}}, "required": ["a", "z"]})",
        {R"({"a": 1, "z": [2]})"}, {R"({"a": 1})"});
}

TEST_CASE("arrays and strings keep the bounds of their lengths") {
  check(R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[1, 2,3]"},
        {"[,]", "[a]"});
  check(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
        {"[1,2]", "[1, 2, 3]"}, {"[]", "[1]", "[1,2,3,4]"});
  check(R"({"type": "array", "minItems": 2})", {"[1,2]", "[1,2,3,4,5]"}, {"[]", "[1]"});
  check(R"({"type": "array", "maxItems": 1})", {"[]", "[true]"}, {"[1,2]"});
  check(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  check(R"({"type": "string", "minLength": 2, "maxLength": 3})", {R"("ab")", R"("é\u00e9€")"},
        {R"("")", R"("a")", R"("abcd")"});
  check(R"({"type": "string", "minLength": 1})", {R"("abcdef")"}, {R"("")"});
}

TEST_CASE("enumerations, alternatives and references are followed") {
  check(R"({"enum": [1, 2], "const": 2})", {"2"}, {"1"});
  check(R"({"enum": ["red", 3, null, {"a": [1]}]})", {"\"red\"", "3", "null", R"({"a":[1]})"},
        {"\"blue\"", "4"});
  check(R"({"type": "string", "enum": ["red", 3]})", {"\"red\""}, {"3"});
  check(R"({"const": "é\n"})", {"\"é\\n\""}, {"\"e\""});
  check(R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]})",
        {"5", "[null]"}, {"[5]"});
  check(R"({"allOf": [{"type": "integer"}]})", {"5"}, {"null"});
  check(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
         {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"],
         "additionalProperties": false}}})",
        {R"({"next": null})", R"({"next": {"next": null}})"}, {R"({"next": 1})"});
  check(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[], [[]]]"}, {"[1]"});
  check(R"({"properties": {"a/b~c": {"type": "null"}, "x": {"$ref": "#/properties/a~1b~0c"}},
         "required": ["x"]})",
        {R"({"x": null})"}, {R"({"x": 1})"});
}

TEST_CASE("faults of a schema are refused by name and place") {
  CHECK(refusalOf(R"({"type": "text"})") == "#/type: \"text\", expected object, array, string, "
                                            "number, integer, boolean or null");
  CHECK(refusalOf(R"({"$ref": "http://x"})") ==
        "#/$ref: \"http://x\", expected a place in this schema, such as \"#/$defs/name\"");
  CHECK(refusalOf(R"({"$ref": "#/$defs/x"})") == "#/$ref: there is no #/$defs/x in this schema");
  CHECK(refusalOf(R"({"$ref": "#"})") == "#: it refers to itself without any text between");
  CHECK(refusalOf(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})") ==
        "#/anyOf/0: it refers to itself without any text between");
  CHECK(refusalOf(R"({"enum": []})") == "#/enum: expected an array that is not empty");
  CHECK(refusalOf(R"({"type": "array", "minItems": -1})") ==
        "#/minItems: -1, expected a whole number");
  CHECK(refusalOf(R"({"type": "integer", "multipleOf": 0})") ==
        "#/multipleOf: 0, expected a number above 0");
  CHECK(refusalOf(R"({"properties": {"a/b": 3}})") ==
        "#/properties/a~1b is 3, expected an object or a boolean");
}

TEST_CASE("schemas that no value fits are refused with what contradicts") {
  CHECK(refusalOf("false") == "# is false");
  CHECK(refusalOf(R"({"type": "integer", "enum": ["a"]})") ==
        "#: no value of 'enum' or 'const' fits the other keywords");
  CHECK(refusalOf(R"({"type": "array", "minItems": 3, "maxItems": 2})") ==
        "#: 'maxItems' 2 is below 'minItems' 3");
  CHECK(refusalOf(R"({"required": ["a"], "additionalProperties": false})") ==
        "#/required: 'a' is not among the properties, and no others are allowed");
  CHECK(refusalOf(R"({"allOf": [{"type": "string"}, {"type": "null"}]})") == "#: no type is left");
  CHECK(refusalOf(R"({"type": "number", "minimum": 2, "maximum": 1})") ==
        "#: the maximum is below the minimum");
  CHECK(refusalOf(R"({"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7})") ==
        "#: no value fits the schema");
  CHECK(refusalOf(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})") ==
        "#: no value fits the schema");
  // An alternative or an optional property that no value fits is left out.
  check(R"({"anyOf": [{"type": "null"}, false, {"enum": ["a"], "type": "integer"}]})", {"null"},
        {"\"a\""});
  check(R"({"type": "object", "properties": {"a": false, "b": {}}})", {"{}", R"({"b": 1})"},
        {R"({"a": 1})"});
}

TEST_CASE("references that begin with each other are refused where there are too many") {
  auto chained = [](int to) {
    return Json{{"anyOf", Json::array({{{"$ref", "#/$defs/" + std::to_string(to)}}})}};
  };
  Json schema = chained(0);
  for (int i = 0; i < 100; ++i)
    schema["$defs"][std::to_string(i)] = chained(i + 1);
  schema["$defs"]["100"] = {{"type", "null"}};
  CHECK(matches(grammarOfSchema(schema)->grammar, "null"));
  for (int i = 100; i < 3000; ++i)
    schema["$defs"][std::to_string(i)] = chained(i + 1);
  schema["$defs"]["3000"] = {{"type", "null"}};
  CHECK(grammarOfSchema(schema).status().message().find("rules begin with each other, expected at "
                                                        "most 2048") != std::string::npos);
}

TEST_CASE("references to many places in large objects are refused before they take long") {
  Json schema = {{"anyOf", Json::array()}};
  Json::object_t definitions;
  for (int i = 0; i < 5000; ++i) {
    definitions.Json::object_t::Container::emplace_back(std::to_string(i), Json{{"type", "null"}});
    schema["anyOf"].push_back({{"$ref", "#/$defs/" + std::to_string(i)}});
  }
  schema["$defs"] = std::move(definitions);
  CHECK(grammarOfSchema(schema).status().message().find(
            "compares more than 16777216 members; expected fewer references or smaller objects") !=
        std::string::npos);
}

TEST_CASE("an enumeration of many values that begin alike keeps all of them") {
  Json values = Json::array({"value", "value 7", "", 7, true, Json::array({"value"})});
  for (int i = 0; i < 6000; ++i)
    values.push_back("value " + std::to_string(i));
  const auto grammar = grammarOfSchema({{"enum", values}});
  REQUIRE(grammar.isOk());
  for (const char *text : {R"("value")", R"("")", "7", "true", R"(["value"])", R"("value 0")",
                           R"("value 599")", R"("value 5999")"})
    CHECK_MESSAGE(matches(grammar->grammar, text), text);
  for (const char *text : {R"("value )", R"("value 6000")", R"("value 70000")", "77", "t", "[]"})
    CHECK_FALSE_MESSAGE(matches(grammar->grammar, text), text);
}

TEST_CASE("without a schema any object is described") {
  const Grammar grammar = grammarOfJsonObject();
  REQUIRE_FALSE(grammar.findFault());
  CHECK(matches(grammar, R"({"a": [1, 2.5, "x", null, {"b": true}]})"));
  CHECK(matches(grammar, "{}"));
  CHECK_FALSE(matches(grammar, "[]"));
}

TEST_CASE("a part of a schema that begins in too many ways is refused with its place") {
  std::string nested;
  for (int i = 0; i < 40; ++i) {
    nested += R"({"anyOf": [{"type": "string"})";
    for (int j = 0; j < 40; ++j)
      nested += strCat(R"(, {"const": )", i * 40 + j, "}");
    nested += "]},";
  }
  nested.pop_back();
  CHECK(refusalOf(
            (R"({"type": "object", "properties": {"x": {"anyOf": [)" + nested + "]}}}").c_str()) ==
        "#/properties/x: a text can begin in 1640 ways, expected at most 1024; fewer "
        "alternatives or optional properties help");
  CHECK(refusalOf(("{\"anyOf\": [" + nested + "]}").c_str()).find("#: a text can") == 0);
  // The same alternative again is no other way.
  std::string same;
  for (int i = 0; i < 2000; ++i)
    same += R"({"type": "array", "items": {"type": "null"}},)";
  same.pop_back();
  CHECK(grammarOfSchema(Json::parse("{\"anyOf\": [" + same + "]}")).isOk());
}

TEST_CASE("a grammar's memory is known and bounded") {
  const Grammar small = grammarOfJsonObject();
  CHECK(small.memoryBytes() < 32 * 1024);
  Json values = Json::array();
  for (int i = 0; i < 8'000; ++i)
    values.push_back(i * 7919);
  const auto large = grammarOfSchema({{"enum", values}});
  REQUIRE(large.isOk());
  CHECK(large->grammar.memoryBytes() > small.memoryBytes());
  CHECK(large->grammar.memoryBytes() < kGrammarBuildBytes / 2);
  for (int i = 0; i < 30'000; ++i)
    values.push_back(strCat("text ", i));
  CHECK(grammarOfSchema({{"enum", values}}).status().message().find("expected at most 100000") !=
        std::string::npos);
}
