// How an artifact's conversations are written: its checkpoint's chat template, or ChatML if it has
// none.
#pragma once

#include "runtime/format/Artifact.h"
#include "runtime/text/answer/AnswerFormat.h"
#include "runtime/text/chat/ConversationTemplate.h"
#include "tools/moert-serve/ApiError.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::serve {

/// What a prompt is made from.
struct ChatInput {
  Json messages = Json::array();
  Json tools = {};                 // Null without any.
  Json variables = Json::object(); // Template variables such as enable_thinking.
};

/// Immutable: any number of threads may use it.
class ChatFormat {
public:
  /// arguments: variables of the template, unless a request sets them. A template that cannot be
  /// compiled is an error only of the requests that need it.
  explicit ChatFormat(const std::optional<Chat> &chat, const Json &arguments = Json::object());

  /// Whether the artifact has no template, so that conversations are written as ChatML.
  bool isAssumed() const { return !isOwn; }
  /// Texts that end the model's message.
  const std::vector<std::string> &stopTexts() const { return stops; }
  /// How answers are read.
  const AnswerFormat &answers() const { return answerFormat; }
  /// The form of the model's calls: the template's own, or the generic one, which a system message
  /// asks for.
  const CallForm &calls() const {
    return hasOwnTools ? *answerFormat.calls() : AnswerFormat::genericCalls();
  }
  /// How it writes them.
  const CallWriting &callWriting() const {
    return hasOwnTools ? *answerFormat.writing() : calls().writings[0];
  }
  /// What keeps the template from being used.
  const Status &status() const { return fault; }
  /// Whether the prompt's text has its own first token.
  bool hasSpecialTokens() const { return isOwn; }

  /// The conversation up to where the model's message begins.
  Result<std::string> render(const ChatInput &input) const;

private:
  Status load(const Chat &chat, const Json &arguments);

  bool isOwn = false; // The artifact has templates.
  std::optional<ConversationTemplate> plain, withTools;
  Status fault;
  AnswerFormat answerFormat;
  bool hasOwnTools = false; // The template writes tools, and calls in a form that is known.
  std::vector<std::string> stops;
};

} // namespace moert::serve
