// Small templates against jinja2: tests/data/chat/make.py documents the version and the method.
#include "tests/unit/chat/ChatTestData.h"

using namespace moert;

namespace {

// The wording of errors is the program's own; jinja2's is in the data for comparison.
bool isError(const nlohmann::ordered_json &expected) {
  return expected.contains("error");
}

} // namespace

TEST_CASE("small templates render as jinja2 renders them") {
  const nlohmann::ordered_json data = readChatJson("expressions.json");
  size_t compared = 0;
  for (const auto &expected : data["cases"]) {
    if (isError(expected))
      continue;
    const std::string source = expected["template"];
    CAPTURE(source);
    const Result<std::string> text = renderText(source, data["context"]);
    CHECK_MESSAGE(text.isOk(), text.status().message());
    if (text.isOk())
      CHECK(text.value() == expected["text"].get<std::string>());
    ++compared;
  }
  CHECK(compared > 900);
}

TEST_CASE("templates that jinja2 refuses are refused, with the line") {
  const nlohmann::ordered_json data = readChatJson("expressions.json");
  size_t refused = 0;
  for (const auto &expected : data["cases"]) {
    if (!isError(expected))
      continue;
    const std::string source = expected["template"];
    CAPTURE(source);
    CAPTURE(expected["error"].get<std::string>());
    const Result<std::string> text = renderText(source, data["context"]);
    CHECK(!text.isOk());
    if (text.isOk())
      continue;
    CHECK(text.status().code() == StatusCode::kInvalidInput);
    CHECK(text.status().message().starts_with("test: line 1: "));
    ++refused;
  }
  CHECK(refused > 130);
}

TEST_CASE("floats are raised to powers as Python does, without libm") {
  const std::pair<const char *, const char *> cases[] = {
      {"3.0 ** 2", "9.0"},
      {"10 ** -3", "0.001"},
      {"7 ** 0.5", "2.6457513110645907"},
      {"2.0 ** -1074", "5e-324"},
      {"2.0 ** -1e300", "0.0"},
      {"0.5 ** 1e300", "0.0"},
      {"(-2.0) ** 3", "-8.0"},
      {"(-2.0) ** -2", "0.25"},
      {"(-1.0) ** 1e300", "1.0"},
      {"0.0 ** 0", "1.0"},
      {"1.0 ** 1e300", "1.0"},
      {"('inf'|float) ** -1", "0.0"},
      {"('-inf'|float) ** 3", "-inf"},
      {"('-inf'|float) ** 0.5", "inf"},
      {"0.5 ** ('inf'|float)", "0.0"},
      {"('nan'|float) ** 0", "1.0"},
      {"('nan'|float) ** 2", "nan"},
      {"12345.678|round(-2)", "12300.0"},
      {"0.15|round(1, 'ceil')", "0.2"},
  };
  for (const auto &[source, expected] : cases) {
    CAPTURE(source);
    const Result<std::string> text =
        renderText("{{ " + std::string(source) + " }}", nlohmann::ordered_json::object());
    REQUIRE_MESSAGE(text.isOk(), text.status().message());
    CHECK(text.value() == expected);
  }
}
