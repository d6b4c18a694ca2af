#include "runtime/text/chat/ConversationTemplate.h"

namespace moert {

using Json = nlohmann::ordered_json;

static void splitIntoParts(Json &messages) {
  for (Json &message : messages)
    if (message["content"].is_string()) {
      Json part = {{"type", "text"}, {"text", std::move(message["content"])}};
      message["content"] = Json::array({std::move(part)});
    }
}

Result<ConversationTemplate> ConversationTemplate::compile(std::string source, std::string name,
                                                           Json variables) {
  MOERT_ASSIGN_OR_RETURN(ChatTemplate compiled,
                         ChatTemplate::compile(std::move(source), std::move(name)));
  ConversationTemplate made(std::move(compiled), std::move(variables));
  const std::string text = "Hello there";
  if (!made.shows(text)) {
    made.takesParts = true;
    made.takesParts = made.shows(text);
  }
  return made;
}

bool ConversationTemplate::shows(const std::string &text) const {
  const Result<std::string> shown = render({{{"role", "user"}, {"content", text}}});
  return shown.isOk() && shown->find(text) != std::string::npos;
}

Result<std::string> ConversationTemplate::render(Json messages, const Json &further,
                                                 const TemplateLimits &limits) const {
  Json context = variables;
  for (const auto &variable : further.items())
    context[variable.key()] = variable.value();
  if (takesParts)
    splitIntoParts(messages);
  context["messages"] = std::move(messages);
  context["add_generation_prompt"] = true;
  return chatTemplate.render(context, limits);
}

} // namespace moert
