// Streams of calls, an event after each token.
#include "tools/moert-serve/ApiReply.h"

#include "tests/unit/tokenizer/TestTokenizers.h"

#include <string>
#include <vector>

using namespace moert;
using namespace moert::serve;

namespace {

const AnswerFormat kFormat("<tool_call>");

/// An answer whose tokens come one by one.
class Stream {
public:
  explicit Stream(bool allowsCalls = true, bool isResponse = false)
      : tokenizer(load(smallTokenizer())) {
    ApiCall call;
    call.isChat = call.isStreamed = true;
    call.streamsUsage = isResponse;
    call.sequences.resize(1);
    call.answers = &kFormat;
    call.toolCalls = kFormat.calls();
    call.allowsCalls = allowsCalls;
    if (isResponse)
      call.response = serve::Json::object();
    reply.emplace(ReplyHead{"1", "m", 0}, std::move(call), tokenizer.tokenizer,
                  std::vector{answer});
  }

  /// The events after this text.
  std::string after(const std::string &text) {
    answer->addPiece({0, text});
    reply->collect(std::chrono::milliseconds(0));
    return reply->takeEvents();
  }
  /// The delta of one event; null without any.
  serve::Json delta(const std::string &text) {
    const std::string events = after(text);
    if (events.empty())
      return {};
    return serve::Json::parse(events.substr(events.find('{')))["choices"][0]["delta"];
  }
  std::string end(AnswerEnd how = AnswerEnd::kStop) {
    answer->end(how);
    reply->collect(std::chrono::milliseconds(0));
    return reply->takeEvents();
  }

private:
  LoadedTokenizer tokenizer;
  std::shared_ptr<Answer> answer = std::make_shared<Answer>(); // As with the scheduler.
  std::optional<ApiReply> reply;
};

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a call is streamed from its name on, and its arguments as they are generated") {
  Stream stream;
  CHECK(stream.delta("<tool_call>").is_null());
  CHECK(stream.delta("{\"name\": \"f\", \"arguments\": ").is_null());
  const serve::Json first = stream.delta("{\"a\"");
  CHECK(first["role"] == "assistant");
  CHECK_FALSE(first.contains("content"));
  const serve::Json &call = first["tool_calls"][0];
  CHECK(call["index"] == 0);
  CHECK(call["id"] == "call_1_0_0");
  CHECK(call["function"] == serve::Json{{"name", "f"}, {"arguments", "{\"a\""}});
  const serve::Json next = stream.delta(": 1}");
  CHECK(next ==
        serve::Json{{"tool_calls", {{{"index", 0}, {"function", {{"arguments", ": 1}"}}}}}}});
  CHECK(stream.delta("}").is_null());
  CHECK(stream.delta("</tool_call>").is_null());
  CHECK(stream.delta("<tool_call>{\"name\": \"g\"}").is_null());
  const serve::Json second = stream.delta("</tool_call>")["tool_calls"][0];
  CHECK(second["index"] == 1);
  CHECK(second["function"] == serve::Json{{"name", "g"}, {"arguments", "{}"}});
  CHECK(has(stream.end(), "\"finish_reason\":\"tool_calls\""));
}

TEST_CASE("calls after the first are left out where one is allowed") {
  Stream stream(false);
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  CHECK(has(stream.after(call), "\"tool_calls\""));
  CHECK(stream.after(call).empty());
  CHECK(has(stream.end(), "\"finish_reason\":\"tool_calls\""));
}

TEST_CASE("a call that is cut off keeps its beginning, and one that is none its text") {
  Stream cut;
  CHECK(has(cut.after("<tool_call>{\"name\": \"f\", \"arguments\": {\"a"), "{\\\"a"));
  const std::string end = cut.end(AnswerEnd::kLength);
  CHECK(has(end, "\"finish_reason\":\"length\""));
  CHECK_FALSE(has(end, "tool_call>"));
  Stream broken;
  CHECK(has(broken.after("<tool_call>{\"name\": \"f\", \"arguments\": {\"a"), "{\\\"a"));
  CHECK(has(broken.after("}}</tool_call>\"}}</tool_call> b"), "tool_call>"));
  const serve::Json next =
      broken.delta("<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>")["tool_calls"][0];
  CHECK(next["index"] == 1);
  CHECK(next["function"]["name"] == "g");
}

TEST_CASE("the same becomes events of a response") {
  Stream stream(true, true);
  const std::string begin = stream.after("Hi");
  size_t at = 0;
  for (const char *type : {"response.created", "response.in_progress", "response.output_item.added",
                           "response.content_part.added", "response.output_text.delta"}) {
    CAPTURE(type);
    at = begin.find(std::string("event: ") + type + "\n", at);
    REQUIRE(at != std::string::npos);
  }
  const std::string call = stream.after("<tool_call>{\"name\": \"f\", \"arguments\": {");
  CHECK(has(call, "event: response.output_item.done\n"));
  CHECK(has(call, "\"call_id\":\"call_1_0_0\",\"name\":\"f\",\"arguments\":\"\""));
  CHECK(has(call, "\"delta\":\"{\""));
  CHECK(has(stream.after("}}</tool_call>"), "\"delta\":\"}\""));
  const std::string end = stream.end();
  CHECK(has(end, "event: response.function_call_arguments.done\n"));
  CHECK(has(end, "event: response.completed\n"));
  CHECK_FALSE(has(end, "[DONE]"));
}
