// A tokenizer's decoder list as a stream: tokens in, text out as soon as it is final.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

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

/// A list of parts. Cleared and filled for every token; keeps the memory of its texts.
class TokenParts {
public:
  /// Appends a part without text and returns the text.
  std::string &add(bool endsToken);
  void clear() { count = 0; }
  std::span<const TokenPart> parts() const { return {slots.data(), count}; }

private:
  std::vector<TokenPart> slots; // The first `count` are the parts; the rest is kept memory.
  size_t count = 0;
};

/// One decoder. It receives tokens in parts: all parts of a token in order, the last one marked.
/// Its results have the same form and are appended to a list other than the input.
class DecoderStage {
public:
  virtual ~DecoderStage() = default;
  virtual void take(const TokenPart &part, TokenParts &out) = 0;
  /// No more tokens: passes on the text that was held back and resets.
  virtual void finish(TokenParts &out) = 0;
  /// Whether finish() would pass on text, or drop it.
  virtual bool holdsText() const { return false; }
};

/// How long a row of byte tokens (<0x0A>) is held back. The reference package's decoder makes the
/// whole row U+FFFD if any of it is invalid, which is certain only at the end of the row.
enum class ByteRows {
  kWhole,    // Until its end; the text equals the reference's.
  kStreamed, // Until a character is complete; valid characters before an invalid byte are kept.
};

/// Refuses a list that could grow a text without bounds (only a hostile file has one).
Status checkDecoders(std::span<const DecoderStep> steps);

/// All decoders of a pipeline, followed by joining all tokens. Owned by one thread. Allocates
/// nothing once its buffers have grown to the size of the texts.
class DecoderChain {
public:
  DecoderChain(const TokenizerPipeline &pipeline, ByteRows byteRows);

  /// Appends the text that this token completes.
  void take(std::string_view token, std::string &out);

  /// Appends the rest; the next take() starts a new text.
  void finish(std::string &out);

  /// Whether some text of the tokens so far is not final yet.
  bool holdsText() const;

private:
  /// Runs `parts` through the stages from this one on.
  void runFrom(size_t stage, std::string &out);

  std::vector<std::unique_ptr<DecoderStage>> stages;
  TokenParts parts, next; // Input and output of the running stage.
};

} // namespace moert
