// f32 rows to a grid by rounding to nearest, the simplest quantizer, which uses the values only. A
// pure function on a few rows at a time, so that a matrix never has to be in memory as a whole; the
// same input gives the same codes on any machine.
//
// Per row and group, from its real inputs:
//   symmetric   8 bits: scale = amax / 127, q in [-127, 127]
//               fewer: scale = extreme / -2^(bits-1), q in [-2^(bits-1), 2^(bits-1) - 1], where
//               extreme is the value of the largest magnitude with its sign (the negative one of
//               two): it is represented exactly, and all codes are used (ggml-org/ggml,
//               quantize_row_q4_0_ref)
//   levels      scale = extreme / the first level, the largest in magnitude; q is the nearest level
//   offsets     scale = (max - min) / (2^bits - 1), offset = (min + max) / 2 + scale / 2, which
//               centers the codes' range on the values'
// The scale is rounded to f16, or to a multiple of the row's byte scale, first, then the offset is
// computed from the rounded scale and rounded, then q = rne((w - offset) / scale), clamped.
// Rounding a very small scale (below f16's normal numbers) could clip values; it is then rounded
// away from zero. A row's byte scale is a 112th of the largest scale of its groups, rounded to
// bf16.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace moec {

/// rows holds shape.rows * shape.cols values; they may be a part of a matrix whose first row is
/// `firstRow`, used in messages only. Refuses values that are not finite, and scales beyond f16.
moert::Result<GridMatrix> quantizeNearest(const moert::MatrixShape &shape, const Grid &grid,
                                          std::span<const float> rows, uint32_t firstRow = 0);

/// Refuses infinities and NaNs; the message names the first.
moert::Status checkFinite(const moert::MatrixShape &shape, uint32_t firstRow,
                          std::span<const float> rows);

} // namespace moec
