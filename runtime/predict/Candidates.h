// From what a predictor says of every expert of a layer to the few that are worth a look. Integers
// only once a probability has become a share, so that every machine lists the same experts.
#pragma once

#include "runtime/policy/Guesses.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Adds one token's probabilities (of a router: the softmax of its scores), as shares of
/// kWholeShare, to those of `tokens` tokens in all; shares begin at 0. What is not above 0, NaN
/// among it, counts as 0, and what is above 1 as 1.
void addShares(std::span<const float> probabilities, uint32_t tokens, std::span<uint32_t> shares);

/// The `most` experts of the largest shares, likeliest first, ties to the lowest index; experts
/// without a share are not listed. Allocates nothing where likeliest has room for `most`.
void listLikeliest(std::span<const uint32_t> shares, uint32_t most,
                   std::vector<GuessCandidate> &likeliest);

} // namespace moert
