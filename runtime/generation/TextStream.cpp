#include "runtime/generation/TextStream.h"

#include "runtime/generation/TokenIds.h"

#include <span>

namespace moert {

/// Generous for a token's text; a longer one only makes the buffer grow.
constexpr uint64_t kTextBytesPerToken = 16;
constexpr size_t kPieceBytes = 4096;

TextStream::TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens,
                       Write writeText)
    : stops(std::move(stopText)), write(std::move(writeText)) {
  if (tokenizer)
    decoder.emplace(*tokenizer, true);
  taken.reserve(maxTokens);
  piece.reserve(kPieceBytes);
  if (!write)
    kept.reserve(maxTokens * kTextBytesPerToken);
}

uint64_t TextStream::memoryBytes(uint32_t maxTokens) {
  return maxTokens * (sizeof(int32_t) + kTextBytesPerToken) + kPieceBytes;
}

Status TextStream::show() {
  if (piece.empty())
    return {};
  hasShown = true;
  if (!write) {
    kept += piece;
    piece.clear();
    return {};
  }
  Status status = write(piece);
  piece.clear();
  return status;
}

Result<bool> TextStream::take(int32_t token) {
  taken.push_back(token);
  bool isStopped = false;
  if (decoder) {
    isStopped = stops.feed(decoder->feed(token), piece);
  } else {
    if (taken.size() > 1)
      piece += ' ';
    appendTokenIds(std::span(&token, 1), piece);
  }
  MOERT_RETURN_IF_ERROR(show());
  return !isStopped;
}

Status TextStream::finish() {
  if (decoder)
    stops.feed(decoder->flush(), piece);
  stops.flush(piece);
  return show();
}

} // namespace moert
