// Error feedback: later inputs compensate the error of earlier ones. The second moments H of a
// matrix' inputs are factored as (I + U) D (I + U)^T with U strictly upper triangular and D
// diagonal. The squared error of a row w stored as v is (w - v) H (w - v)^T. In this factored form
// it is a sum over inputs j of D_j * (w_j - v_j + sum over i < j of (w_i - v_i) * U_ij)^2, so that
// rounding w_j plus that sum, in ascending order, minimizes each term in turn: LDLQ (Chee et al.,
// QuIP, arXiv 2307.13304, section 3.1), which equals GPTQ (Frantar et al., arXiv 2210.17323)
// without its inverse matrix (QuIP, theorem 6; a test compares the two).
#pragma once

#include "compiler/quantize/Moments.h"
#include "compiler/quantize/PanelProduct.h"

#include "runtime/base/Status.h"

#include <vector>

namespace moec {

/// The factors, block by block of kMomentInputs inputs.
struct Feedback {
  uint32_t cols = 0;
  std::vector<AlignedFloats>
      blocks;                // [blockCols][stride]: element [j][i] is U_ij, i < j; others 0.
  std::vector<float> pivots; // [cols]: D, the weight of an input's own squared error.
  std::vector<AlignedFloats> moments; // [blockCols][stride]: H itself.

  uint64_t stride(size_t block) const {
    const uint32_t left = cols - uint32_t(block) * kMomentInputs;
    return strideFor(left < kMomentInputs ? left : kMomentInputs);
  }
};

/// Takes damped moments (damp()). A block of zeros gives U = 0: no input compensates another.
/// Refuses moments that are not finite.
moert::Result<Feedback> feedbackOf(const Moments &moments, moert::Isa isa);

} // namespace moec
