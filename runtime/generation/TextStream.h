// What becomes of generated tokens: text or ids, shown as they come and kept where a program wants
// them at the end.
#pragma once

#include "runtime/generation/StopText.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Owned by one run, used by its thread. Buffers are reserved for maxTokens tokens.
class TextStream {
public:
  /// Receives text as it is generated; an error ends the run.
  using Write = std::function<Status(std::string_view text)>;

  /// Without a tokenizer, ids are written, separated by spaces. Without `write`, the text is kept
  /// for text().
  TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens, Write write);

  /// Bytes that a stream of so many tokens may hold.
  static uint64_t memoryBytes(uint32_t maxTokens);

  /// Shows what the token completes. False once a stop text is complete.
  Result<bool> take(int32_t token);

  /// Shows what was held back.
  Status finish();

  const std::vector<int32_t> &ids() const { return taken; }
  const std::string &text() const { return kept; } // What was not streamed.
  bool isEmpty() const { return !hasShown; }

private:
  Status show();

  std::optional<StreamingDecoder> decoder;
  StopText stops;
  Write write; // Empty: the text is kept.
  bool hasShown = false;
  std::vector<int32_t> taken;
  std::string piece; // What is to be shown next.
  std::string kept;
};

} // namespace moert
