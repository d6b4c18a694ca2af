#include "runtime/policy/Routing.h"

namespace moert {

static bool isBetter(float a, float b) {
  bool aIsNumber = a == a, bIsNumber = b == b;
  return a > b || (aIsNumber && !bIsNumber);
}

void chooseExperts(std::span<const float> probabilities, const RoutingRule &rule,
                   std::span<int32_t> experts, std::span<float> weights) {
  // Insertion into a list of topK: experts are few, and the order of arrival settles ties.
  uint32_t chosen = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    float value = probabilities[i];
    uint32_t place = chosen;
    while (place > 0 && isBetter(value, weights[place - 1]))
      --place;
    if (place == rule.topK)
      continue;
    uint32_t last = chosen < rule.topK ? chosen++ : rule.topK - 1;
    for (uint32_t j = last; j > place; --j) {
      weights[j] = weights[j - 1];
      experts[j] = experts[j - 1];
    }
    weights[place] = value;
    experts[place] = static_cast<int32_t>(i);
  }
  float sum = 0;
  for (uint32_t i = 0; i < rule.topK; ++i)
    sum += weights[i];
  for (uint32_t i = 0; i < rule.topK; ++i) {
    if (rule.renormalize)
      weights[i] /= sum;
    weights[i] *= rule.weightScale;
  }
}

} // namespace moert
