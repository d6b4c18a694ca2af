#include "tools/moert-serve/GenericTools.h"

namespace moert::serve {

static std::string systemTextOf(const Json &tools) {
  std::string text =
      "You may call one or more functions to help with the user's query. The functions are:\n"
      "<tools>\n";
  for (const Json &tool : tools)
    text += textOf(tool["function"]) + "\n";
  return text + "</tools>\n"
                "To call a function, write its name and arguments as JSON within these tags:\n"
                "<tool_call>\n{\"name\": <function-name>, \"arguments\": <arguments-object>}\n"
                "</tool_call>\n"
                "The result comes in the next message, within <tool_response> tags.";
}

static void appendLine(Json &message, const std::string &text) {
  auto &content = message["content"].get_ref<std::string &>();
  content += (content.empty() ? "" : "\n") + text;
}

Json withGenericTools(const Json &messages, const Json &tools) {
  Json result = Json::array();
  bool isResult = false; // The last message is of results.
  for (const Json &message : messages) {
    const bool wasResult = isResult;
    isResult = message["role"] == "tool";
    if (isResult) {
      if (!wasResult)
        result.push_back({{"role", "user"}, {"content", ""}});
      appendLine(result.back(), "<tool_response>\n" + message["content"].get<std::string>() +
                                    "\n</tool_response>");
      continue;
    }
    result.push_back(message);
    result.back().erase("tool_calls");
    if (!message.contains("tool_calls"))
      continue;
    for (const Json &call : message["tool_calls"]) {
      const Json &function = call["function"];
      appendLine(result.back(),
                 "<tool_call>\n" +
                     textOf({{"name", function["name"]}, {"arguments", function["arguments"]}}) +
                     "\n</tool_call>");
    }
  }
  if (tools.is_null())
    return result;
  if (result.empty() || result.front()["role"] != "system")
    result.insert(result.begin(), Json({{"role", "system"}, {"content", ""}}));
  appendLine(result.front(), systemTextOf(tools));
  return result;
}

} // namespace moert::serve
