#include "tools/moert-serve/ToolCallText.h"

#include <doctest/doctest.h>

using namespace moert::serve;

namespace {

struct Read {
  std::string text;
  std::vector<ToolCall> calls;
};

/// In pieces of so many bytes.
Read read(std::string_view answer, size_t pieceBytes) {
  ToolCallText tools;
  Read result;
  for (size_t at = 0; at < answer.size(); at += pieceBytes)
    result.text += tools.feed(answer.substr(at, pieceBytes));
  result.text += tools.finish();
  result.calls = tools.calls();
  return result;
}

const std::string kCall = R"(<tool_call>
{"name": "sail", "arguments": {"to": "<sea>", "knots": [1, 2]}}
</tool_call>)";

} // namespace

TEST_CASE("calls are separated from the text, however it is cut") {
  for (size_t bytes : {1, 3, 7, 1000}) {
    CAPTURE(bytes);
    const Read one = read("I will sail. " + kCall, bytes);
    CHECK(one.text == "I will sail. ");
    REQUIRE(one.calls.size() == 1);
    CHECK(one.calls[0].name == "sail");
    CHECK(one.calls[0].arguments == R"({"to":"<sea>","knots":[1,2]})");
    const Read two = read(kCall + "\n" + kCall, bytes);
    CHECK(two.text.empty());
    CHECK(two.calls.size() == 2);
  }
}

TEST_CASE("text that is no call stays text") {
  for (size_t bytes : {1, 5, 1000})
    for (std::string_view text : {"a < b", "<tool", "<tool_call>", "<tool_call>{\"name\": 3}",
                                  "<tool_call>{\"name\": \"x\"}</tool_call>",
                                  "<tool_call>[1]</tool_call>", "<tool_calls>"}) {
      CAPTURE(text);
      const Read plain = read(text, bytes);
      CHECK(plain.text == text);
      CHECK(plain.calls.empty());
    }
  const Read both = read(kCall + " and more", 4);
  CHECK(both.text == kCall + " and more");
  CHECK(both.calls.empty());
}

TEST_CASE("a call whose end is missing is read, and one that is nested without bound is not") {
  CHECK(read(R"(<tool_call>{"name": "x", "arguments": "{}"})", 4).calls.size() == 1);
  CHECK(read("<tool_call>{\"name\": \"x\", \"arguments\": " + std::string(9000, '['), 100)
            .calls.empty());
}
