#include "compiler/quantize/Feedback.h"

#include "compiler/quantize/LaneKernels.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

// Columns that are factored at once, before all later columns are updated: they stay in the cache
// meanwhile.
static constexpr uint32_t kFactorCols = 32;

// Cholesky: the lower triangle of a becomes L with L L^T = a. The order of all operations is fixed;
// the square root is correctly rounded. False if a is not positive definite.
static bool factorInPlace(std::vector<double> &a, size_t n, const LaneKernels &lanes) {
  std::vector<double> transposed(kFactorCols * n);
  for (size_t begin = 0; begin < n; begin += kFactorCols) {
    const size_t end = std::min<size_t>(n, begin + kFactorCols);
    for (size_t row = begin; row < n; ++row)
      for (size_t col = begin; col < std::min(row + 1, end); ++col) {
        double value = a[row * n + col];
        for (size_t i = begin; i < col; ++i)
          value -= a[row * n + i] * a[col * n + i];
        if (row == col && !(value > 0))
          return false;
        a[row * n + col] = row == col ? std::sqrt(value) : value / a[col * n + col];
      }
    for (size_t row = end; row < n; ++row)
      for (size_t col = begin; col < end; ++col)
        transposed[(col - begin) * n + row] = a[row * n + col];
    for (size_t row = end; row < n; ++row)
      lanes.subtractProducts(&a[row * n + end], row + 1 - end, &a[row * n + begin],
                             uint32_t(end - begin), &transposed[end], n);
  }
  return true;
}

// The upper factor is the lower one of the same matrix with its inputs in reverse order.
static bool factorBlock(const std::vector<double> &moments, size_t n, const LaneKernels &lanes,
                        float *feedback, uint64_t stride, float *pivots) {
  std::vector<double> reversed(n * n);
  for (size_t row = 0; row < n; ++row)
    for (size_t col = 0; col <= row; ++col)
      reversed[row * n + col] = moments[(n - 1 - col) * n + (n - 1 - row)];
  if (!factorInPlace(reversed, n, lanes))
    return false;
  for (size_t j = 0; j < n; ++j) {
    const size_t col = n - 1 - j;
    const double diagonal = reversed[col * n + col];
    pivots[j] = float(diagonal * diagonal);
    for (size_t i = 0; i < j; ++i)
      feedback[j * stride + i] = float(reversed[(n - 1 - i) * n + col] / diagonal);
  }
  return true;
}

// Both triangles as f32. Of a block of zeros the identity: no input compensates another.
static AlignedFloats squareOf(const std::vector<double> &moments, size_t n, bool isZero,
                              uint64_t stride) {
  AlignedFloats square(n * stride);
  for (size_t row = 0; row < n; ++row)
    for (size_t col = 0; col <= row; ++col) {
      const double value = isZero ? double(row == col) : moments[row * n + col];
      square.data()[row * stride + col] = square.data()[col * stride + row] = float(value);
    }
  return square;
}

Result<Feedback> feedbackOf(const Moments &moments, Isa isa) {
  Feedback feedback;
  feedback.cols = moments.cols;
  feedback.pivots.resize(moments.cols, 1);
  for (size_t block = 0; block < moments.blocks.size(); ++block) {
    const uint64_t stride = feedback.stride(block);
    const size_t n = moments.blockCols(block);
    const std::vector<double> &values = moments.blocks[block];
    double trace = 0;
    for (size_t col = 0; col < n; ++col)
      trace += values[col * n + col];
    if (!std::isfinite(trace))
      return invalidInput("the inputs' mean square is ", trace, ", expected a finite number");
    feedback.blocks.emplace_back(n * stride);
    if (trace > 0 && !factorBlock(values, n, laneKernelsFor(isa), feedback.blocks.back().data(),
                                  stride, feedback.pivots.data() + block * kMomentInputs))
      return failed("the second moments of inputs ", block * kMomentInputs, " to ",
                    block * kMomentInputs + n - 1, " are not positive definite");
    feedback.moments.push_back(squareOf(values, n, trace == 0, stride));
  }
  return feedback;
}

} // namespace moec
