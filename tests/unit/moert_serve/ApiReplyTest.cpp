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
  explicit Stream(bool allowsCalls = true, bool isResponse = false, bool isStreamed = true)
      : tokenizer(load(smallTokenizer())) {
    ApiCall call;
    call.isChat = true;
    call.isStreamed = isStreamed;
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
  /// The only choice after this text.
  serve::Json whole(const std::string &text, AnswerEnd how) {
    for (const char byte : text)
      answer->addPiece({0, std::string(1, byte)});
    answer->end(how);
    reply->collect(std::chrono::milliseconds(0));
    return serve::Json::parse(reply->whole())["choices"][0];
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
  CHECK(has(broken.end(), "\"finish_reason\":\"stop\""));
}

TEST_CASE("a call that is none and the next one in one piece are different calls") {
  Stream stream;
  CHECK(has(stream.after("<tool_call>{\"name\": \"f\", \"arguments\": {\"abc\""), "abc"));
  const serve::Json delta =
      stream.delta("}}</tool_call> b <tool_call>{\"name\": \"g\", \"arguments\": {\"");
  CHECK(has(delta["content"].get<std::string>(), "</tool_call> b"));
  REQUIRE(delta["tool_calls"].size() == 1);
  CHECK(delta["tool_calls"][0]["index"] == 1);
  CHECK(delta["tool_calls"][0]["function"] == serve::Json{{"name", "g"}, {"arguments", "{\""}});
}

TEST_CASE(
    "a whole reply has a call that proves to be none as text only, one that is cut off as call") {
  const std::string begin = "a<tool_call>{\"name\": \"f\", \"arguments\": {\"b\"";
  const std::string text = begin + "}}</tool_call>c";
  const serve::Json none = Stream(true, false, false).whole(text, AnswerEnd::kStop);
  CHECK(none["message"]["content"] == text);
  CHECK_FALSE(none["message"].contains("tool_calls"));
  CHECK(none["finish_reason"] == "stop");
  const serve::Json cut = Stream(true, false, false).whole(begin, AnswerEnd::kLength);
  CHECK(cut["message"]["content"] == "a");
  CHECK(cut["message"]["tool_calls"][0]["function"]["arguments"] == "{\"b\"");
  CHECK(cut["finish_reason"] == "length");
}

TEST_CASE("what a call still gets comes before the message that follows in a response") {
  const std::string begin = "<tool_call>{\"name\": \"f\", \"arguments\": {";
  Stream whole(true, true);
  CHECK(has(whole.after(begin), "\"delta\":\"{\""));
  const std::string rest = whole.after("}}</tool_call>b");
  CHECK(rest.find("\"delta\":\"}\"") < rest.find("\"type\":\"message\""));
  CHECK(has(rest, "\"delta\":\"b\""));
  CHECK(has(whole.end(), "event: response.completed\n"));
  Stream broken(true, true);
  CHECK(has(broken.after(begin), "\"delta\":\"{\""));
  CHECK(has(broken.after("\"a\"}}</tool_call>b"), "\"status\":\"incomplete\""));
  CHECK(has(broken.end(), "event: response.completed\n"));
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
