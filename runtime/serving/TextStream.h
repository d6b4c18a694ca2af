// Generated tokens as text: passed to a callback as they arrive, or kept until the end. generate()
// in Generation.h writes a model's tokens to it.
#pragma once

#include "runtime/text/answer/GeneratedText.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Owned by one sequence, used by its thread. Buffers are reserved for maxTokens tokens.
class TextStream {
public:
  /// Receives text as it is generated, whole characters each time. An error ends the generation and
  /// is returned by it.
  using Write = std::function<Status(std::string_view text)>;

  /// tokenizer: must outlive the stream; without one the text is the ids, separated by spaces, and
  /// stop texts are never found. Without `write` the text is kept for text(). shownTokens: special
  /// tokens that are text.
  TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens, Write write,
             std::vector<int32_t> shownTokens = {});

  /// The maximum bytes of a stream of `maxTokens` tokens.
  static uint64_t memoryBytes(uint32_t maxTokens);

  /// Writes the text that the token completes. Returns false once a stop text is complete.
  Result<bool> take(int32_t token);

  /// Ends the tokens: writes the text that was held back.
  Status finish();

  /// Whether a stop text ended the text; final after finish().
  bool isStopped() const { return generated && generated->isStopped(); }

  const std::string &text() const { return kept; } // Only without `write`.
  bool isEmpty() const { return !hasText; }

private:
  Status writePiece();

  std::optional<GeneratedText> generated;
  Write write; // Empty: the text is kept.
  bool hasText = false;
  std::string piece; // The next text to write.
  std::string kept;
};

} // namespace moert
