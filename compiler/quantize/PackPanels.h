// From f32 weights to the stored layout (runtime/format/WeightLayout.h), some panels at a time, so
// that no matrix has to be in memory whole. Quantized kinds are rounded to nearest:
//
//   int8  scale = amax / 127, q in [-127, 127]
//   int4  scale = e / -8, where e is the element of the largest magnitude with its sign, q in [-8,
//   7]:
//         the extreme is met exactly (the scheme of ggml's Q4_0, there with groups of 32)
//   int2  scale = (max - min) / 3, offset = min + 2 * scale, q in [-2, 1]
//
// Scales and offsets are rounded to f16 first and codes are chosen for the rounded ones:
// q = rne((w - offset) / scale). A scale of zero (all weights equal or too small) gives q = 0.
// Float kinds are converted with rounding to nearest even, which changes nothing where the weights
// were stored in that kind.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Some panels of a stored matrix: the parts of its regions and where they belong, in bytes from
/// the matrix's first byte. In row layout everything is in codes. Scales and offsets are empty
/// where the format has none.
struct PackedPanels {
  std::vector<std::byte> codes, scales, offsets;
  uint64_t codesAt = 0, scalesAt = 0, offsetsAt = 0;
};

/// Packs rows [firstRow, firstRow + rows.size() / cols) of a matrix. firstRow is a multiple of
/// kPanelRows in panel layout; the rows end at one too, or at the matrix's end. Refuses weights
/// that are not finite, or whose scale does not fit f16, naming row and column.
moert::Status packRows(std::span<const float> rows, const moert::MatrixShape &shape,
                       const moert::WeightFormat &format, uint32_t firstRow, PackedPanels &packed);

} // namespace moec
