// Which experts a token goes to: a pure function of the router's scores. Exact mode, where
// residency executes no part.
#pragma once

#include <cstdint>
#include <span>

namespace moert {

struct RoutingRule {
  uint32_t topK = 0;
  bool renormalize = false; // Weights divided by their sum over the chosen, ranks ascending.
  float weightScale = 1;
};

/// The topK largest probabilities, best first, ties to the lowest index; a NaN is never chosen
/// before a number. experts and weights have topK elements, topK <= probabilities.size().
void chooseExperts(std::span<const float> probabilities, const RoutingRule &rule,
                   std::span<int32_t> experts, std::span<float> weights);

} // namespace moert
