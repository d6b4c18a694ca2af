// Error feedback for one matrix of a model: the settings that experts and resident matrices share,
// and the transform of rows and of moments where the grid has it.
#pragma once

#include "compiler/quantize/Feedback.h"
#include "compiler/quantize/GridMatrix.h"
#include "compiler/quantize/LaneKernels.h"
#include "compiler/quantize/Moments.h"

#include "runtime/base/Status.h"

#include <span>

namespace moec {

/// The factors for a matrix whose inputs have these moments. hasHadamard: its grid has the
/// transform.
moert::Result<Feedback> fittedFeedback(Moments inputs, bool hasHadamard, moert::Isa isa);

/// How much moments of `cols` inputs over so many tokens are trusted, 0 to 1: more inputs need more
/// tokens.
double trustIn(uint32_t cols, double tokens);

/// Rows of a matrix, quantized with error feedback. Refuses values that are not finite.
moert::Result<GridMatrix> quantizeFitted(const moert::MatrixShape &shape, const Grid &grid,
                                         std::span<const float> rows, const Feedback &feedback,
                                         moert::Isa isa);

} // namespace moec
