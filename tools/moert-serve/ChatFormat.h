// How an artifact's conversations are written: its checkpoint's chat template, or ChatML if it has
// none.
#pragma once

#include "runtime/chat/ChatTemplate.h"
#include "runtime/format/Artifact.h"
#include "tools/moert-serve/ApiError.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::serve {

/// Immutable: any number of threads may use it.
class ChatFormat {
public:
  /// A template that cannot be compiled is an error only of the requests that need it.
  explicit ChatFormat(const std::optional<Chat> &chat);

  /// Whether the artifact has no template, so that conversations are written as ChatML.
  bool isAssumed() const { return !isOwn; }
  /// Texts that end the model's message.
  const std::vector<std::string> &stopTexts() const { return stops; }
  /// Whether the model's calls of tools are written as ToolCallText reads them.
  bool hasTools() const { return writesToolCalls; }
  /// Whether the prompt's text has its own first token.
  bool hasSpecialTokens() const { return isOwn; }

  /// The conversation up to where the model's message begins. tools: null without any.
  Result<std::string> render(const Json &messages, const Json &tools) const;

private:
  Status load(const Chat &chat);

  bool isOwn = false; // The artifact has templates.
  std::optional<ChatTemplate> plain, withTools;
  Status fault;
  Json variables = Json::object();
  bool writesToolCalls = false;
  std::vector<std::string> stops;
};

} // namespace moert::serve
