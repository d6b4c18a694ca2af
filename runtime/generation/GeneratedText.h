// The text of generated tokens up to a stop text: decodes token by token, leaves special tokens out
// of the text and lets stop texts match them all the same.
#pragma once

#include "runtime/generation/StopText.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string>

namespace moert {

/// Owned by one sequence, used by one thread. The tokenizer has to outlive it.
class GeneratedText {
public:
  GeneratedText(const Tokenizer &source, StopText stopText)
      : tokenizer(source), decoder(source, true), stops(std::move(stopText)) {}

  /// Appends to `shown` the text that this token makes certain. True once a stop text is complete;
  /// the text before it has then been appended, and no token is expected any more.
  bool take(int32_t token, std::string &shown);

  /// The end of the tokens: appends what was held back. True if a stop text was or is complete.
  bool finish(std::string &shown);

  bool isStopped() const { return stops.isStopped(); }

private:
  bool takeSpecial(std::string_view content, std::string &shown);

  const Tokenizer &tokenizer;
  StreamingDecoder decoder;
  StopText stops;
};

} // namespace moert
