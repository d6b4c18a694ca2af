// The grids of error feedback: a grid for each width.
#pragma once

#include "compiler/pool/ExpertWidth.h"
#include "compiler/quantize/GridMatrix.h"

#include <span>
#include <vector>

namespace moec {

/// In the order of `widths`. Codes are non-linear where the format has levels for them, 32 inputs
/// share a scale of one byte, and rows are transformed (runtime/exec/Hadamard.h).
std::vector<ExpertGrid> feedbackGrids(std::span<const ExpertWidth> widths);

} // namespace moec
