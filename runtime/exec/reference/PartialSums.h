// The order of sums along a row: element i goes to partial sum i mod 16, and the partial sums are
// added as a tree (docs/numbers.md).
#pragma once

#include <cstdint>

namespace moert::reference {

constexpr uint32_t kPartialSums = 16;

/// 16 partial sums, initially 0.
struct PartialSums {
  float lane[kPartialSums] = {};

  /// Adds lane i + 8 to lane i, then i + 4, i + 2, i + 1.
  float total() const {
    float sums[kPartialSums];
    for (uint32_t i = 0; i < kPartialSums; ++i)
      sums[i] = lane[i];
    for (uint32_t half = kPartialSums / 2; half >= 1; half /= 2)
      for (uint32_t i = 0; i < half; ++i)
        sums[i] = sums[i] + sums[i + half];
    return sums[0];
  }
};

} // namespace moert::reference
