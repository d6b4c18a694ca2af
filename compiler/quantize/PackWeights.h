// f32 rows to the bytes of a stored matrix (runtime/format/WeightLayout.h): quantized by rounding
// to nearest, or kept as floats. Pure functions on a few rows at a time, so that a matrix never has
// to be in memory as a whole; the same input gives the same bytes on any machine.
//
// Quantization, per row and weight group, from its real inputs (padding has q = 0):
//   symmetric   8 bits: scale = amax / 127, q in [-127, 127]
//               4, 2 bits: scale = extreme / -2^(bits-1), q in [-2^(bits-1), 2^(bits-1) - 1], where
//               extreme is the value of the largest magnitude with its sign (the negative one of
//               two): it is met exactly, and all codes are used (ggml-org/ggml,
//               quantize_row_q4_0_ref)
//   offsets     scale = (max - min) / (2^bits - 1), offset = (min + max) / 2 + scale / 2, which
//               puts the codes' range in the middle of the values'
// The scale is rounded to f16 first, then the offset is made from the rounded scale and rounded,
// then q = rne((w - offset) / scale), clamped. Rounding a very small scale (below f16's normal
// numbers) may lose so much that values would be cut off; it is then rounded away from zero.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// The bytes of some panels (or, in row layout, rows): a contiguous run of each of the three parts
/// of a stored matrix.
struct PackedWeights {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;  // Empty for float kinds.
  std::vector<std::byte> offsets; // Empty without offsets.
};

/// Packs rows [firstRow, firstRow + rowCount) of a matrix; rows holds rowCount * shape.cols values.
/// firstRow is a multiple of kPanelRows, and so is rowCount unless the rows are the last ones.
/// Refuses values that are not finite, and scales and floats beyond f16 where that is the format.
moert::Result<PackedWeights> packWeights(const moert::MatrixShape &shape,
                                         const moert::WeightFormat &format, uint32_t firstRow,
                                         uint32_t rowCount, std::span<const float> rows);

} // namespace moec
