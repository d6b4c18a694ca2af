// What becomes of generated tokens: text or ids, shown as they come and kept where a program wants
// them at the end.
#pragma once

#include "runtime/engine/StopText.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moert::cli {

/// Owned by one run, used by its thread. Buffers are reserved for maxTokens tokens.
class TextStream {
public:
  /// Without a tokenizer ids are shown, separated by spaces. isStreamed: to standard output at
  /// once; otherwise it is kept for text().
  TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens, bool isStreamed);

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
  bool streams;
  bool hasShown = false;
  std::vector<int32_t> taken;
  std::string piece; // What is to be shown next.
  std::string kept;
};

} // namespace moert::cli
