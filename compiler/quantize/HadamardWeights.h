// The Hadamard transform (runtime/exec/Hadamard.h) of what a matrix is quantized from: its rows,
// and the moments of its inputs.
#pragma once

#include "compiler/quantize/Moments.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// The transform of rows of `cols` values.
std::vector<float> hadamardWeights(uint32_t cols, std::span<const float> rows);

/// Its inverse, in place, but for rounding.
void undoHadamardWeights(uint32_t cols, std::span<float> rows);

/// Makes moments those of the transformed inputs.
void hadamardMoments(Moments &moments);

} // namespace moec
