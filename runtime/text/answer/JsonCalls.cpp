// Calls as JSON, one object or a list of them, between marks:
//
//   <tool_call>{"name": "f", "arguments": {...}}</tool_call>      Hermes, Qwen2.5, Qwen3
//   <TOOLCALL>[{"name": "f", "arguments": {...}}]</TOOLCALL>       Nemotron
//   <tool_calls>[...]</tool_calls>                                 Hunyuan
//   <|tool_call|>[...]  and  <tool_call>[...]                      Granite, Phi-4-mini
//   {"name": "f", "parameters": {...}}                             Llama 3, as the whole message
#include "runtime/text/answer/CallForm.h"

#include <nlohmann/json.hpp>

namespace moert {

using Json = nlohmann::ordered_json;

/// object: valid JSON. The arguments stay as they were written.
static CallReading readObject(std::string_view object, std::vector<ToolCall> &calls) {
  std::string name, decoded;
  std::string_view arguments;
  object.remove_prefix(1);
  while (!take(object, "}")) {
    const std::optional<std::string_view> key = jsonAtFront(object);
    if (!key || !take(object, *key) || !take(object, ":"))
      return CallReading::kNoCall;
    std::optional<std::string_view> value = jsonAtFront(object);
    if (!value || value->empty()) { // A number or a name.
      const size_t end = object.find_first_of(",}");
      value = trimmed(object.substr(0, end));
    }
    if (!take(object, *value))
      return CallReading::kNoCall;
    take(object, ",");
    const Json member = Json::parse(*key, nullptr, false);
    const bool isText = value->starts_with('"');
    if (member == "name" && isText)
      name = Json::parse(*value, nullptr, false).get<std::string>();
    if (member == "arguments" || member == "parameters") {
      arguments = *value;
      if (isText) // Some models write them as the API has them.
        arguments = decoded = Json::parse(*value, nullptr, false).get<std::string>();
    }
  }
  const CallReading reading = addCall(name, arguments, calls);
  return reading == CallReading::kIncomplete ? CallReading::kNoCall : reading;
}

static CallReading readJson(std::string_view body, const ToolTypes &,
                            std::vector<ToolCall> &calls) {
  const std::optional<std::string_view> value = jsonAtFront(body);
  if (!value)
    return trimmed(body).front() == '"' ? CallReading::kNoCall : CallReading::kIncomplete;
  if (value->empty() || *value != trimmed(body))
    return CallReading::kNoCall;
  if (value->front() == '{')
    return readObject(*value, calls);
  std::string_view list = *value;
  if (!take(list, "["))
    return CallReading::kNoCall;
  while (!take(list, "]")) {
    const std::optional<std::string_view> object = jsonAtFront(list);
    if (!object || !object->starts_with('{') || !take(list, *object) ||
        readObject(*object, calls) != CallReading::kCall)
      return CallReading::kNoCall;
    take(list, ",");
  }
  return calls.empty() ? CallReading::kNoCall : CallReading::kCall;
}

static constexpr CallWriting objectsBetween(std::string_view open, std::string_view close,
                                            std::string_view between) {
  return {.open = open,
          .beforeName = R"({"name": ")",
          .afterName = R"(", "arguments": )",
          .afterArguments = close,
          .between = between};
}

static constexpr CallWriting listBetween(std::string_view open, std::string_view close) {
  CallWriting list = objectsBetween(open, "}", ", ");
  list.start = "[";
  list.end = close;
  return list;
}

const CallForm kJsonForm = {
    .name = "json",
    .signs = {"<tool_call>"},
    .marks = {{{"<tool_call>", "</tool_call>"}}},
    .writings = {{objectsBetween("<tool_call>\n", "}\n</tool_call>", "\n<tool_call>\n")}},
    .read = readJson};
const CallForm kNemotronForm = {.name = "json-toolcall",
                                .signs = {"<TOOLCALL>"},
                                .marks = {{{"<TOOLCALL>", "</TOOLCALL>"}}},
                                .writings = {{listBetween("<TOOLCALL>", "]</TOOLCALL>")}},
                                .read = readJson};
const CallForm kListForm = {.name = "json-tool-calls",
                            .signs = {"<tool_calls>"},
                            .marks = {{{"<tool_calls>", "</tool_calls>"}}},
                            .writings = {{listBetween("<tool_calls>", "]</tool_calls>")}},
                            .read = readJson};
const CallForm kGraniteForm = {
    .name = "json-list",
    .signs = {"<|tool_call|>"},
    .marks = {{{"<|tool_call|>", "<|/tool_call|>"}, {"<tool_call>", "</tool_call>"}}},
    .writings = {{listBetween("<|tool_call|>", "]")}},
    .read = readJson};
const CallForm kMessageForm = {.name = "json-message",
                               .signs = {"<|python_tag|>", "\"parameters\": dictionary"},
                               .marks = {{{"{"}}},
                               .hidden = {"<|python_tag|>"},
                               .isWholeMessage = true,
                               .writings = {{{.beforeName = R"({"name": ")",
                                              .afterName = R"(", "parameters": )",
                                              .afterArguments = "}"}}},
                               .read = readJson};

} // namespace moert
