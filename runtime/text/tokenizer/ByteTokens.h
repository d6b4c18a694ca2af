// The tokens <0x00> to <0xFF>, as which a model with byte fallback encodes characters that it does
// not have.
#pragma once

#include "runtime/text/tokenizer/TokenizerTable.h"

#include <array>

namespace moert {

class ByteTokens {
public:
  ByteTokens(const VocabularyView &vocabulary, bool byteFallback);

  /// Whether every byte of text has a token; never without byte fallback.
  bool hasAll(std::string_view text) const;

  /// The token of a byte that has one.
  int32_t id(char byte) const { return ids[static_cast<unsigned char>(byte)]; }

private:
  std::array<int32_t, 256> ids; // -1: missing, or without byte fallback.
};

} // namespace moert
