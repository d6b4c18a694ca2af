#include "compiler/quantize/FittedMatrix.h"

#include "compiler/quantize/HadamardWeights.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"

#include <vector>

using namespace moert;

namespace moec {

// Fraction of the moments' mean diagonal that is added to the diagonal (damp()). KL at 2 bits
// on the bundled model: 0.001 .0499, 0.01 .0473, 0.03 .0455, 0.1 .0468.
static constexpr double kDamping = 0.03;

// Passes of coordinate descent after error feedback.
static constexpr uint32_t kRefinements = 2;

Result<Feedback> fittedFeedback(Moments inputs, bool hasHadamard, Isa isa) {
  damp(inputs, kDamping);
  if (hasHadamard)
    hadamardMoments(inputs);
  return feedbackOf(inputs, isa);
}

double trustIn(uint32_t cols, double tokens) {
  return tokens / (tokens + cols * 0.5);
}

// At 2 bits with evenly spaced codes, the scales of the least error make all weights smaller, and
// the effect adds up over the layers: KL on the bundled model .057 instead of .047. With levels
// they halve the error on real weights (docs/measurements/quantizers.md).
static ScaleChoice scaleChoiceFor(const Grid &grid) {
  return grid.hasOffsets || grid.hasLevels || grid.bits > 2 ? ScaleChoice::kSearched
                                                            : ScaleChoice::kNearest;
}

Result<GridMatrix> quantizeFitted(const MatrixShape &shape, const Grid &grid,
                                  std::span<const float> rows, const Feedback &feedback, Isa isa) {
  std::vector<float> transformed;
  if (grid.hasHadamard) {
    MOERT_RETURN_IF_ERROR(checkFinite(shape, 0, rows)); // Afterwards a block is not finite.
    rows = transformed = hadamardWeights(shape.cols, rows);
  }
  return quantizeGptq(shape, grid, rows, feedback, scaleChoiceFor(grid), kRefinements, isa);
}

} // namespace moec
