#include "runtime/policy/Routing.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace moert;

TEST_CASE("experts come best first and ties go to the lowest index") {
  std::array<float, 6> scores = {0.1f, 0.3f, 0.2f, 0.3f, 0.05f, 0.05f};
  std::array<int32_t, 4> experts;
  std::array<float, 4> weights;
  chooseExperts(scores, {4, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 4>{1, 3, 2, 0});
  CHECK(weights == std::array<float, 4>{0.3f, 0.3f, 0.2f, 0.1f});
}

TEST_CASE("renormalized weights are divided by the sum over the chosen, then scaled") {
  std::array<float, 3> scores = {0.25f, 0.125f, 0.625f};
  std::array<int32_t, 2> experts;
  std::array<float, 2> weights;
  chooseExperts(scores, {2, true, 2}, experts, weights);
  CHECK(weights[0] == 0.625f / 0.875f * 2);
  CHECK(weights[1] == 0.25f / 0.875f * 2);
}

TEST_CASE("NaN is chosen only when nothing else is left, and every index stays valid") {
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::array<float, 4> scores = {nan, 0.5f, nan, 0.1f};
  std::array<int32_t, 3> experts;
  std::array<float, 3> weights;
  chooseExperts(scores, {3, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 3>{1, 3, 0});
}

TEST_CASE("all experts can be chosen") {
  std::array<float, 3> scores = {0.2f, 0.5f, 0.3f};
  std::array<int32_t, 3> experts;
  std::array<float, 3> weights;
  chooseExperts(scores, {3, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 3>{1, 2, 0});
}

TEST_CASE("a bias chooses and does not weigh") {
  std::array<float, 4> probabilities = {0.5f, 0.25f, 0.75f, 0.125f}, bias = {0, 1, -1, 0.5f};
  std::array<int32_t, 2> experts;
  std::array<float, 2> weights;
  chooseExperts(probabilities, {.topK = 2, .renormalize = true, .weightScale = 2.5f, .bias = bias},
                experts, weights);
  CHECK(experts == std::array<int32_t, 2>{1, 3}); // 1.25 and 0.625
  CHECK(weights == std::array<float, 2>{0.25f / 0.375f * 2.5f, 0.125f / 0.375f * 2.5f});
}

TEST_CASE("experts outside the kept groups do not compete, however large they are") {
  // Largest: group 1 (0.9). Sum of the two largest: group 0 (1.1) before group 1 (1.0).
  std::array<float, 6> scores = {0.5f, 0.6f, 0.9f, 0.1f, 0.3f, 0.2f};
  std::array<int32_t, 2> experts;
  std::array<float, 2> weights;
  RoutingRule rule = {.topK = 2, .groups = 3, .keptGroups = 1};
  chooseExperts(scores, rule, experts, weights);
  CHECK(experts == std::array<int32_t, 2>{2, 3});
  rule.groupScore = GroupScore::kTwoLargest;
  chooseExperts(scores, rule, experts, weights);
  CHECK(experts == std::array<int32_t, 2>{1, 0});
}

TEST_CASE("probabilities of zero are renormalized to zero") {
  std::array<float, 2> scores = {0, 0};
  std::array<int32_t, 1> experts;
  std::array<float, 1> weights;
  chooseExperts(scores, {.topK = 1, .renormalize = true}, experts, weights);
  CHECK(weights[0] == 0);
}

/// Sorts whole lists; for scores without ties.
static std::vector<int32_t> plainChoice(const std::vector<float> &scores, const RoutingRule &rule) {
  const size_t size = scores.size() / rule.groups;
  std::vector<std::pair<float, size_t>> groups;
  for (size_t g = 0; g < rule.groups; ++g) {
    std::vector<float> group(scores.begin() + ptrdiff_t(g * size),
                             scores.begin() + ptrdiff_t((g + 1) * size));
    std::ranges::sort(group, std::greater());
    const bool addsTwo = rule.groupScore == GroupScore::kTwoLargest && size > 1;
    groups.emplace_back(addsTwo ? group[0] + group[1] : group[0], g);
  }
  std::ranges::sort(groups, std::greater());
  std::vector<std::pair<float, int32_t>> experts;
  for (size_t rank = 0; rank < rule.keptGroups; ++rank)
    for (size_t i = 0; i < size; ++i) {
      const size_t expert = groups[rank].second * size + i;
      experts.emplace_back(scores[expert], static_cast<int32_t>(expert));
    }
  std::ranges::sort(experts, std::greater());
  std::vector<int32_t> chosen;
  for (size_t i = 0; i < rule.topK; ++i)
    chosen.push_back(experts[i].second);
  return chosen;
}

TEST_CASE("every combination of groups, bias and score equals sorting") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (int round = 0; round < 200; ++round)
    for (uint32_t groups : {1u, 2u, 4u, 8u})
      for (uint32_t kept = 1; kept <= groups; kept *= 2)
        for (GroupScore kind : {GroupScore::kLargest, GroupScore::kTwoLargest}) {
          std::vector<float> probabilities(32), bias(32), scores(32);
          std::ranges::generate(probabilities, [&] { return uniform(random); });
          std::ranges::generate(bias, [&] { return uniform(random) - 0.5f; });
          std::ranges::transform(probabilities, bias, scores.begin(), std::plus());
          const RoutingRule rule = {
              .topK = 4, .bias = bias, .groups = groups, .keptGroups = kept, .groupScore = kind};
          std::vector<int32_t> experts(4);
          std::vector<float> weights(4);
          chooseExperts(probabilities, rule, experts, weights);
          REQUIRE(experts == plainChoice(scores, rule));
          for (size_t i = 0; i < 4; ++i)
            REQUIRE(weights[i] == probabilities[static_cast<size_t>(experts[i])]);
        }
}
