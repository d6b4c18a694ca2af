#include "runtime/evaluation/PairedBootstrap.h"

#include "runtime/base/RandomStream.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace moert {

constexpr size_t kResamplesPerLook = 2000, kResamplesAboveBound = 100;
constexpr uint64_t kSeed = 95;

/// Draws within each stratum.
static void draw(std::span<const uint32_t> strata, RandomStream &random,
                 std::vector<uint32_t> &drawn) {
  drawn.clear();
  for (size_t begin = 0, end = 0; begin < strata.size(); begin = end) {
    while (end < strata.size() && strata[end] == strata[begin])
      ++end;
    auto count = static_cast<uint32_t>(end - begin);
    for (uint32_t i = 0; i < count; ++i)
      drawn.push_back(static_cast<uint32_t>(begin) + random.nextBelow(count));
  }
}

std::optional<double> upperBound95(std::span<const uint32_t> strata, const LossOfSamples &lossOf,
                                   uint32_t looks) {
  assert(looks > 0);
  if (strata.size() < kMinimumBoundSamples)
    return std::nullopt;
  RandomStream random(kSeed);
  std::vector<uint32_t> drawn;
  drawn.reserve(strata.size());
  std::vector<double> losses(kResamplesPerLook * looks);
  for (double &loss : losses) {
    draw(strata, random, drawn);
    loss = lossOf(drawn);
  }
  auto bound = losses.end() - (kResamplesAboveBound + 1);
  std::nth_element(losses.begin(), bound, losses.end());
  if (std::isinf(*bound))
    return std::nullopt;
  return *bound;
}

uint64_t boundMemoryBytes(size_t samples, uint32_t looks) {
  return 2 * samples * sizeof(uint32_t) + kResamplesPerLook * looks * sizeof(double);
}

} // namespace moert
