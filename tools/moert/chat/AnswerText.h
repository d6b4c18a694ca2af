// The text of an answer while it is generated: what is shown, divided into reasoning and answer,
// and the whole text with special tokens, which the next prompt may continue.
#pragma once

#include "runtime/text/answer/AnswerReader.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moert::cli {

/// Owned by one answer, used by one thread. The tokenizer must outlive it.
class AnswerText {
public:
  /// Receives reasoning and answer as they become final, whole characters each time.
  using Show = std::function<void(AnswerPart part, std::string_view text)>;

  AnswerText(const Tokenizer &source, const AnswerFormat &format, std::string_view prompt,
             Show show);
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
  const std::vector<int32_t> markers; // Special tokens that the reader is given.
  AnswerReader reader;
  Show show;
  AnswerReader::Emit keep; // take() as a function, made once.
  std::string answerText, reasoningText, wholeText;
};

} // namespace moert::cli
