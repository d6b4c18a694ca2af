#include "tools/moert-serve/ChatPrompt.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "tools/moert-serve/Fields.h"

namespace moert::serve {

namespace {

constexpr const char *kBegin = "<|im_start|>", *kEnd = "<|im_end|>";

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

std::optional<ApiError> appendMessage(const Json &message, const std::string &name,
                                      std::string &text) {
  if (!message.is_object())
    return invalidField(strCat("Invalid type for '", name, "': expected an object, but got ",
                               typeOf(message), " instead."),
                        name, "invalid_type");
  Fields fields(message, name + ".");
  fields.require("role");
  std::string role = fields.text("role").value_or("");
  if (role == "developer")
    role = "system"; // The API's newer name.
  if (role != "system" && role != "user" && role != "assistant")
    fields.fail(invalidField(strCat("Invalid value: '", excerpt(role),
                                    "'. Supported values are: "
                                    "'system', 'developer', 'user' and 'assistant'."),
                             name + ".role"));
  fields.require("content");
  const Json *content = fields.any("content");
  fields.ignore({"name", "refusal"});
  fields.refuseOthers();
  if (fields.error())
    return fields.error();
  std::string said;
  if (auto error = readContent(*content, name + ".content", said))
    return error;
  text += kBegin + role + "\n" + said + kEnd + "\n";
  return {};
}

} // namespace

std::optional<ApiError> makeChatPrompt(const Json &messages, const Tokenizer &tokenizer,
                                       ChatPrompt &prompt) {
  if (messages.empty())
    return invalidField("Invalid 'messages': empty array. Expected an array with minimum length 1, "
                        "but got an empty array instead.",
                        "messages", "empty_array");
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i)
    if (auto error = appendMessage(messages[i], strCat("messages[", i, "]"), text))
      return error;
  text += strCat(kBegin, "assistant\n");
  Result<std::vector<int32_t>> ids = tokenizer.encode(text, true);
  if (!ids.isOk())
    return invalidField(ids.status().message(), "messages");
  prompt = {std::move(ids).value(), {kEnd}};
  return {};
}

} // namespace moert::serve
