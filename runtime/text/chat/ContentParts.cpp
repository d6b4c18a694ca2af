#include "runtime/text/chat/ContentParts.h"

#include <nlohmann/json.hpp>

namespace moert {

using Json = nlohmann::ordered_json;

void splitIntoParts(Json &messages) {
  for (Json &message : messages)
    if (message["content"].is_string()) {
      Json part = {{"type", "text"}, {"text", std::move(message["content"])}};
      message["content"] = Json::array({std::move(part)});
    }
}

bool takesOnlyParts(const ChatTemplate &chatTemplate, const Json &variables) {
  constexpr const char *kText = "Hello there";
  Json context = variables;
  context["messages"] = Json::array({{{"role", "user"}, {"content", kText}}});
  context["add_generation_prompt"] = true;
  const auto shows = [&] {
    const Result<std::string> text = chatTemplate.render(context);
    return text.isOk() && text->find(kText) != std::string::npos;
  };
  if (shows())
    return false;
  splitIntoParts(context["messages"]);
  return shows();
}

} // namespace moert
