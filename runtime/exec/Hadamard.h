// The Hadamard transform of the rows of a matrix and of its inputs: W x = (W H)(H x). The values of
// a block are mixed, so an outlier spreads over its block and groups of values come closer to a
// normal distribution, on both sides of the product (QuaRot, Ashkboos et al., arXiv 2404.00456,
// section 4; QuIP#, Tseng et al., arXiv 2402.04396, section 3). H is Sylvester's matrix: its
// element at row i and column j is 1 or -1, by the parity of the bits that i and j share. H H is
// the identity times the size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

/// The largest size of a block; groups of activations never straddle blocks of it.
constexpr uint32_t kMaxHadamardBlock = 64;

/// Inputs that are transformed together: the largest power of two, up to kMaxHadamardBlock, that
/// divides their number.
constexpr uint32_t hadamardBlockOf(uint32_t cols) {
  const uint32_t power = cols & -cols;
  return power < kMaxHadamardBlock ? power : kMaxHadamardBlock;
}

/// The factors of both sides, whose product is 1 / block: powers of two, so that multiplying with
/// them is exact. The inputs' by the logarithm of the block.
constexpr float kHadamardInputFactors[] = {1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125};
constexpr float hadamardInputFactor(uint32_t block) {
  return kHadamardInputFactors[std::countr_zero(block)];
}
constexpr float hadamardWeightFactor(uint32_t block) {
  return 1 / (static_cast<float>(block) * hadamardInputFactor(block));
}

/// values = factor * H values. Sums of neighbours first, then of values 2, 4, 8 ... apart; the same
/// on every machine. There are a power of two of them.
template <typename T> constexpr void hadamard(std::span<T> values, T factor) {
  for (size_t apart = 1; apart < values.size(); apart *= 2)
    for (size_t first = 0; first < values.size(); first += 2 * apart)
      for (size_t i = first; i < first + apart; ++i) {
        const T a = values[i], b = values[i + apart];
        values[i] = a + b;
        values[i + apart] = a - b;
      }
  for (T &value : values)
    value *= factor;
}

/// The same for each block of a row of inputs, or of values that belong to inputs.
template <typename T> constexpr void hadamardRow(std::span<T> row, T factor) {
  const uint32_t block = hadamardBlockOf(static_cast<uint32_t>(row.size()));
  for (size_t first = 0; first < row.size(); first += block)
    hadamard(row.subspan(first, block), factor);
}

} // namespace moert
