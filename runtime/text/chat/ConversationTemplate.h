// A chat template with what every conversation gives it. Templates that show the text of a message
// only as a list of parts, {"type": "text", "text": ...}, get such lists: they would lose a text.
#pragma once

#include "runtime/text/chat/ChatTemplate.h"

#include <nlohmann/json.hpp>

#include <string>

namespace moert {

/// Immutable: any number of threads may use it.
class ConversationTemplate {
public:
  /// variables: what the template gets besides the messages, an object: special tokens, options.
  static Result<ConversationTemplate> compile(std::string source, std::string name,
                                              nlohmann::ordered_json variables);

  /// The text that the model continues with an answer. further: variables that replace those of the
  /// same names.
  Result<std::string> render(nlohmann::ordered_json messages,
                             const nlohmann::ordered_json &further = {},
                             const TemplateLimits &limits = {}) const;

private:
  ConversationTemplate(ChatTemplate compiled, nlohmann::ordered_json given)
      : chatTemplate(std::move(compiled)), variables(std::move(given)) {}
  bool shows(const std::string &text) const;

  ChatTemplate chatTemplate;
  nlohmann::ordered_json variables;
  bool takesParts = false; // Contents of messages only as lists of parts.
};

} // namespace moert
