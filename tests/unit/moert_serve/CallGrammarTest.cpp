// Calls that have to be made: each form's grammar has the texts that its template has, and what it
// has is read as calls that fit their schemas.
#include "tools/moert-serve/CallGrammar.h"

#include "runtime/text/answer/AnswerReader.h"
#include "runtime/text/grammar/GrammarAutomaton.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace moert;
using Json = nlohmann::ordered_json;

namespace {

struct WritingCase {
  std::string name, chatTemplate; // What recognizes the form.
  std::string one, two;           // After what the prompt has; two empty: one call only.
};

// One call is get_weather("Oslo", 2); the second is now(), which has no arguments.
const std::vector<WritingCase> kCases = {
    {"json", "<tool_call>",
     "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_call>",
     "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
    {"json-toolcall", "<TOOLCALL>",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]</TOOLCALL>)",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}, {"name": "now", "arguments": {}}]</TOOLCALL>)"},
    {"json-tool-calls", "<tool_calls>",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]</tool_calls>)",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}, {"name": "now", "arguments": {}}]</tool_calls>)"},
    {"json-list", "<|tool_call|>",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}])",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}, {"name": "now", "arguments": {}}])"},
    {"json-message", "<|python_tag|>",
     R"({"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}})", ""},
    {"function", "<tool_call>\n<function=name>",
     "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>",
     "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
     "</tool_call>"},
    {"function-seed", "<seed:tool_call><function=name>",
     "<function=get_weather>\n<parameter=city>\nOslo</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</seed:tool_call>",
     "<function=get_weather>\n<parameter=city>\nOslo</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n"
     "</function>\n</seed:tool_call>"},
    {"arg-key", "<tool_call>name<arg_key>",
     "get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>",
     "get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>"},
    {"invoke", "<minimax:tool_call>",
     "<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
     "<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n"
     "</minimax:tool_call>"},
    {"invoke-dsml", "｜DSML｜",
     "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Oslo"
     "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Oslo"
     "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke "
     "name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"},
    {"mistral", "[TOOL_CALLS]",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}])",
     R"([{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}, {"name": "now", "arguments": {}}])"},
    {"mistral", "[TOOL_CALLS][ARGS]", R"(get_weather[ARGS]{"city": "Oslo", "days": 2})",
     R"(get_weather[ARGS]{"city": "Oslo", "days": 2}[TOOL_CALLS]now[ARGS]{})"},
    {"deepseek", "<｜tool▁call▁begin｜>",
     "get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": 2}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": 2}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek", "<｜tool▁call▁begin｜>function\n```json",
     "function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\", \"days\": 2}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Oslo\", \"days\": 2}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"kimi", "<|tool_call_begin|>",
     "functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}"
     "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {"channels", "<|start|>{{ role }}<|message|>",
     " to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 2}", ""},
    {"python-message", "<|header_start|>", R"([get_weather(city="Oslo", days=2)])",
     R"([get_weather(city="Oslo", days=2), now()])"},
    {"python", "<|tool_list_start|>", R"([get_weather(city="Oslo", days=2)]<|tool_call_end|>)",
     R"([get_weather(city="Oslo", days=2), now()]<|tool_call_end|>)"},
    {"gemma", "<|tool_call>call:<|turn>",
     "call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|>",
     "call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|><|tool_call>call:now{}"
     "<tool_call|>"},
    {"gemma-function", "<start_function_call>",
     "call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>",
     "call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call><start_function_call>"
     "call:now{}<end_function_call>"},
};

Json weather(const Json &city) {
  return {{"type", "object"},
          {"properties", {{"city", city}, {"days", {{"type", "integer"}}}}},
          {"required", {"city"}},
          {"$defs", {{"City", {{"enum", {"Oslo", "Rome"}}}}, {"Text", {{"type", "string"}}}}}};
}

ToolTypes typesOf(const Json &parameters) {
  return ToolTypes(
      Json::array({{{"function", {{"name", "get_weather"}, {"parameters", parameters}}}}}));
}

Result<Grammar> grammarOf(const CallWriting &writing, const Json &parameters,
                          bool allowsSeveral = true) {
  const std::vector<serve::FunctionSchema> functions = {{"get_weather", &parameters}, {"now"}};
  MOERT_ASSIGN_OR_RETURN(
      SchemaGrammar made,
      serve::grammarOfCalls(writing, functions, typesOf(parameters), allowsSeveral));
  return std::move(made.grammar);
}

bool fits(const Grammar &grammar, std::string_view text) {
  GrammarAutomaton automaton(grammar);
  GrammarAutomaton::State state = automaton.start();
  for (const char byte : text)
    state = automaton.next(state, static_cast<unsigned char>(byte));
  return automaton.canEnd(state);
}

std::vector<ToolCall> callsOf(const AnswerFormat &format, std::string_view text,
                              const ToolTypes &types) {
  AnswerReader reader(format, "", format.calls(), &types);
  std::vector<ToolCall> calls;
  const auto keep = [&](AnswerPart part, std::string_view, const ToolCall *call) {
    CHECK(part != AnswerPart::kAnswer);
    if (call)
      calls.push_back(*call);
  };
  reader.feed(format.writing()->open, keep);
  reader.feed(text, keep);
  reader.finish(keep);
  return calls;
}

const Json kText = {{"type", "string"}};

} // namespace

TEST_CASE("every form's grammar has its calls, one or several, and they are read as such") {
  const Json parameters = weather(kText);
  const ToolTypes types = typesOf(parameters);
  for (const WritingCase &each : kCases) {
    CAPTURE(each.name);
    const AnswerFormat format(each.chatTemplate);
    REQUIRE(format.calls()->name == each.name);
    const Result<Grammar> several = grammarOf(*format.writing(), parameters);
    REQUIRE_MESSAGE(several.isOk(), several.status().message());
    const Result<Grammar> single = grammarOf(*format.writing(), parameters, false);
    CHECK(fits(*several, each.one));
    CHECK(fits(*single, each.one));
    CHECK_FALSE(fits(*several, each.one.substr(0, each.one.size() - 1)));
    const std::vector<ToolCall> one = callsOf(format, each.one, types);
    REQUIRE(one.size() == 1);
    CHECK(Json::parse(one[0].arguments) == Json({{"city", "Oslo"}, {"days", 2}}));
    if (each.two.empty())
      continue;
    CHECK(fits(*several, each.two));
    CHECK_FALSE(fits(*single, each.two));
    CHECK(callsOf(format, each.two, types).size() == 2);
  }
}

TEST_CASE("texts without quotes may have anything but the mark after them") {
  const AnswerFormat format("<function=");
  const Json parameters = weather(kText);
  const Result<Grammar> grammar = grammarOf(*format.writing(), parameters);
  const std::string begin = "<function=get_weather>\n<parameter=city>\n";
  const std::string end = "\n</parameter>\n</function>\n</tool_call>";
  for (const char *city : {"", "a\n\tb", "</param</parameter", "<<</", "\"{é"}) {
    CAPTURE(city);
    CHECK(fits(*grammar, begin + city + end));
    CHECK(callsOf(format, begin + city + end, typesOf(parameters)).size() == 1);
  }
  CHECK_FALSE(fits(*grammar, begin + "a</parameter>b" + end));
}

TEST_CASE("arguments fit the schema in every form, or the form is not used") {
  const AnswerFormat function("<function="), gemma("<|tool_call>"), python("<|tool_list_start|>");
  const auto accepts = [](const AnswerFormat &format, const Json &city) {
    return grammarOf(*format.writing(), weather(city)).isOk();
  };
  const Json nullable = {{"anyOf", {kText, {{"type", "null"}}}}},
             defined = {{"$ref", "#/$defs/City"}};
  for (const Json &city : {kText, nullable, defined, Json({{"enum", {"Oslo", nullptr}}}),
                           Json({{"allOf", {defined}}}), Json({{"type", "array"}})})
    CHECK_MESSAGE(accepts(function, city), city.dump());
  // A bound of a text, a number or a text, and texts that would be read as numbers.
  const std::vector<Json> others = {
      {{"type", "string"}, {"maxLength", 3u}}, {{"type", {"string", "integer"}}}, Json::object()};
  for (const Json &city : others) {
    CHECK_FALSE_MESSAGE(accepts(function, city), city.dump());
    CHECK_FALSE_MESSAGE(accepts(gemma, city), city.dump());
    CHECK_MESSAGE(accepts(python, city), city.dump());
  }
  CHECK_FALSE(accepts(function, {{"$ref", "#/$defs/Text"}}));
  CHECK(accepts(gemma, {{"$ref", "#/$defs/Text"}}));
  CHECK_FALSE(accepts(function, {{"$ref", "#/$defs/None"}}));
  CHECK_FALSE(accepts(function, {{"enum", {"Oslo", "a</parameter>"}}}));
  const Json parameters = weather(defined);
  const Result<Grammar> grammar = grammarOf(*function.writing(), parameters);
  const std::string begin = "<function=get_weather>\n<parameter=city>\n";
  const std::string end = "\n</parameter>\n</function>\n</tool_call>"; // As the template has it.
  CHECK(fits(*grammar, begin + "Rome" + end));
  CHECK_FALSE(fits(*grammar, begin + "Rome" + end.substr(1)));
  CHECK_FALSE(fits(*grammar, begin + "Paris" + end));
  CHECK_FALSE(fits(*grammar, "<function=get_weather>\n</function>\n</tool_call>"));
  for (const Json &broken : {Json(3), Json({{"properties", 3}}), Json({{"anyOf", {kText}}}),
                             Json({{"properties", {{"a b", kText}}}}), Json({{"required", {"x"}}})})
    CHECK_FALSE_MESSAGE(grammarOf(*function.writing(), broken).isOk(), broken.dump());
}

TEST_CASE("a list of many texts is one way to go on, as in JSON") {
  const AnswerFormat format("<function=");
  Json cities = Json::array({"city3"}); // Twice.
  for (int i = 0; i < 2000; ++i)
    cities.push_back("city" + std::to_string(i));
  const Result<Grammar> grammar = grammarOf(*format.writing(), weather({{"enum", cities}}));
  REQUIRE_MESSAGE(grammar.isOk(), grammar.status().message());
  CHECK(fits(*grammar, "<function=get_weather>\n<parameter=city>\ncity1999\n</parameter>\n"
                       "</function>\n</tool_call>"));
}

TEST_CASE("alternatives that refer to alternatives are read up to a bound") {
  const AnswerFormat format("<function=");
  const auto acceptsTimes = [&](size_t times, const char *last) {
    Json parameters = weather({{"$ref", "#/$defs/a"}});
    for (const auto &[name, next] : {std::pair("a", "b"), {"b", "c"}, {"c", "d"}, {"d", last}})
      parameters["$defs"][name]["anyOf"] =
          std::vector<Json>(times, {{"$ref", std::string("#/$defs/") + next}});
    return grammarOf(*format.writing(), parameters).isOk();
  };
  CHECK(acceptsTimes(2, "City"));
  CHECK_FALSE(acceptsTimes(1000, "City"));
  CHECK_FALSE(acceptsTimes(1000, "a"));
}

TEST_CASE("keywords of parameters that no grammar keeps are named with their places") {
  const AnswerFormat format("<tool_call>");
  const Json parameters = weather({{"type", "string"}, {"not", {{"const", "Rome"}}}});
  const std::vector<serve::FunctionSchema> functions = {{"get_weather", &parameters}};
  const auto made = serve::grammarOfCalls(*format.writing(), functions, typesOf(parameters), false);
  REQUIRE(made.isOk());
  CHECK(made->unenforced ==
        std::vector<std::string>{"function 'get_weather': #/properties/city: not"});
}

TEST_CASE("a call in the generic form has one of the names, whatever it is, and its arguments") {
  const Json knots =
      Json::parse(R"({"type": "object", "properties": {"knots": {"$ref": "#/$defs/n"}},
      "required": ["knots"], "additionalProperties": false, "$defs": {"n": {"type": "integer"}}})");
  const CallWriting &writing = AnswerFormat::genericCalls().writings[0];
  const auto made = [&](const std::vector<serve::FunctionSchema> &functions) {
    return serve::grammarOfCalls(writing, functions, typesOf(knots), false);
  };
  const auto grammar = made({{"sail \"on\"", &knots}, {"wait"}});
  REQUIRE_MESSAGE(grammar.isOk(), grammar.status().message());
  const auto has = [&](const std::string &call) {
    return fits(grammar->grammar, call + "\n</tool_call>");
  };
  CHECK(has(R"({"name": "sail \"on\"", "arguments": {"knots": 7}})"));
  CHECK(has(R"({"name": "wait", "arguments": {}})"));
  CHECK_FALSE(has(R"({"name": "wait", "arguments": {"knots": 7}})"));
  CHECK_FALSE(has(R"({"name": "sail \"on\"", "arguments": {}})"));
  CHECK_FALSE(has(R"({"name": "stop", "arguments": {}})"));

  const Json faulty = Json::parse(R"({"minLength": "a"})");
  CHECK(made({{"wait"}, {"sail", &faulty}}).status().message() ==
        "function 'sail': #/minLength: \"a\", expected a whole number");
  const Json loose = Json::parse(R"({"not": {}})");
  CHECK(made({{"wait"}, {"sail", &loose}})->unenforced ==
        std::vector<std::string>{"function 'sail': #: not"});
}
