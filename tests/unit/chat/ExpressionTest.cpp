// Small templates against jinja2: tests/data/chat/make.py documents the version and the method.
#include "tests/unit/chat/ChatTestData.h"

using namespace moert;

namespace {

// The wording of errors is the program's own; jinja2's is in the data for comparison.
bool isError(const nlohmann::ordered_json &expected) {
  return expected.contains("error");
}

bool isRefused(const nlohmann::ordered_json &expected) {
  return expected.contains("refused");
}

} // namespace

TEST_CASE("small templates render as jinja2 renders them") {
  const nlohmann::ordered_json data = readChatJson("expressions.json");
  size_t compared = 0;
  for (const auto &expected : data["cases"]) {
    if (isError(expected) || isRefused(expected))
      continue;
    const std::string source = expected["template"];
    CAPTURE(source);
    const Result<std::string> text = renderText(source, data["context"]);
    CHECK_MESSAGE(text.isOk(), text.status().message());
    if (text.isOk())
      CHECK(text.value() == expected["text"].get<std::string>());
    ++compared;
  }
  CHECK(compared > 650);
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

TEST_CASE("what jinja2 renders and this program does not is refused by its name, with the line") {
  const nlohmann::ordered_json data = readChatJson("expressions.json");
  size_t refused = 0;
  for (const auto &expected : data["cases"]) {
    if (!isRefused(expected))
      continue;
    const std::string source = expected["template"];
    CAPTURE(source);
    const Result<std::string> text = renderText(source, data["context"]);
    REQUIRE(!text.isOk());
    CHECK(text.status().message() == "test: line 1: " + expected["refused"].get<std::string>());
    ++refused;
  }
  CHECK(refused > 150);
}
