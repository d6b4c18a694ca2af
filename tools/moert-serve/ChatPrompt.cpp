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

/// Templates expect the arguments of a call as an object; OpenAI's API has them as its text, which
/// clients leave empty where there are none.
std::optional<ApiError> parseArguments(Json &function, const std::string &name) {
  Json &arguments = function["arguments"];
  if (arguments.is_string()) {
    const std::string text = arguments.get<std::string>();
    const std::string_view value = trimmed(text);
    if (value.empty() || value == "null")
      arguments = Json::object();
    else if (Json parsed; !parseBody(value, JsonLimits(), parsed))
      arguments = std::move(parsed);
  } else if (arguments.is_null()) {
    arguments = Json::object();
  }
  if (arguments.is_object())
    return {};
  return invalidField(strCat("Invalid value for '", name,
                             "': expected the text of a JSON object, "
                             "but got ",
                             excerpt(textOf(arguments), 60), "."),
                      name);
}

std::optional<ApiError> readCalls(const Json &calls, const std::string &name, Json &read) {
  read = calls;
  for (size_t i = 0; i < read.size(); ++i) {
    const std::string path = strCat(name, "[", i, "].function");
    const bool hasFunction =
        read[i].is_object() && read[i].contains("function") && read[i]["function"].is_object();
    if (!hasFunction || !read[i]["function"].contains("name") ||
        !read[i]["function"]["name"].is_string())
      return invalidField(strCat("Invalid value for '", path, "': expected an object with a name."),
                          path);
    if (auto error = parseArguments(read[i]["function"], path + ".arguments"))
      return error;
  }
  return {};
}

/// A message as templates expect it. Clients send messages back as they got them, so members of an
/// answer's message that change nothing are accepted.
std::optional<ApiError> readMessage(const Json &message, const std::string &name, Json &read) {
  if (!message.is_object())
    return invalidField(strCat("Invalid type for '", name, "': expected an object, but got ",
                               typeOf(message), " instead."),
                        name, "invalid_type");
  Fields fields(message, name + ".");
  fields.require("role");
  std::string role = fields.text("role").value_or("");
  if (role == "developer")
    role = "system"; // The API's newer name.
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    fields.fail(invalidField(strCat("Invalid value: '", excerpt(role),
                                    "'. Supported values are: 'system', 'developer', 'user', "
                                    "'assistant' and 'tool'."),
                             name + ".role"));
  read = {{"role", role}, {"content", ""}};
  const Json *calls = fields.array("tool_calls");
  if (calls && calls->empty())
    calls = nullptr;
  if (calls && role != "assistant")
    fields.fail(invalidField(
        strCat("Invalid value for '", name, ".tool_calls': only the assistant calls tools."),
        name + ".tool_calls"));
  if (role != "assistant")
    fields.require("content");
  const Json *content = fields.any("content");
  fields.ignore({"name", "refusal", "tool_call_id"});
  std::optional<std::string> reasoning = fields.text("reasoning_content");
  if (const auto other = fields.text("reasoning"); other && !reasoning)
    reasoning = other;
  if (role == "assistant")
    fields.ignore({"annotations", "audio", "function_call", "reasoning_details"});
  fields.refuseOthers();
  if (fields.error())
    return fields.error();
  if (calls)
    if (auto error = readCalls(*calls, name + ".tool_calls", read["tool_calls"]))
      return error;
  for (const char *kept : {"name", "tool_call_id"})
    if (message.contains(kept) && !message[kept].is_null())
      read[kept] = message[kept];
  if (reasoning && !reasoning->empty()) {
    read["thinking"] = *reasoning; // As gpt-oss names it.
    read["reasoning_content"] = *reasoning;
  }
  std::string said;
  if (content)
    if (auto error = readContent(*content, name + ".content", said))
      return error;
  read["content"] = said;
  return {};
}

} // namespace

std::optional<ApiError> readMessages(const Json &messages, Json &read) {
  if (messages.empty())
    return invalidField("Invalid 'messages': empty array. Expected an array with minimum length 1, "
                        "but got an empty array instead.",
                        "messages", "empty_array");
  for (size_t i = 0; i < messages.size(); ++i) {
    Json one;
    if (auto error = readMessage(messages[i], strCat("messages[", i, "]"), one))
      return error;
    read.push_back(std::move(one));
  }
  return {};
}

std::optional<ApiError> makeChatPrompt(const ChatInput &input, const ChatFormat &format,
                                       const Tokenizer &tokenizer,
                                       std::optional<std::string_view> begin, ChatPrompt &prompt) {
  Result<std::string> text = format.render(input);
  if (!text.isOk())
    return invalidField(
        "The model's chat template refuses these messages: " + text.status().message(), "messages");
  prompt.text = std::move(text).value();
  if (begin) {
    if (const std::string_view end = format.answers().reasoningEndOf(prompt.text); !end.empty())
      prompt.text.append(end).append("\n\n");
    prompt.text.append(*begin);
  }
  // A template writes the special tokens itself.
  Result<std::vector<int32_t>> ids = tokenizer.encode(prompt.text, !format.hasSpecialTokens());
  if (!ids.isOk())
    return invalidField(ids.status().message(), "messages");
  prompt.tokens = std::move(ids).value();
  return {};
}

// Compares the prompt with that of another first question, which begins as no real one does.
uint32_t sharedTokensOf(const ChatInput &input, const ChatFormat &format,
                        const Tokenizer &tokenizer, const std::vector<int32_t> &prompt) {
  ChatInput other = {Json::array(), input.tools, input.variables};
  for (const Json &message : input.messages) {
    if (message["role"] != "system")
      break;
    other.messages.push_back(message);
  }
  other.messages.push_back({{"role", "user"}, {"content", "\x02"}});
  ChatPrompt first;
  if (makeChatPrompt(other, format, tokenizer, {}, first))
    return 0;
  return static_cast<uint32_t>(
      std::mismatch(first.tokens.begin(), first.tokens.end(), prompt.begin(), prompt.end()).first -
      first.tokens.begin());
}

} // namespace moert::serve
