#include "runtime/policy/Capacity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moert {

// As in the reference implementations of NLLB-MoE: a sum of 0 divides nothing.
static constexpr float kLeastSum = 1.1920929e-07f;

uint32_t capacityOf(const CapacityRule &rule, uint32_t tokens, uint32_t topK, uint32_t experts) {
  const auto toCount = [](float value) { // No call has more tokens.
    return static_cast<uint32_t>(std::min(value, 4e9f));
  };
  switch (rule.kind) {
  case CapacityKind::kTokens:
    return toCount(rule.capacity);
  case CapacityKind::kTokenFraction:
    return toCount(std::ceil(rule.capacity * static_cast<float>(tokens)));
  case CapacityKind::kEvenSplit:
    break;
  }
  const uint32_t even = (tokens + experts - 1) / experts;
  return toCount(static_cast<float>(topK) * std::floor(rule.capacity * static_cast<float>(even)));
}

static void normalize(std::span<float> weights) {
  const float sum = std::max(std::accumulate(weights.begin(), weights.end(), 0.0f), kLeastSum);
  for (float &weight : weights)
    weight /= sum;
}

void applyCapacity(const CapacityRule &rule, const RoutedTokens &routed, std::span<uint32_t> places,
                   uint32_t *order) {
  const auto weightsOf = [&](uint32_t token) {
    return std::span(routed.weights + token * routed.stride, routed.topK);
  };
  std::iota(order, order + routed.tokens, 0);
  if (rule.byPriority)
    std::sort(order, order + routed.tokens, [&](uint32_t a, uint32_t b) {
      const float first = weightsOf(a).front(), second = weightsOf(b).front();
      return first != second ? first > second : a < b;
    });
  for (uint32_t token = 0; token < routed.tokens; ++token) {
    routed.passed[token * routed.passedStride] = 0;
    if (rule.normalizesBefore)
      normalize(weightsOf(token));
  }
  const auto most =
      capacityOf(rule, routed.tokens, routed.topK, static_cast<uint32_t>(places.size()));
  std::fill(places.begin(), places.end(), 0);
  for (uint32_t rank = 0; rank < routed.topK; ++rank)
    for (const uint32_t token : std::span(order, routed.tokens)) {
      int32_t &expert = routed.experts[token * routed.stride + rank];
      if (places[static_cast<size_t>(expert)]++ < most)
        continue;
      float &weight = weightsOf(token)[rank];
      routed.passed[token * routed.passedStride] += weight * rule.weightScale;
      expert = -1;
      weight = 0;
    }
  for (uint32_t token = 0; token < routed.tokens; ++token) {
    if (rule.normalizesAfter)
      normalize(weightsOf(token));
    for (float &weight : weightsOf(token))
      weight *= rule.weightScale;
  }
}

} // namespace moert
