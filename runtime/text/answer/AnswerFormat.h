// How a model's answers are written: where its reasoning is, and the form of its calls of tools.
// Recognized from the chat template.
#pragma once

#include "runtime/text/answer/CallForm.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

struct ReasoningMarks {
  std::string_view open, close;
  /// A template must contain it; empty: any template may have such answers.
  std::string_view sign = {};
  /// Also after an answer has begun: the markers are special tokens, which no text has.
  bool isAnywhere = false;
};

/// Immutable: any number of threads may use it.
class AnswerFormat {
public:
  /// Recognizes the format from the template's text, empty for a model without one.
  explicit AnswerFormat(std::string_view chatTemplate);

  /// Calls in the JSON form, which a system message asks for where a template has no tools.
  static const CallForm &genericCalls() { return kJsonForm; }

  std::span<const ReasoningMarks> reasoning() const { return marks; }
  /// The marker of the reasoning that the template itself has; empty: none.
  std::string_view ownReasoning() const { return ownMark; }
  /// The marker that ends the reasoning that a prompt has begun at its end; empty: none has.
  std::string_view reasoningEndOf(std::string_view prompt) const;
  /// Null if the template has no form that is known.
  const CallForm *calls() const { return form; }
  /// How the template writes them; null as calls() is.
  const CallWriting *writing() const { return usedWriting; }
  /// True where an answer is a sequence of messages with headers: gpt-oss's channels.
  bool hasChannels() const { return form == &kChannelForm; }
  /// Markers that are no text and belong to neither reasoning nor calls.
  std::span<const std::string_view> hidden() const { return hiddenMarks; }
  /// Special tokens of the tokenizer whose texts AnswerReader has to be given.
  std::vector<int32_t> tokens(const Tokenizer &tokenizer, const CallForm *usedCalls) const;

private:
  std::vector<ReasoningMarks> marks;
  std::vector<std::string_view> hiddenMarks;
  std::string_view ownMark;
  const CallForm *form = nullptr;
  const CallWriting *usedWriting = nullptr;
};

} // namespace moert
