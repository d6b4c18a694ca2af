// Text to token ids and back, with exactly the results of the checkpoint's own tokenizer. Reads the
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

/// A loaded tokenizer. The caller owns the table's bytes, which must outlive it: vocabulary and
/// merges are used in place. Movable; all const members may be called from many threads at once.
class Tokenizer {
public:
  /// Checks the table in every detail and refuses it with a reason. The bytes must start at a
  /// multiple of 8 (a section of an artifact does). modelRows: the number of tokens of the model
  /// that texts are encoded for.
  static Result<Tokenizer> load(std::span<const std::byte> table, size_t modelRows = SIZE_MAX);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// The ids of a text. With addSpecialTokens, the post-processor's tokens (begin and end of text)
  /// are added around them; special tokens spelled out in the text are recognized either way.
  /// Invalid UTF-8 is read as U+FFFD, one for each maximal part of a broken sequence, as in a lossy
  /// conversion. Texts above 1 GiB are refused.
  Result<std::vector<int32_t>> encode(std::string_view utf8, bool addSpecialTokens) const;

  /// The text of ids; always valid UTF-8. Ids without a token are ignored. A special token is
  /// skipped by its id; the reference package compares contents, and so prints one that
  /// normalization changes.
  std::string decode(std::span<const int32_t> ids, bool skipSpecialTokens) const;

  /// One more than the largest id. A model usually has as many rows, or a few more.
  size_t vocabularySize() const;

  /// Bytes allocated besides the table itself.
  uint64_t memoryBytes() const;

  /// The id of a token by its exact content ("<|im_end|>"), added tokens included.
  std::optional<int32_t> idOf(std::string_view token) const;

  /// Whether decode(skipSpecialTokens) skips it.
  bool isSpecial(int32_t id) const;

  /// The exact content of a token, as idOf() accepts it; empty if the id has no token. Points into
  /// the table.
  std::string_view contentOf(int32_t id) const;

  /// The bytes that a token adds in the middle of a text, which may be a part of a character. Empty
  /// if the id has no token.
  std::string bytesOf(int32_t id) const;

  /// What it was loaded as, for StreamingDecoder.
  const TokenizerState &parts() const { return *state; }

private:
  explicit Tokenizer(std::unique_ptr<TokenizerState> loadedState);

  std::unique_ptr<TokenizerState> state;
};

class DecoderChain;

/// Decodes ids one at a time, for text that is shown while it is generated: feed() returns text as
/// soon as it is final, always whole characters, and flush() the rest.
///
/// The concatenated texts equal decode() of all ids, with one exception. decode() follows the
/// reference package: a row of byte tokens (<0x0A>) that is not valid UTF-8 becomes one U+FFFD for
/// each byte, including its valid characters. Here the valid characters at the front of the row
/// were returned before the row ended, and stay.
///
/// A returned text is valid until the next call; after the longest text no call allocates. Owned by
/// one thread; the tokenizer must outlive it.
class StreamingDecoder {
public:
  StreamingDecoder(const Tokenizer &source, bool skipSpecial);
  /// With the tokenizer's decoders in another form.
  StreamingDecoder(const Tokenizer &source, bool skipSpecial,
                   std::unique_ptr<DecoderChain> decoders);
  StreamingDecoder(StreamingDecoder &&) noexcept;
  StreamingDecoder &operator=(StreamingDecoder &&) noexcept;
  ~StreamingDecoder();

  /// The text that this id completes; often empty.
  std::string_view feed(int32_t id);

  /// The text that was held back. The next feed() starts a new text.
  std::string_view flush();

  /// Whether the text so far ends in a part that only flush() or a later id decides.
  bool holdsText() const;

private:
  const Tokenizer *tokenizer;
  std::unique_ptr<DecoderChain> chain;
  std::string text; // The last result.
  bool skipSpecialTokens;
};

} // namespace moert
