#include "tools/moert-serve/ChatPrompt.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "tools/moert-serve/Fields.h"

#include <algorithm>

namespace moert::serve {

namespace {

/// A text, or an array of parts of type "text".
std::optional<ApiError> readContent(const Json &content, const std::string &name,
                                    std::string &text) {
  if (content.is_string()) {
    text = content.get<std::string>();
    return {};
  }
  if (!content.is_array())
    return invalidField(strCat("Invalid type for '", name,
                               "': expected a string or an array of parts, but got ",
                               typeOf(content), " instead."),
                        name, "invalid_type");
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part = strCat(name, "[", i, "]");
    if (!content[i].is_object())
      return invalidField(strCat("Invalid type for '", part, "': expected an object, but got ",
                                 typeOf(content[i]), " instead."),
                          part, "invalid_type");
    Fields fields(content[i], part + ".");
    fields.require("type");
    fields.only("type", "text", "this model reads text only");
    fields.require("text");
    text += fields.text("text").value_or("");
    fields.refuseOthers();
    if (fields.error())
      return fields.error();
  }
  return {};
}

/// Templates expect the arguments of a call as an object; OpenAI's API has them as its text.
void parseArguments(Json &calls) {
  if (!calls.is_array())
    return;
  for (Json &call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      continue;
    Json &function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string())
      continue;
    Json parsed;
    if (!parseBody(function["arguments"].get<std::string>(), JsonLimits(), parsed))
      function["arguments"] = std::move(parsed);
  }
}

/// A message as templates expect it.
std::optional<ApiError> readMessage(const Json &message, const std::string &name, bool hasTools,
                                    Json &read) {
  if (!message.is_object())
    return invalidField(strCat("Invalid type for '", name, "': expected an object, but got ",
                               typeOf(message), " instead."),
                        name, "invalid_type");
  Fields fields(message, name + ".");
  fields.require("role");
  std::string role = fields.text("role").value_or("");
  if (role == "developer")
    role = "system"; // The API's newer name.
  if (role != "system" && role != "user" && role != "assistant" && !(hasTools && role == "tool"))
    fields.fail(invalidField(strCat("Invalid value: '", excerpt(role),
                                    "'. Supported values are: 'system', 'developer', 'user', "
                                    "'assistant'",
                                    hasTools ? " and 'tool'." : "."),
                             name + ".role"));
  read = {{"role", role}, {"content", ""}};
  const Json *calls = hasTools && role == "assistant" ? fields.array("tool_calls") : nullptr;
  if (!calls)
    fields.require("content");
  const Json *content = fields.any("content");
  fields.ignore({"name", "refusal", "reasoning_content"});
  if (role == "tool")
    fields.ignore({"tool_call_id"});
  fields.refuseOthers();
  if (fields.error())
    return fields.error();
  if (calls) {
    read["tool_calls"] = *calls;
    parseArguments(read["tool_calls"]);
  }
  for (const char *kept : {"name", "tool_call_id", "reasoning_content"})
    if (message.contains(kept))
      read[kept] = message[kept];
  std::string said;
  if (content)
    if (auto error = readContent(*content, name + ".content", said))
      return error;
  read["content"] = said;
  return {};
}

} // namespace

std::optional<ApiError> makeChatPrompt(const Json &messages, const Json &tools,
                                       const ChatFormat &format, const Tokenizer &tokenizer,
                                       std::string_view begin, std::vector<int32_t> &prompt) {
  if (messages.empty())
    return invalidField("Invalid 'messages': empty array. Expected an array with minimum length 1, "
                        "but got an empty array instead.",
                        "messages", "empty_array");
  Json read = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Json one;
    if (auto error = readMessage(messages[i], strCat("messages[", i, "]"), format.hasTools(), one))
      return error;
    read.push_back(std::move(one));
  }
  const Result<std::string> text = format.render(read, tools);
  if (!text.isOk())
    return invalidField(
        "The model's chat template refuses these messages: " + text.status().message(), "messages");
  // A template writes the special tokens itself.
  Result<std::vector<int32_t>> ids =
      tokenizer.encode(strCat(*text, begin), !format.hasSpecialTokens());
  if (!ids.isOk())
    return invalidField(ids.status().message(), "messages");
  prompt = std::move(ids).value();
  return {};
}

// Compares the prompt with that of another first question, which begins as no real one does.
uint32_t sharedTokensOf(const Json &messages, const Json &tools, const ChatFormat &format,
                        const Tokenizer &tokenizer, const std::vector<int32_t> &prompt) {
  Json other = Json::array();
  for (const Json &message : messages) {
    if (message["role"] != "system" && message["role"] != "developer")
      break;
    other.push_back(message);
  }
  other.push_back({{"role", "user"}, {"content", "\x02"}});
  std::vector<int32_t> ids;
  if (makeChatPrompt(other, tools, format, tokenizer, "", ids))
    return 0;
  return static_cast<uint32_t>(
      std::mismatch(ids.begin(), ids.end(), prompt.begin(), prompt.end()).first - ids.begin());
}

} // namespace moert::serve
