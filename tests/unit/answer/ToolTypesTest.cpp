#include "tests/unit/answer/Reading.h"

using namespace moert;

TEST_CASE("a value has a type that its parameter may have") {
  const ToolTypes types(Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
    {"properties": {"s": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean"},
     "o": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "e": {"enum": ["1", "2"]},
     "u": {"type": ["string", "null"]}, "any": {}}}}}, 3, {"function": 4}])"));
  const std::vector<std::array<const char *, 3>> cases = {
      {"s", "12", "\"12\""},     {"s", " x\n", "\" x\\n\""}, {"n", " 12 ", "12"},
      {"n", "many", "\"many\""}, {"b", "True", "true"},      {"b", "false", "false"},
      {"o", "null", "null"},     {"o", "None", "null"},      {"o", "7", "7"},
      {"e", "1", "\"1\""},       {"u", "null", "null"},      {"u", "7", "\"7\""},
      {"any", "[1]", "[1]"},     {"any", "x", "\"x\""},      {"unknown", "True", "\"True\""},
  };
  for (const auto &[name, text, expected] : cases) {
    CAPTURE(name);
    CAPTURE(text);
    CHECK(types.valueOf("f", name, text) == expected);
  }
  CHECK(types.valueOf("g", "x", "5") == "5");
}
