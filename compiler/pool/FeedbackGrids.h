// The grids of error feedback: a grid for each width.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// In the order of `widths`. Codes are non-linear where the format has levels for them, and 32
/// inputs share a scale of one byte.
std::vector<Grid> feedbackGrids(std::span<const uint32_t> widths);

} // namespace moec
