// The text of an answer while it is generated: what is shown, divided into reasoning and answer,
// and the whole text with special tokens, which the next prompt may continue.
#pragma once

#include "runtime/generation/ReasoningText.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace moert::cli {

/// Owned by one answer, used by one thread. The tokenizer must outlive it.
class AnswerText {
public:
  /// show: receives the text as it becomes final, whole characters each time.
  AnswerText(const Tokenizer &source, std::string_view prompt, ReasoningText::Emit show);
  AnswerText(const AnswerText &) = delete;
  AnswerText &operator=(const AnswerText &) = delete;

  /// Adds a generated token.
  void add(int32_t token);
  /// The end: shows the text that was held back.
  void finish();

  const std::string &answer() const { return answerText; }
  const std::string &reasoning() const { return reasoningText; }
  /// All text, special tokens and the markers of reasoning included.
  const std::string &whole() const { return wholeText; }

private:
  void feed(std::string_view text);
  void take(AnswerPart part, std::string_view text);

  const Tokenizer &tokenizer;
  StreamingDecoder decoder;
  ReasoningText parts;
  ReasoningText::Emit show;
  ReasoningText::Emit keep; // take() as a function, made once.
  std::string answerText, reasoningText, wholeText;
};

} // namespace moert::cli
