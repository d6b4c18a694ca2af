// A weight matrix that a checkpoint stores as codes with shared scales:
//
//   value(r, c) = (code(r, c) - zero point) * (scale * global scale)
//
// with one rounding to f32 per multiplication. All codecs but GGUF's, whose codes and scales are
// interleaved in blocks (RowView.h), describe their weights in this form; decodeRegion() reads any
// rectangle of it without the rest of the tensor.
//
// Not here: names, types and shapes of the stored tensors, which are the codecs' (Codec.h).
#pragma once

#include "compiler/import/ShardSet.h"
#include "compiler/import/StoredTensors.h"
#include "compiler/import/StoredType.h"
#include "compiler/import/codecs/NumberFormat.h"
#include "compiler/import/codecs/RowView.h"
#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moec {

/// How 4-bit codes are packed into little-endian words of 8: element i of a word is nibble
/// nibbles[i], where nibble 0 is the least significant. Bytes of two codes, low first, are the
/// default too.
struct NibblePacking {
  std::array<uint8_t, 8> nibbles = {0, 1, 2, 3, 4, 5, 6, 7};
  bool isAcrossLines = false; // A word holds the same position of 8 lines, not 8 of one line.
  uint32_t lineAlignment = 2; // Codes per line are padded to a multiple of this: 2 or 8.
};

/// One stored tensor as matrices of numbers. Each is stored as `lines` lines of `width` elements; a
/// leading dimension of the tensor counts matrices.
struct Plane {
  TensorLocation location;
  NumberFormat format;
  uint64_t lines = 0, width = 0;
  bool linesAreColumns = false; // A line is a column of the weight (one input), not a row.
  NibblePacking packing = {};   // For kNibble.
  /// Neighbouring weights that share an element.
  uint64_t rowsPerElement = 1, colsPerElement = 1;

  uint64_t lineBytes() const;
  uint64_t matrixBytes() const;
};

/// Invariants: every plane covers rows x cols weights for each of `matrices`, and its tensor has
/// matrices * matrixBytes() bytes.
struct CodedWeight {
  std::optional<uint64_t> matrices; // Absent: the weight has no leading dimension.
  uint64_t rows = 0, cols = 0;      // Outputs and inputs of a matrix.
  bool isTransposed = false;        // The plain tensor is [inputs, outputs].
  Plane codes, scales;
  std::optional<Plane> zeroPoints;
  std::optional<Plane> globalScale; // One element per matrix, or one for all (isGlobalShared).
  bool isGlobalShared = false;
  bool dividesByGlobalScale = false;
  /// I32 [cols]: each input's column of scales and zero points, instead of its position divided by
  /// colsPerElement.
  std::optional<TensorLocation> groupOfColumn;
  /// If set, all planes are empty, and the values are the view's.
  std::optional<RowView> view;
  bool isVector = false; // The plain tensor is the only row; with a view or computed.
  /// If set, all planes but the location of the codes are empty, and this computes the values: the
  /// whole matrix, row by row.
  std::function<moert::Status(const StoredTensors &, std::span<float>)> compute;

  /// All stored tensors that the values come from, the codes first.
  std::vector<TensorLocation> tensors() const;
  /// The shape of the plain tensor.
  std::vector<uint64_t> shape() const;
  /// A type that holds every value exactly: BF16 for E2M1 times a power of two, which has two
  /// significant bits and no exponent below BF16's; F32 for all others.
  StoredType plainType() const;
};

struct CodedRegion {
  uint64_t matrix = 0;
  uint64_t firstRow = 0, rowCount = 0;
  uint64_t firstCol = 0, colCount = 0;
};

/// Reads a region, row by row: out.size() == rowCount * colCount. The region must be inside the
/// weight. Needs memory of a few percent of `out` and at most a few MiB more. Refuses scales,
/// global scales and values that are not finite, and group numbers beyond the scales.
moert::Status decodeRegion(const StoredTensors &stored, const CodedWeight &weight,
                           const CodedRegion &region, std::span<float> out);

} // namespace moec
