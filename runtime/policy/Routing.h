// Which experts a token goes to: a pure function of the router's probabilities. Exact mode, where
// residency does not matter.
#pragma once

#include <cstdint>
#include <span>

namespace moert {

/// How groups of experts compete, by their choice scores.
enum class GroupScore : uint8_t {
  kLargest = 0,    // The group's largest (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).
  kTwoLargest = 1, // The sum of its two largest (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
};

constexpr uint32_t kMaxRouterGroups = 64;

struct RoutingRule {
  uint32_t topK = 0;
  bool renormalize = false; // Weights divided by their sum over the chosen, ranks ascending.
  float weightScale = 1;
  /// Per expert, or empty: added to the probabilities to give the scores that choose. Weights come
  /// from the probabilities alone.
  std::span<const float> bias = {};
  /// Consecutive experts form groups of equal size, of which those with the best scores compete.
  /// 1 <= keptGroups <= groups <= kMaxRouterGroups; groups divides the number of experts.
  uint32_t groups = 1, keptGroups = 1;
  GroupScore groupScore = GroupScore::kLargest;
  /// Per expert, or empty: multiplied into the weight, last of all.
  std::span<const float> weightFactors = {};
};

/// The topK experts with the largest choice scores in the kept groups, best first, ties to the
/// lowest index, and likewise for groups; a NaN is never chosen before a number. experts and
/// weights have topK elements; topK is at most the number of experts in the kept groups.
void chooseExperts(std::span<const float> probabilities, const RoutingRule &rule,
                   std::span<int32_t> experts, std::span<float> weights);

/// The weights of these experts, as if the router had chosen exactly them: with `renormalize` they
/// are divided by the sum over these.
void weighExperts(std::span<const float> probabilities, const RoutingRule &rule,
                  std::span<const int32_t> experts, std::span<float> weights);

} // namespace moert
