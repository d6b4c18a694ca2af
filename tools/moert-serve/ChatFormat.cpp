#include "tools/moert-serve/ChatFormat.h"

#include "runtime/serving/ChatTemplates.h"
#include "tools/moert-serve/GenericTools.h"

namespace moert::serve {

/// ChatML, the format of the Qwen family and of many models made from others.
constexpr const char *kBegin = "<|im_start|>", *kEnd = "<|im_end|>";

static std::string renderChatMl(const Json &messages) {
  std::string text;
  for (const Json &message : messages)
    text += kBegin + message["role"].get<std::string>() + "\n" +
            message["content"].get<std::string>() + kEnd + "\n";
  return text + kBegin + "assistant\n";
}

static std::string textOf(const std::optional<Chat> &chat) {
  std::string text;
  if (chat)
    for (const NamedTemplate &one : chat->templates)
      text += one.text;
  return text;
}

ChatFormat::ChatFormat(const std::optional<Chat> &chat, const Json &arguments)
    : answerFormat(textOf(chat)) {
  isOwn = chat && !chat->templates.empty();
  if (!isOwn)
    stops = {kEnd};
  else
    fault = load(*chat, arguments);
}

Status ChatFormat::load(const Chat &chat, const Json &arguments) {
  const NamedTemplate *first = templateOf(chat), *tools = templateOf(chat, "tool_use");
  first = first ? first : &chat.templates.front();
  tools = tools ? tools : first;
  Json variables = templateVariables(chat);
  for (const auto &argument : arguments.items())
    variables[argument.key()] = argument.value();
  MOERT_ASSIGN_OR_RETURN(plain, ConversationTemplate::compile(first->text, first->name, variables));
  MOERT_ASSIGN_OR_RETURN(withTools,
                         ConversationTemplate::compile(tools->text, tools->name, variables));
  hasOwnTools = answerFormat.calls() && tools->text.find("tools") != std::string::npos;
  if (first->text.find(kEnd) != std::string::npos)
    stops = {kEnd};
  return {};
}

Result<std::string> ChatFormat::render(const ChatInput &input) const {
  const Json messages =
      hasOwnTools ? input.messages : withGenericTools(input.messages, input.tools);
  if (!isOwn)
    return renderChatMl(messages);
  MOERT_RETURN_IF_ERROR(fault);
  Json further = input.variables;
  further["tools"] = hasOwnTools ? input.tools : Json();
  return (further["tools"].is_null() ? plain : withTools)->render(messages, further);
}

} // namespace moert::serve
