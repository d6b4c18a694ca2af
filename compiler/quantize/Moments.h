// Second moments of a matrix' inputs, E[x x^T]: the statistics of the text that GPTQ and the
// weighted quantizers use. Sums are f32 over 256 tokens (docs/numbers.md) and added up in f64, in
// the order of the tokens.
#pragma once

#include "runtime/exec/Kernels.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Size of a block of inputs whose mutual products are kept. The error of one input is compensated
/// within its block only: a whole matrix would take cols^2 numbers and cols^3 steps, 1.6 GB and a
/// quarter of an hour for each expert with Mixtral's 14,336 inputs.
constexpr uint32_t kMomentInputs = 2048;

/// Weighted means of x[i] * x[j] for i and j of one block, in the lower triangle (j <= i).
struct Moments {
  uint32_t cols = 0;
  double weight = 0; // The sum of the tokens' weights; if 0, all moments are 0.
  std::vector<std::vector<double>> blocks; // [blockCols][blockCols]

  uint32_t blockCols(size_t block) const {
    const uint32_t left = cols - uint32_t(block) * kMomentInputs;
    return left < kMomentInputs ? left : kMomentInputs;
  }
  /// The mean square of an input.
  double square(uint32_t col) const {
    const uint32_t inBlock = col % kMomentInputs;
    const size_t block = col / kMomentInputs;
    return blocks[block][size_t(inBlock) * blockCols(block) + inBlock];
  }
};

/// Adds up moments over any number of calls.
class MomentSums {
public:
  MomentSums(uint32_t cols, const moert::KernelTable &kernels);

  /// For the sums and for add().
  static uint64_t memoryBytes(uint32_t cols);

  /// Rows are `stride` apart; empty weights are all 1. Weights are at least 0.
  void add(const float *rows, uint64_t stride, uint32_t count, std::span<const float> weights);

  /// Finishes the sums.
  Moments mean() &&;

private:
  void addBlock(size_t block, const float *rows, uint64_t stride, uint32_t count,
                std::span<const float> weights);

  const moert::KernelTable &kernels;
  Moments sums;
};

/// part * own + (1 - part) * other; if one of them has weight 0, the result is the other.
Moments blend(const Moments &own, const Moments &other, double part);

/// part * own + (1 - part) * own's diagonal: reduces uncertain correlations between inputs.
Moments shrinkToDiagonal(Moments own, double part);

/// Adds to the diagonal of each block `part` of the mean of that diagonal, in which no input counts
/// more than 16 times the median of those that were used: inputs that the text never used would
/// leave the moments singular, and moments of few tokens are uncertain. Single inputs with massive
/// activations, of 100 or 1000 times the others', would raise a plain mean so far beyond the
/// others' moments that these no longer mattered. A block of zeros stays. Before a Hadamard
/// transform, which spreads such an input over all others.
void damp(Moments &moments, double part);

} // namespace moec
