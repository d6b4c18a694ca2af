#include "compiler/import/codecs/RowView.h"

#include "compiler/import/codecs/CodedWeight.h"
#include "compiler/import/codecs/GgmlBlocks.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cmath>

namespace moec {

using moert::invalidInput;
using moert::Status;

namespace {

/// Size of one read of several rows.
constexpr uint64_t kReadBytes = 1 << 20;

TensorBlock blockOf(const RowView::Piece &piece) {
  return tensorBlock(piece.location.tensor->type);
}

/// Columns [first, first + count) of stored rows [row, row + rows), row by row. Reads the blocks
/// that hold them.
Status decodeRows(const StoredTensors &stored, const RowView::Piece &piece, uint64_t row,
                  uint64_t rows, uint64_t first, uint64_t count, float *out) {
  const TensorBlock block = blockOf(piece);
  const uint64_t begin = first / block.elements,
                 blocks = moert::divideUp(first + count, block.elements) - begin;
  const uint64_t blockBytes = block.bits / 8, rowBytes = piece.cols / block.elements * blockBytes;
  const bool isWhole = blocks * blockBytes == rowBytes;
  const uint64_t atOnce =
      isWhole ? std::clamp<uint64_t>(kReadBytes / std::max<uint64_t>(1, rowBytes), 1, rows) : 1;
  std::vector<std::byte> bytes(atOnce * blocks * blockBytes);
  std::vector<float> values(count == blocks * block.elements ? 0 : blocks * block.elements);
  for (uint64_t done = 0; done < rows; done += atOnce) {
    const uint64_t now = std::min(atOnce, rows - done);
    const auto part = std::span(bytes).first(now * blocks * blockBytes);
    MOERT_RETURN_IF_ERROR(
        stored.read(piece.location, (row + done) * rowBytes + begin * blockBytes, part));
    for (uint64_t r = 0; r < now; ++r) {
      const auto source = part.subspan(r * blocks * blockBytes, blocks * blockBytes);
      const std::span<float> to(out + (done + r) * count, count);
      decodeBlocks(piece.location.tensor->type, source, values.empty() ? to : std::span(values));
      if (!values.empty())
        std::copy_n(values.data() + first % block.elements, count, to.data());
    }
  }
  return Status();
}

/// Rows [first, first + count) of the view that are consecutive columns of one stored matrix.
Status decodeTransposed(const StoredTensors &stored, const RowView::Piece &piece, RowView::Line row,
                        uint64_t count, const CodedRegion &region, float *out) {
  const uint64_t matrix = row.line / piece.cols, first = row.line % piece.cols;
  std::vector<float> values(region.colCount * count);
  MOERT_RETURN_IF_ERROR(decodeRows(stored, piece, matrix * piece.rows + region.firstCol,
                                   region.colCount, first, count, values.data()));
  for (uint64_t r = 0; r < count; ++r)
    for (uint64_t col = 0; col < region.colCount; ++col)
      out[r * region.colCount + col] = values[col * count + r];
  return Status();
}

/// How many rows of the view from `row` on, at most `most`, follow each other in one matrix.
uint64_t runLength(const RowView &view, uint64_t row, uint64_t most) {
  if (view.rows.empty())
    return most;
  const RowView::Line first = view.rows[row];
  const RowView::Piece &piece = view.pieces[first.piece];
  if (piece.isTransposed)
    most = std::min(most, piece.cols - first.line % piece.cols);
  uint64_t length = 1;
  while (length < most &&
         view.rows[row + length] == RowView::Line{first.piece, first.line + uint32_t(length)})
    ++length;
  return length;
}

/// Rows of the region with each column from where the view has it.
Status decodeColumns(const StoredTensors &stored, const RowView &view, const CodedRegion &region,
                     std::span<float> out) {
  std::vector<std::vector<float>> whole;
  for (const RowView::Piece &piece : view.pieces)
    whole.emplace_back(piece.cols);
  for (uint64_t r = 0; r < region.rowCount; ++r) {
    for (size_t i = 0; i < whole.size(); ++i) {
      const RowView::Piece &piece = view.pieces[i];
      MOERT_RETURN_IF_ERROR(decodeRows(stored, piece,
                                       region.matrix * piece.rows + region.firstRow + r, 1, 0,
                                       piece.cols, whole[i].data()));
    }
    for (uint64_t i = 0; i < region.colCount; ++i) {
      const RowView::Line &col = view.cols[region.firstCol + i];
      out[r * region.colCount + i] = whole[col.piece][col.line];
    }
  }
  return Status();
}

/// Rows of the region, those that follow each other in one matrix together.
Status decodeRuns(const StoredTensors &stored, const RowView &view, const CodedRegion &region,
                  std::span<float> out) {
  for (uint64_t done = 0; done < region.rowCount;) {
    const uint64_t count = runLength(view, region.firstRow + done, region.rowCount - done);
    const RowView::Line row = view.rowAt(region.firstRow + done);
    const RowView::Piece &piece = view.pieces[row.piece];
    float *const to = out.data() + done * region.colCount;
    MOERT_RETURN_IF_ERROR(piece.isTransposed
                              ? decodeTransposed(stored, piece, row, count, region, to)
                              : decodeRows(stored, piece, region.matrix * piece.rows + row.line,
                                           count, region.firstCol, region.colCount, to));
    done += count;
  }
  return Status();
}

float changed(RowView::Change change, float value) {
  switch (change) {
  case RowView::Change::kNone:
    return value;
  case RowView::Change::kMinusOne:
    return value - 1;
  case RowView::Change::kLogNegative:
    return value < 0 ? static_cast<float>(moert::deterministicLog(-double{value})) : NAN;
  }
  return value;
}

} // namespace

StoredType RowView::plainType() const {
  const TensorType type = pieces.front().location.tensor->type;
  const bool isOne = std::all_of(pieces.begin(), pieces.end(), [&](const Piece &piece) {
    return piece.location.tensor->type == type;
  });
  if (!isOne || change != Change::kNone)
    return StoredType::kF32;
  return type == TensorType::kF16                                  ? StoredType::kF16
         : type == TensorType::kBf16 || type == TensorType::kMxfp4 ? StoredType::kBf16
                                                                   : StoredType::kF32;
}

std::optional<StoredType> RowView::keptType() const {
  const TensorType type = pieces.front().location.tensor->type;
  const bool isOne = std::all_of(pieces.begin(), pieces.end(), [&](const Piece &piece) {
    return piece.location.tensor->type == type && !piece.isTransposed;
  });
  return isOne && cols.empty() && change == Change::kNone ? moec::keptType(type) : std::nullopt;
}

Status decodeView(const StoredTensors &stored, const RowView &view, const CodedRegion &region,
                  std::span<float> out) {
  MOERT_RETURN_IF_ERROR(view.cols.empty() ? decodeRuns(stored, view, region, out)
                                          : decodeColumns(stored, view, region, out));
  const RowView::Piece &first = view.pieces.front();
  const bool isQuantized = blockOf(first).elements > 1 || view.change != RowView::Change::kNone;
  for (float &value : out) {
    value = changed(view.change, value);
    if (isQuantized && !std::isfinite(value))
      return invalidInput(stored.subject(first.location), ": found the value ", value,
                          ", expected finite numbers");
  }
  return Status();
}

Status readKeptView(const StoredTensors &stored, const RowView &view, uint64_t matrix, uint64_t row,
                    uint64_t firstCol, std::span<std::byte> out) {
  const RowView::Line at = view.rowAt(row);
  const RowView::Piece &piece = view.pieces[at.piece];
  const TensorBlock block = blockOf(piece);
  const uint64_t first = (matrix * piece.rows + at.line) * (piece.cols / block.elements);
  return stored.read(piece.location, (first + firstCol / block.elements) * (block.bits / 8), out);
}

} // namespace moec
