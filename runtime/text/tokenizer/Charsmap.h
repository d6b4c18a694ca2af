// SentencePiece's precompiled character map (the normalizer Precompiled): replacements for
// characters and short sequences, in a double-array trie. The bytes are not trusted.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Format: the trie's size in bytes (32 bit, little-endian); the trie's units of 32 bit; then the
/// replacements, each ended by a zero byte. Source: guillaume-be/rust-tokenizers' and the reference
/// package's spm_precompiled, which read darts-clone's form.
class Charsmap {
public:
  /// The longest replacement that is accepted; SentencePiece's own maps have 33 bytes.
  static constexpr uint32_t kMaxReplacementBytes = 64;

  static Result<Charsmap> parse(std::string bytes);

  /// text, which is valid UTF-8, with every grapheme cluster replaced, or its characters.
  std::string apply(std::string_view text) const;

  uint64_t memoryBytes() const { return bytes.capacity(); }

private:
  std::optional<std::string_view> find(std::string_view text) const;
  uint32_t unit(size_t index) const;

  std::string bytes;
  size_t unitCount = 0;

  std::string_view replacements() const {
    return std::string_view(bytes).substr(sizeof(uint32_t) * (1 + unitCount));
  }
};

} // namespace moert
