// A weight whose rows are rows of other stored matrices, in another order: what a converter to GGUF
// joined, split or permuted. Each stored row is read where it lies; nothing is copied.
#pragma once

#include "compiler/import/StoredTensors.h"
#include "compiler/import/StoredType.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moec {

struct CodedRegion;

struct RowView {
  /// A stored tensor as matrices of `rows` x `cols`, one below the other, in a type that
  /// canDecodeBlocks().
  struct Piece {
    TensorLocation location;
    uint64_t rows = 0, cols = 0;
    /// The view's rows are columns: its line r is column r % cols of matrix r / cols.
    bool isTransposed = false;
  };
  /// Row (or column) `line` of each matrix of a piece; of a transposed piece, as there.
  struct Line {
    uint32_t piece = 0, line = 0;
    bool operator==(const Line &) const = default;
  };
  enum class Change {
    kNone,
    kMinusOne,    // 1 is subtracted.
    kLogNegative, // log(-value).
  };

  std::vector<Piece> pieces; // At least one.
  std::vector<Line> rows;    // Each of the view's rows; empty: those of the first piece.
  std::vector<Line> cols;    // Each column, if `rows` is empty; empty: the same columns.
  Change change = Change::kNone;

  Line rowAt(uint64_t row) const { return rows.empty() ? Line{0, uint32_t(row)} : rows[row]; }
  /// The type that holds every value exactly; BF16 for MXFP4.
  StoredType plainType() const;
  /// The type in which rows can be kept: that of all pieces, whose whole rows they are.
  std::optional<StoredType> keptType() const;
};

/// As decodeRegion() and readKept() for a weight with this view.
moert::Status decodeView(const StoredTensors &stored, const RowView &view,
                         const CodedRegion &region, std::span<float> out);
moert::Status readKeptView(const StoredTensors &stored, const RowView &view, uint64_t matrix,
                           uint64_t row, uint64_t firstCol, std::span<std::byte> out);

} // namespace moec
