// Which of an artifact's chat templates a conversation has, and the variables that it gets.
#pragma once

#include "runtime/format/Artifact.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>

namespace moert {

/// The name of the template for conversations; those with tools may have "tool_use".
constexpr std::string_view kDefaultTemplate = "default";

/// The template of that name; without a name the default one, or the only one. nullptr: none.
inline const NamedTemplate *templateOf(const Chat &chat,
                                       std::optional<std::string_view> name = {}) {
  for (const NamedTemplate &one : chat.templates)
    if (one.name == name.value_or(kDefaultTemplate))
      return &one;
  return !name && chat.templates.size() == 1 ? &chat.templates.front() : nullptr;
}

/// The special tokens' texts and the variables that transformers always passes.
inline nlohmann::ordered_json templateVariables(const std::optional<Chat> &chat) {
  nlohmann::ordered_json variables = {{"tools", nullptr}, {"documents", nullptr}};
  if (chat)
    for (const auto &[name, text] : chat->specialTokens)
      variables[name] = text;
  return variables;
}

} // namespace moert
