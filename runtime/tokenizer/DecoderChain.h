// The decoder list of a tokenizer as a stream: tokens in, text out as soon as it is certain.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A token or a part of one; whole characters.
struct TokenPart {
  std::string text;
  bool endsToken;
};

/// Parts in order. Cleared and filled for every token, it keeps the memory of its texts.
class TokenParts {
public:
  /// Appends a part without text and returns the text.
  std::string &add(bool endsToken);
  void clear() { count = 0; }
  std::span<const TokenPart> parts() const { return {slots.data(), count}; }

private:
  std::vector<TokenPart> slots; // The first `count` are the parts; the others are memory.
  size_t count = 0;
};

/// One decoder. It gets tokens in parts: all parts of a token in order, the last one marked. What
/// it returns has the same form, appended to a list that does not hold the part it got.
class DecoderStage {
public:
  virtual ~DecoderStage() = default;
  virtual void take(const TokenPart &part, TokenParts &out) = 0;
  /// No more tokens: gives out what was held back and starts anew.
  virtual void finish(TokenParts &out) = 0;
  /// Whether finish() would give out text, or drop it.
  virtual bool holdsText() const { return false; }
};

/// How long a row of byte tokens (<0x0A>) waits. The reference package's decoder makes the whole
/// row U+FFFD if any of it is invalid, which only the end of the row tells.
enum class ByteRows {
  kWhole,    // Until its end; the text is the reference's.
  kStreamed, // Until a character is complete; valid characters before an invalid byte stay.
};

/// Refuses a list by which a text could grow beyond all bounds (only a hostile file has one).
Status checkDecoders(std::span<const DecoderStep> steps);

/// All decoders of a pipeline in a row, behind them the plain joining of all tokens. Owned by one
/// thread. Once its buffers have grown to the texts, it allocates nothing.
class DecoderChain {
public:
  DecoderChain(const TokenizerPipeline &pipeline, ByteRows byteRows);

  /// Appends the text that this token makes certain.
  void take(std::string_view token, std::string &out);

  /// Appends the rest; the next take() starts a new text.
  void finish(std::string &out);

  /// Whether a token was taken whose text is not certain yet.
  bool holdsText() const;

private:
  /// What is in `parts` goes through the stages from this one on.
  void runFrom(size_t stage, std::string &out);

  std::vector<std::unique_ptr<DecoderStage>> stages;
  TokenParts parts, next; // Before and behind the stage that runs.
};

} // namespace moert
