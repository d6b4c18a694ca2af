#include "runtime/policy/Routing.h"

#include <array>
#include <cassert>

namespace moert {

namespace {

bool isBetter(float a, float b) {
  const bool aIsNumber = a == a, bIsNumber = b == b;
  return a > b || (aIsNumber && !bIsNumber);
}

/// The best so far, best first. Insertion: candidates are few, and the order of arrival settles
/// ties.
class BestList {
public:
  BestList(std::span<int32_t> indexSpace, std::span<float> scoreSpace)
      : indices(indexSpace), scores(scoreSpace) {}

  void offer(int32_t index, float score) {
    size_t place = count;
    while (place > 0 && isBetter(score, scores[place - 1]))
      --place;
    if (place == indices.size())
      return;
    size_t last = count < indices.size() ? count++ : count - 1;
    for (; last > place; --last) {
      indices[last] = indices[last - 1];
      scores[last] = scores[last - 1];
    }
    indices[place] = index;
    scores[place] = score;
  }

private:
  std::span<int32_t> indices;
  std::span<float> scores;
  size_t count = 0;
};

class ChoiceScores {
public:
  ChoiceScores(std::span<const float> p, std::span<const float> added)
      : probabilities(p), bias(added) {}
  float operator[](size_t expert) const {
    return bias.empty() ? probabilities[expert] : probabilities[expert] + bias[expert];
  }
  size_t size() const { return probabilities.size(); }

private:
  std::span<const float> probabilities, bias;
};

} // namespace

static float scoreOf(const ChoiceScores &scores, size_t begin, size_t end, GroupScore kind) {
  std::array<int32_t, 2> experts;
  std::array<float, 2> best = {0, 0};
  const size_t count = kind == GroupScore::kTwoLargest && end - begin > 1 ? 2 : 1;
  BestList list{std::span<int32_t>(experts).first(count), std::span<float>(best).first(count)};
  for (size_t i = begin; i < end; ++i)
    list.offer(0, scores[i]);
  return count == 2 ? best[0] + best[1] : best[0];
}

/// Bit g: group g competes.
static uint64_t keptGroups(const ChoiceScores &scores, const RoutingRule &rule) {
  std::array<int32_t, kMaxRouterGroups> groups;
  std::array<float, kMaxRouterGroups> best;
  BestList list{std::span<int32_t>(groups).first(rule.keptGroups),
                std::span<float>(best).first(rule.keptGroups)};
  const size_t size = scores.size() / rule.groups;
  for (uint32_t group = 0; group < rule.groups; ++group)
    list.offer(static_cast<int32_t>(group),
               scoreOf(scores, group * size, (group + 1) * size, rule.groupScore));
  uint64_t kept = 0;
  for (uint32_t i = 0; i < rule.keptGroups; ++i)
    kept |= uint64_t{1} << groups[i];
  return kept;
}

void chooseExperts(std::span<const float> probabilities, const RoutingRule &rule,
                   std::span<int32_t> experts, std::span<float> weights) {
  assert(rule.bias.empty() || rule.bias.size() == probabilities.size());
  assert(rule.weightFactors.empty() || rule.weightFactors.size() == probabilities.size());
  assert(rule.keptGroups >= 1 && rule.keptGroups <= rule.groups &&
         rule.groups <= kMaxRouterGroups && probabilities.size() % rule.groups == 0);
  const ChoiceScores scores(probabilities, rule.bias);
  const size_t size = scores.size() / rule.groups;
  const uint64_t kept = rule.keptGroups == rule.groups ? ~uint64_t{0} : keptGroups(scores, rule);
  BestList best(experts.first(rule.topK), weights.first(rule.topK));
  for (size_t begin = 0; begin < scores.size(); begin += size)
    if (kept >> (begin / size) & 1)
      for (size_t i = begin; i < begin + size; ++i)
        best.offer(static_cast<int32_t>(i), scores[i]);
  weighExperts(probabilities, rule, experts.first(rule.topK), weights.first(rule.topK));
}

void weighExperts(std::span<const float> probabilities, const RoutingRule &rule,
                  std::span<const int32_t> experts, std::span<float> weights) {
  // Sigmoids of very negative scores can sum to zero; the reference implementation of DeepSeek-V3
  // adds this. It changes no sum above 2e-13.
  float sum = 1e-20f;
  for (size_t i = 0; i < experts.size(); ++i)
    sum += weights[i] = probabilities[static_cast<size_t>(experts[i])];
  for (size_t i = 0; i < experts.size(); ++i) {
    if (rule.renormalize)
      weights[i] /= sum;
    weights[i] *= rule.weightScale;
    if (!rule.weightFactors.empty())
      weights[i] *= rule.weightFactors[static_cast<size_t>(experts[i])];
  }
}

} // namespace moert
