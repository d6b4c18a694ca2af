// The messages of a conversation and their rendering with a chat template.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/ConversationTemplate.h"

#include <string>
#include <vector>

namespace moert::cli {

/// Used by one thread.
class Conversation {
public:
  explicit Conversation(ConversationTemplate chosen) : chatTemplate(std::move(chosen)) {}

  /// Replaces the system message; an empty text removes it.
  void setSystem(std::string text);
  void addUser(std::string text);
  /// reasoning: empty if there was none.
  void addAnswer(std::string text, std::string reasoning);
  /// Takes back the last message.
  void removeLast() { messages.pop_back(); }
  /// Takes back the last message of the user and the answers to it; false if there is none.
  bool removeLastTurn();
  /// Takes back the answers to the last message of the user; false if there is no such message.
  bool removeAnswer();
  /// Removes all messages but the system's.
  void reset();
  /// Removes the oldest turn, a message of the user and the answers to it. False, and nothing
  /// changes, if it is the last one.
  bool dropOldestTurn();

  /// The text that the model continues with an answer.
  Result<std::string> render(const TemplateLimits &limits) const;

  size_t turns() const;
  /// {"messages": [...]}, for people and programs.
  std::string asJson() const;

private:
  ConversationTemplate chatTemplate;
  std::string system;
  std::vector<nlohmann::ordered_json> messages; // Without the system's.
};

} // namespace moert::cli
