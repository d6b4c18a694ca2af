#include "tools/moert-serve/ChatFormat.h"

#include "runtime/text/chat/ContentParts.h"
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

// "default" is for conversations and "tool_use" for those with tools.
Status ChatFormat::load(const Chat &chat, const Json &arguments) {
  const NamedTemplate *first = &chat.templates.front(), *tools = nullptr;
  for (const NamedTemplate &one : chat.templates) {
    if (one.name == "default")
      first = &one;
    if (one.name == "tool_use")
      tools = &one;
  }
  tools = tools ? tools : first;
  MOERT_ASSIGN_OR_RETURN(plain, ChatTemplate::compile(first->text, first->name));
  MOERT_ASSIGN_OR_RETURN(withTools, ChatTemplate::compile(tools->text, tools->name));
  hasOwnTools = answerFormat.calls() && tools->text.find("tools") != std::string::npos;
  if (first->text.find(kEnd) != std::string::npos)
    stops = {kEnd};
  for (const auto &[name, text] : chat.specialTokens)
    variables[name] = text;
  variables["documents"] = nullptr;
  for (const auto &argument : arguments.items())
    variables[argument.key()] = argument.value();
  Json context = variables;
  context["tools"] = nullptr;
  takesParts = takesOnlyParts(*plain, context);
  return {};
}

Result<std::string> ChatFormat::render(const ChatInput &input) const {
  const Json messages =
      hasOwnTools ? input.messages : withGenericTools(input.messages, input.tools);
  if (!isOwn)
    return renderChatMl(messages);
  MOERT_RETURN_IF_ERROR(fault);
  Json context = variables;
  for (const auto &variable : input.variables.items())
    context[variable.key()] = variable.value();
  context["messages"] = messages;
  if (takesParts)
    splitIntoParts(context["messages"]);
  context["tools"] = hasOwnTools ? input.tools : Json();
  context["add_generation_prompt"] = true;
  return (context["tools"].is_null() ? plain : withTools)->render(context);
}

} // namespace moert::serve
