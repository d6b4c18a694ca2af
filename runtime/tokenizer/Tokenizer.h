// Text to token ids and back, bit for bit as the checkpoint's own tokenizer does it. Reads the
// compact table that the compiler wrote (TokenizerTable.h), never tokenizer.json.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct TokenizerState;

/// A loaded tokenizer. The table's bytes belong to the caller and have to outlive it: vocabulary
/// and merges are used where they lie. Movable; all const members may be called from many threads
/// at once.
class Tokenizer {
public:
  /// Refuses, with a reason, whatever is not a table in every detail. The bytes have to start at a
  /// multiple of 8 (a section of an artifact does).
  static Result<Tokenizer> load(std::span<const std::byte> table);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// The ids of a text. With addSpecialTokens, the tokens of the post-processor (begin and end of
  /// text) stand around them; special tokens written out in the text are recognized either way.
  /// Invalid UTF-8 is read as U+FFFD, one for each maximal part of a broken sequence, as a lossy
  /// conversion does. Texts above 1 GiB are refused.
  Result<std::vector<int32_t>> encode(std::string_view utf8, bool addSpecialTokens) const;

  /// The text of ids; always valid UTF-8. Ids that no token has are left out. A special token is
  /// skipped by its id; the reference package compares contents, and so prints one that
  /// normalization changes.
  std::string decode(std::span<const int32_t> ids, bool skipSpecialTokens) const;

  /// One more than the largest id. A model may have more rows than that, never fewer.
  size_t vocabularySize() const;

  /// Bytes held beyond the table itself.
  uint64_t memoryBytes() const;

  /// The id of a token by its exact content ("<|im_end|>"), added tokens included.
  std::optional<int32_t> idOf(std::string_view token) const;

  /// Whether decode(skipSpecialTokens) leaves it out.
  bool isSpecial(int32_t id) const;

  /// The exact content of a token, as idOf() takes it; empty if no token has the id. Lies in the
  /// table.
  std::string_view contentOf(int32_t id) const;

private:
  friend class StreamingDecoder;
  explicit Tokenizer(std::unique_ptr<TokenizerState> loadedState);

  std::unique_ptr<TokenizerState> state;
};

class DecoderChain;

/// Decodes ids one at a time, for text that is shown while it is generated: feed() returns text as
/// soon as it is certain, always whole characters, and flush() the rest.
///
/// Put together these texts are what decode() gives for all the ids, with one exception. decode()
/// does as the reference package does: a row of byte tokens (<0x0A>) that is not valid UTF-8
/// becomes one U+FFFD for each byte, the valid characters in it included. Here the valid characters
/// at the front of the row were returned before the row ended, and stay.
///
/// A returned text is valid until the next call; once the longest one has come, none allocates.
/// Owned by one thread; the tokenizer has to outlive it.
class StreamingDecoder {
public:
  StreamingDecoder(const Tokenizer &source, bool skipSpecial);
  StreamingDecoder(StreamingDecoder &&) noexcept;
  StreamingDecoder &operator=(StreamingDecoder &&) noexcept;
  ~StreamingDecoder();

  /// The text that this id completes; often empty.
  std::string_view feed(int32_t id);

  /// What was held back. The next feed() starts a new text.
  std::string_view flush();

  /// Whether the text so far ends in something that only flush() or a later id decides.
  bool holdsText() const;

private:
  friend class Tokenizer;
  StreamingDecoder(const Tokenizer &source, bool skipSpecial,
                   std::unique_ptr<DecoderChain> decoders);

  const Tokenizer *tokenizer;
  std::unique_ptr<DecoderChain> chain;
  std::string text; // What was returned last.
  bool skipSpecialTokens;
};

} // namespace moert
