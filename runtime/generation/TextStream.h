// Generated tokens as text: passed to a callback as they come, or kept until the end. generate() in
// Generation.h runs a model into one.
#pragma once

#include "runtime/generation/GeneratedText.h"

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
  /// Receives text as it is generated, whole characters each time. An error ends the generation,
  /// which returns it.
  using Write = std::function<Status(std::string_view text)>;

  /// tokenizer: has to outlive this; without one the text is the ids, separated by spaces, and stop
  /// texts are never found. Without `write` the text is kept for text().
  TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens, Write write);

  /// Bytes that a stream of so many tokens may hold.
  static uint64_t memoryBytes(uint32_t maxTokens);

  /// Writes the text that the token completes. False once a stop text is complete.
  Result<bool> take(int32_t token);

  /// The end of the tokens: writes what was held back.
  Status finish();

  /// Whether the text ended at a stop text; final after finish().
  bool isStopped() const { return generated && generated->isStopped(); }

  /// The tokens that were taken. The last one completed the stop text, if there was one.
  const std::vector<int32_t> &ids() const { return taken; }
  const std::string &text() const { return kept; } // Without `write` only.
  bool isEmpty() const { return !hasText; }

private:
  Status writePiece();

  std::optional<GeneratedText> generated;
  Write write; // Empty: the text is kept.
  bool hasText = false;
  std::vector<int32_t> taken;
  std::string piece; // To be written next.
  std::string kept;
};

} // namespace moert
