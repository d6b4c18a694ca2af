#include "runtime/serving/TextStream.h"

#include "runtime/text/tokenizer/TokenIds.h"

#include <span>

namespace moert {

/// Ample for a token's text; a longer one only makes the buffer grow.
constexpr uint64_t kTextBytesPerToken = 16;
constexpr size_t kPieceBytes = 4096;

TextStream::TextStream(const Tokenizer *tokenizer, StopText stopText, uint32_t maxTokens,
                       Write writeText, std::vector<int32_t> shownTokens)
    : write(std::move(writeText)) {
  if (tokenizer)
    generated.emplace(*tokenizer, std::move(stopText), std::move(shownTokens));
  piece.reserve(kPieceBytes);
  if (!write)
    kept.reserve(maxTokens * kTextBytesPerToken);
}

uint64_t TextStream::memoryBytes(uint32_t maxTokens) {
  return maxTokens * kTextBytesPerToken + kPieceBytes;
}

Status TextStream::writePiece() {
  if (piece.empty())
    return {};
  hasText = true;
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
  if (generated) {
    generated->take(token, piece);
  } else {
    if (hasText)
      piece += ' ';
    appendTokenIds(std::span(&token, 1), piece);
  }
  MOERT_RETURN_IF_ERROR(writePiece());
  return !isStopped();
}

Status TextStream::finish() {
  if (generated)
    generated->finish(piece);
  return writePiece();
}

} // namespace moert
