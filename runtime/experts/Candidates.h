// Selects prefetch candidates from a predictor's probabilities of all experts of a layer. After the
// conversion to fixed point all arithmetic is on integers, so every machine lists the same experts.
#pragma once

#include "runtime/policy/Prefetches.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Adds one token's probabilities (for a router: Router::computeLikelihoods()), in units of
/// 1 / kFixedPointOne and divided by `tokens`, to `sums`, which start at 0. Values not above 0
/// and NaN count as 0, values above 1 as 1.
void addProbabilities(std::span<const float> probabilities, uint32_t tokens,
                      std::span<uint32_t> sums);

/// The `most` experts with the highest probabilities, likeliest first, ties by the lowest index;
/// experts with probability 0 are not listed. Allocates nothing if likeliest has room for `most`.
void listLikeliest(std::span<const uint32_t> probabilities, uint32_t most,
                   std::vector<PrefetchCandidate> &likeliest);

} // namespace moert
