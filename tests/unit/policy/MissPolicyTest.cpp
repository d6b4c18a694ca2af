// What each miss rule makes of a token's experts.
#include "runtime/policy/MissPolicy.h"

#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace moert;

namespace {

constexpr uint32_t part(double fraction) {
  return static_cast<uint32_t>(fraction * kFixedPointOne + 0.5);
}

/// Eight experts of three slices. The router chose 5, 2, 7 and 0, with half, a quarter, an eighth
/// and an eighth of the weight: their scores are 0, 0.5, 0.75 and 0.875.
struct Token {
  std::vector<int32_t> chosen = {5, 2, 7, 0};
  std::vector<float> weights = {0.5f, 0.25f, 0.125f, 0.125f};
  std::vector<float> likelihoods = {0.1f, 0.08f, 0.25f, 0.06f, 0.02f, 0.4f, 0.01f, 0.12f};
  std::vector<uint16_t> planned = std::vector<uint16_t>(8, 3);
  std::vector<uint16_t> resident = std::vector<uint16_t>(8, 0);

  std::vector<int32_t> experts;
  std::vector<uint16_t> slices;
  uint32_t lowered = 0, skipped = 0, substituted = 0;

  void decide(const MissRule &rule) {
    experts.resize(chosen.size());
    slices.resize(chosen.size());
    TakenExperts taken = {experts, slices};
    decideMisses(rule, {chosen, weights, likelihoods, planned, resident}, taken);
    experts.resize(taken.count);
    slices.resize(taken.count);
    lowered = taken.lowered;
    skipped = taken.skipped;
    substituted = taken.substituted;
  }
  uint32_t changed() const { return lowered + skipped + substituted; }
};

using Experts = std::vector<int32_t>;
using Slices = std::vector<uint16_t>;

constexpr MissRule kLower = {
    .action = MissAction::kLower, .waitUpTo = part(0.5), .skipBeyond = part(0.75)};

} // namespace

TEST_CASE("with every rule, experts that are resident as planned are computed as planned") {
  for (size_t action = 0; action < kNames<MissAction>.size(); ++action) {
    CAPTURE(action);
    Token token;
    for (int32_t expert : token.chosen)
      token.resident[static_cast<size_t>(expert)] = 3;
    token.decide({.action = static_cast<MissAction>(action)});
    CHECK(token.experts == token.chosen);
    CHECK(token.slices == Slices{3, 3, 3, 3});
    CHECK(token.changed() == 0);
  }
}

TEST_CASE("wait reads every expert as planned, whatever is resident") {
  Token token;
  token.resident[1] = 3;
  token.resident[2] = 1;
  token.decide({.action = MissAction::kWait, .skipBeyond = 0});
  CHECK(token.experts == token.chosen);
  CHECK(token.slices == Slices{3, 3, 3, 3});
  CHECK(token.changed() == 0);
}

TEST_CASE("lower waits up to the first score, reads one slice up to the second, then none") {
  Token token;
  token.decide(kLower);
  CHECK(token.experts == Experts{5, 2, 7});
  CHECK(token.slices == Slices{3, 3, 1});
  CHECK(token.lowered == 1);
  CHECK(token.skipped == 1);
}

TEST_CASE("lower takes what is resident: more slices than it would read, and experts to skip") {
  Token token;
  token.resident[7] = 2;
  token.resident[0] = 1;
  token.resident[2] = 1; // Important: the rest is waited for.
  token.decide(kLower);
  CHECK(token.experts == token.chosen);
  CHECK(token.slices == Slices{3, 3, 2, 1});
  CHECK(token.lowered == 2);
  CHECK(token.skipped == 0);
}

TEST_CASE("an expert of one slice cannot be lowered, so it is waited for") {
  Token token;
  token.planned.assign(8, 1);
  token.decide({.action = MissAction::kLower});
  CHECK(token.experts == token.chosen);
  CHECK(token.slices == Slices{1, 1, 1, 1});
  CHECK(token.changed() == 0);
}

TEST_CASE("lower reads as many slices as the rule has") {
  Token token;
  token.decide({.action = MissAction::kLower, .lowSlices = 2});
  CHECK(token.slices == Slices{3, 2, 2, 2});
}

TEST_CASE("skip leaves out missing experts beyond the score, and never the best one") {
  Token token;
  token.resident[0] = 3;
  token.decide({.action = MissAction::kSkip});
  CHECK(token.experts == Experts{5, 0});
  CHECK(token.slices == Slices{3, 3});
  CHECK(token.skipped == 2);
  token.decide({.action = MissAction::kSkip, .waitUpTo = part(0.5)});
  CHECK(token.experts == Experts{5, 2, 0});
  token.decide({.action = MissAction::kSkip, .waitUpTo = kFixedPointOne});
  CHECK(token.experts == token.chosen);
}

TEST_CASE("a score exactly at the limit is waited for") {
  Token token;
  token.decide({.action = MissAction::kSkip, .waitUpTo = part(0.75)});
  CHECK(token.experts == Experts{5, 2, 7});
  token.decide({.action = MissAction::kSkip, .waitUpTo = part(0.75) - 1});
  CHECK(token.experts == Experts{5, 2});
}

TEST_CASE("a substitute is resident, not chosen, and within the distance") {
  Token token;
  token.resident = {0, 3, 0, 3, 3, 0, 2, 0};
  // Expert 2 (0.25) could be replaced by 1 (0.08), which is 0.68 less likely.
  MissRule rule = {.action = MissAction::kSubstitute, .substituteWithin = part(0.7)};
  token.decide(rule);
  CHECK(token.experts == Experts{5, 1, 3, 0}); // 3: 0.5 less likely than 7; 4: 0.8 less than 0.
  CHECK(token.slices == Slices{3, 3, 3, 3});
  CHECK(token.substituted == 2);
  rule.substituteWithin = part(0.65);
  token.decide(rule);
  CHECK(token.experts == Experts{5, 2, 1, 3}); // 1: 0.33 less than 7; 3: 0.4 less than 0.
  rule.waitUpTo = part(0.75);
  token.decide(rule);
  CHECK(token.experts == Experts{5, 2, 7, 1});
  rule.substituteWithin = 0;
  token.decide(rule);
  CHECK(token.experts == token.chosen);
  CHECK(token.substituted == 0);
}

TEST_CASE("a substitute that is resident in part is none") {
  Token token;
  token.resident[1] = 2;
  token.decide({.action = MissAction::kSubstitute, .substituteWithin = kFixedPointOne});
  CHECK(token.experts == token.chosen);
}

TEST_CASE("mask takes the likeliest resident experts, as many as were chosen") {
  Token token;
  token.resident = {0, 3, 3, 3, 2, 0, 3, 0};
  token.decide({.action = MissAction::kMask});
  CHECK(token.experts == Experts{2, 1, 3, 4});
  CHECK(token.slices == Slices{3, 3, 3, 2});
  CHECK(token.substituted == 3);
  CHECK(token.skipped == 0);
}

TEST_CASE("mask takes fewer where fewer are resident, and waits for the best where none is") {
  Token token;
  token.resident[6] = 3;
  token.decide({.action = MissAction::kMask});
  CHECK(token.experts == Experts{6});
  CHECK(token.skipped == 3);
  token.resident[6] = 0;
  token.decide({.action = MissAction::kMask});
  CHECK(token.experts == Experts{5});
  CHECK(token.slices == Slices{3});
}

TEST_CASE("equally likely experts are taken by the lowest index") {
  Token token;
  token.likelihoods.assign(8, 0.125f);
  token.resident = {0, 3, 0, 3, 3, 0, 3, 3};
  token.decide({.action = MissAction::kMask});
  CHECK(token.experts == Experts{1, 3, 4, 6});
}

TEST_CASE(
    "scores that are no numbers lose nothing, and experts without a likelihood are not taken") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Token token;
  token.weights.assign(4, nan);
  token.decide(kLower);
  CHECK(token.experts == token.chosen);
  token.weights.assign(4, 0); // Their sum divides nothing.
  token.decide({.action = MissAction::kSkip});
  CHECK(token.experts == token.chosen);
  token.likelihoods.assign(8, nan);
  token.resident.assign(8, 3);
  token.resident[5] = 0;
  token.decide({.action = MissAction::kMask});
  CHECK(token.experts == Experts{5});
}

TEST_CASE("rules are written with the numbers that they use") {
  CHECK(missRuleText({}) == "wait");
  CHECK(missRuleText(
            {.action = MissAction::kLower, .waitUpTo = part(0.6), .skipBeyond = part(0.9)}) ==
        "lower:0.6:0.9");
  CHECK(missRuleText({.action = MissAction::kLower, .lowSlices = 2}) == "lower:0:1:2");
  CHECK(missRuleText({.action = MissAction::kSkip, .waitUpTo = part(0.25)}) == "skip:0.25");
  CHECK(missRuleText({.action = MissAction::kSubstitute,
                      .waitUpTo = part(0.5),
                      .substituteWithin = part(0.125)}) == "substitute:0.5:0.125");
  CHECK(missRuleText({.action = MissAction::kMask, .waitUpTo = 5}) == "mask");
}

TEST_CASE("in a prompt the least popular experts are lowered, never the most popular one") {
  const MissRule quarter = {.action = MissAction::kLowerPrompts, .waitUpTo = part(0.75)};
  CHECK(exactInPrompt(quarter, 32) == 24);
  CHECK(exactInPrompt(quarter, 4) == 3);
  CHECK(exactInPrompt(quarter, 3) == 2);
  CHECK(exactInPrompt(quarter, 1) == 1);
  CHECK(exactInPrompt({.action = MissAction::kLowerPrompts}, 32) == 1);
  CHECK(exactInPrompt({.action = MissAction::kLowerPrompts, .waitUpTo = kFixedPointOne}, 7) == 7);
  CHECK(quarter.isLossy());
  CHECK_FALSE(quarter.changesDecoding());
  CHECK(missRuleText(quarter) == "prompts:0.75");
  std::vector<uint16_t> slices = {3, 3, 1, 3};
  lowerUnpopular(quarter, slices);
  CHECK(slices == std::vector<uint16_t>{3, 3, 1, 1});
  lowerUnpopular({.action = MissAction::kLowerPrompts, .lowSlices = 2}, slices);
  CHECK(slices == std::vector<uint16_t>{3, 2, 1, 1});
}

TEST_CASE("a prefetch is lowered as the rule would lower its rank") {
  const std::vector<PrefetchCandidate> candidates = {{7, 50}, {3, 30}, {5, 15}, {1, 5}, {2, 5}};
  auto slicesOf = [&](const MissRule &rule, uint32_t topK) {
    std::vector<uint16_t> slices(candidates.size(), 9);
    lowerPrefetch(rule, topK, candidates, slices);
    return slices;
  };
  // The better ones have 0, 50, 80 and 95% of the probability of the four that will be chosen.
  MissRule rule = {.action = MissAction::kLower,
                   .waitUpTo = kFixedPointOne / 10 * 6,
                   .skipBeyond = kFixedPointOne / 10 * 9};
  using Slices = std::vector<uint16_t>;
  CHECK(slicesOf(rule, 4) == Slices{kAllSlices, kAllSlices, 1, 0, 0});
  CHECK(slicesOf(rule, 1) == Slices{kAllSlices, 0, 0, 0, 0});
  rule.lowSlices = 2;
  rule.skipBeyond = kFixedPointOne;
  CHECK(slicesOf(rule, 4) == Slices{kAllSlices, kAllSlices, 2, 2, 0});
  rule.waitUpTo = 0;
  CHECK(slicesOf(rule, 4) == Slices{kAllSlices, 2, 2, 2, 0}); // The first is waited for.
  CHECK(slicesOf({.action = MissAction::kSkip}, 4) == Slices(5, kAllSlices));
  std::vector<uint16_t> none;
  lowerPrefetch(rule, 4, {}, none);
  CHECK(none.empty());
}
