// Each form with one call, two calls, a call without arguments, and a call after text and
// reasoning, whole and byte by byte; and what looks like a call.
#include "tests/unit/answer/Reading.h"

using namespace moert;

namespace {

struct FormCase {
  std::string name;         // The form.
  std::string chatTemplate; // What it is recognized by.
  std::string one, two, none;
};

// One call is get_weather("Oslo", 2); the second is now(), which has no arguments.
const std::vector<FormCase> kCases = {
    {"json", "<tool_call>{{ call }}</tool_call>",
     R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}
</tool_call>)",
     R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}
</tool_call>
<tool_call>
{"name": "now", "arguments": {}}
</tool_call>)",
     R"(<tool_call>{"name": "now"}</tool_call>)"},
    {"json-toolcall", "<TOOLCALL>",
     R"(<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]</TOOLCALL>)",
     R"(<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}, {"name": "now", "arguments": {}}]</TOOLCALL>)",
     R"(<TOOLCALL>[{"name": "now", "arguments": null}]</TOOLCALL>)"},
    {"json-list", "<|tool_call|>",
     R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}])",
     R"(<|tool_call|>[{"arguments": {"city": "Oslo", "days": 2}, "name": "get_weather"}, {"name": "now", "arguments": "{}"}])",
     R"(<tool_call>[{"name": "now", "arguments": {}}])"},
    {"json-message", "<|python_tag|>",
     R"({"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}})", R"([)",
     R"(<|python_tag|>{"name": "now", "parameters": {}})"},
    {"function", "<tool_call>\n<function=name>",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</"
     "tool_call>",
     "<function=now>\n</function>\n</tool_call>"},
    {"function-seed", "<seed:tool_call><function=name>",
     "<seed:tool_call><function=get_weather><parameter=city>Oslo</parameter><parameter=days>2"
     "</parameter></function></seed:tool_call>",
     "<seed:tool_call><function=get_weather><parameter=city>Oslo</parameter><parameter=days>2"
     "</parameter></function><function=now></function></seed:tool_call>",
     "<seed:tool_call><function=now></function></seed:tool_call>"},
    {"arg-key", "<tool_call>name<arg_key>",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</"
     "arg_key>"
     "<arg_value>2</arg_value></tool_call>\n<tool_call>now\n</tool_call>",
     "\n<tool_call>now</tool_call>"},
    {"invoke", "<minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n"
     "</minimax:tool_call>",
     "<minimax:tool_call><invoke name=\"now\"></invoke></minimax:tool_call>"},
    {"invoke-dsml", "｜DSML｜",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"city\" "
     "string=\"true\">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">2"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "<｜DSML｜function_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter "
     "name=\"city\" "
     "string=\"true\">Oslo</｜DSML｜parameter><｜DSML｜parameter name=\"days\" string=\"false\">2"
     "</｜DSML｜parameter></｜DSML｜invoke><｜DSML｜invoke name=\"now\"></｜DSML｜invoke>"
     "</｜DSML｜function_calls>",
     "<｜DSML｜function_calls><｜DSML｜invoke "
     "name=\"now\"></｜DSML｜invoke></｜DSML｜function_calls>"},
    {"mistral", "[TOOL_CALLS]",
     R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}])",
     R"([TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", "days": 2}[TOOL_CALLS]now[CALL_ID]a1b2c3d4e[ARGS]{})",
     R"([TOOL_CALLS]now[ARGS])"},
    {"deepseek", "<｜tool▁call▁begin｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", "
     "\"days\": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
     "{\"city\": \"Oslo\", \"days\": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
     "<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜><｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>"},
    {"kimi", "<|tool_call_begin|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}<|tool_call_end|>"
     "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {"channels", "<|start|>{{ role }}<|message|>",
     "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
     "\"Oslo\", "
     "\"days\": 2}",
     "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": "
     "\"Oslo\", \"days\": 2}<|call|><|start|>assistant<|channel|>commentary to=functions.now "
     "<|constrain|>json<|message|>{}<|call|>",
     " to=functions.now<|channel|>commentary<|message|>{}<|call|>"},
    {"python-message", "<|header_start|>", R"([get_weather(city="Oslo", days=2)])",
     R"(<|python_start|>[get_weather(city='Oslo', days=2), now()]<|python_end|>)", "[now()]"},
    {"python", "<|tool_list_start|>",
     R"(<|tool_call_start|>[get_weather(city="Oslo", days=2)]<|tool_call_end|>)",
     R"(<|tool_call_start|>[get_weather(city="Oslo", days=2), now()]<|tool_call_end|>)",
     R"(<|tool_call_start|>[now()]<|tool_call_end|>)"},
    {"gemma", "<|tool_call>call:<|turn>",
     "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|>",
     "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|><|tool_call>call:now{}"
     "<tool_call|>",
     "<|tool_call>call:now{}<tool_call|>"},
    {"gemma-function", "<start_function_call>",
     "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>",
     "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>"
     "<start_function_call>call:now{}<end_function_call>",
     "<start_function_call>call:now{}<end_function_call>"},
};

const std::pair<std::string, Json> kWeather = {"get_weather", {{"city", "Oslo"}, {"days", 2}}};
const std::pair<std::string, Json> kNow = {"now", Json::object()};
using Calls = std::vector<std::pair<std::string, Json>>;

bool isAfterText(const FormCase &each) {
  return !each.name.ends_with("-message") && each.name != "channels";
}

} // namespace

TEST_CASE("every form is recognized from the template and reads its calls, however they are cut") {
  for (const FormCase &each : kCases) {
    CAPTURE(each.name);
    const AnswerFormat format(each.chatTemplate);
    REQUIRE(format.calls());
    CHECK(format.calls()->name == each.name);
    const auto read = [&](const std::string &answer) {
      CAPTURE(answer);
      return readBothWays(answer, format, format.calls());
    };
    const Reading one = read(each.one);
    CHECK(one.calls == Calls{kWeather});
    CHECK(one.content.empty());
    CHECK(one.reasoning.empty());
    if (each.two.size() > 1)
      CHECK(read(each.two).calls == Calls{kWeather, kNow});
    const Reading none = read(each.none);
    CHECK(none.calls == Calls{kNow});
    CHECK(none.content.empty());
    const Reading thought = read("<think>\nHm.\n</think>\n\n" + each.one);
    CHECK(thought.reasoning == "Hm.");
    CHECK(thought.calls == Calls{kWeather});
    CHECK(thought.content.empty());
    if (!isAfterText(each))
      continue;
    const Reading after = read("I look.\n\n" + each.one);
    CHECK(after.content == "I look.");
    CHECK(after.calls == Calls{kWeather});
  }
}

TEST_CASE("a call is known from its name on, and its arguments grow") {
  for (const FormCase &each : kCases) {
    CAPTURE(each.name);
    const AnswerFormat format(each.chatTemplate);
    const bool isKnown =
        format.writing()->hasJsonArguments() || !format.writing()->beforeKey.empty();
    for (const std::string &answer : {each.one, each.two}) {
      AnswerReader reader(format, "", format.calls(), &weatherTypes());
      std::vector<ToolCall> seen, complete;
      size_t growths = 0;
      for (const char byte : answer) {
        reader.feed({&byte, 1}, [&](AnswerPart, std::string_view, const ToolCall *call) {
          if (call)
            complete.push_back(*call);
        });
        std::vector<ToolCall> now = complete;
        for (const ToolCall &call : reader.begunCalls())
          now.push_back(call);
        REQUIRE(now.size() >= seen.size());
        for (size_t i = 0; i < seen.size(); ++i) {
          CHECK(now[i].name == seen[i].name);
          CHECK(now[i].arguments.starts_with(seen[i].arguments));
          growths += now[i].arguments.size() > seen[i].arguments.size();
        }
        seen = now;
      }
      // A name after its arguments is known at the end.
      if (!isKnown || answer.size() < 10 || answer.find("name\"") > answer.find("arguments\""))
        continue;
      CAPTURE(answer);
      REQUIRE(!seen.empty());
      CHECK(growths >= 2);
      CHECK(seen[0].name == "get_weather");
    }
  }
  // What needs many tries ends as any other call.
  const AnswerFormat format("<tool_call>");
  AnswerReader reader(format, "", format.calls(), &weatherTypes());
  reader.feed("<tool_call>" + std::string(5000, '{'), [](AnswerPart, std::string_view, auto *) {});
  CHECK(reader.begunCalls().empty());
}

TEST_CASE("plain text, calls that nobody reads, and broken calls stay content") {
  for (const FormCase &each : kCases) {
    CAPTURE(each.name);
    const AnswerFormat format(each.chatTemplate);
    for (const std::string text : {"Hello.\n", " a < b [1] {2}", "<tool", ""})
      CHECK(readBothWays(text, format, format.calls()).content == text);
    if (each.name != "channels")
      CHECK(readBothWays(each.one, format).calls.empty());
    // Every beginning of a call is read without losing a byte, and becomes content or the call.
    for (size_t size = 0; size < each.one.size(); ++size) {
      const Reading cut = readBothWays(each.one.substr(0, size), format, format.calls());
      if (!cut.calls.empty())
        CHECK(cut.calls == Calls{kWeather});
    }
  }
  const AnswerFormat json("<tool_call>");
  for (const std::string text :
       {"<tool_call>", "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>[1]</tool_call>",
        "<tool_calls>", "<tool_call>now</tool_call>",
        "<tool_call>{\"name\": \"x\", \"arguments\": 3}", "<tool_call>\"a"})
    CHECK(readBothWays(text, json, json.calls()).content == text);
}

TEST_CASE("a call may have its own end within a string") {
  const AnswerFormat format("<tool_call>");
  const std::string call =
      R"(<tool_call>{"name": "now", "arguments": {"a": "</tool_call>\" </tool_call>"}}</tool_call>)";
  const Reading reading = readBothWays(call, format, format.calls());
  REQUIRE(reading.calls.size() == 1);
  CHECK(reading.calls[0].second["a"] == "</tool_call>\" </tool_call>");
  CHECK(readBothWays("<tool_call>{\"name\": \"x\", \"arguments\": " + std::string(9000, '['),
                     format, format.calls())
            .calls.empty());
}

TEST_CASE("a broken call does not hide the next one, nor text around it") {
  const AnswerFormat format("<tool_call>");
  const Reading reading =
      readBothWays("a <tool_call>oops</tool_call> <tool_call>{\"name\": \"now\"}</tool_call>",
                   format, format.calls());
  CHECK(reading.content == "a <tool_call>oops</tool_call>");
  CHECK(reading.calls == Calls{kNow});
}

TEST_CASE("values without quotes have the type of the tool's schema") {
  const AnswerFormat format("<arg_key>");
  const std::string call =
      "<tool_call>get_weather<arg_key>city</arg_key><arg_value>12</arg_value><arg_key>hours</"
      "arg_key>"
      "<arg_value>[1, "
      "2]</arg_value><arg_key>other</arg_key><arg_value>a\n\"b</arg_value></tool_call>";
  const Reading reading = readBothWays(call, format, format.calls());
  REQUIRE(reading.calls.size() == 1);
  CHECK(reading.calls[0].second == Json({{"city", "12"}, {"hours", {1, 2}}, {"other", "a\n\"b"}}));
}

TEST_CASE("python's literals become JSON") {
  const AnswerFormat format("<|python_start|>");
  const std::string call =
      R"([f(a=[1, 'x\'y', True], b={"k": None, 'l': -2.5e3}, c="two\nlines"), g(d=false)])";
  const Reading reading = readBothWays(call, format, format.calls());
  REQUIRE(reading.calls.size() == 2);
  CHECK(reading.calls[0].second == Json::parse(R"({"a": [1, "x'y", true],
      "b": {"k": null, "l": -2500.0}, "c": "two\nlines"})"));
  CHECK(readBothWays("[f(a=" + std::string(500, '[') + ")]", format, format.calls()).calls.empty());
}
