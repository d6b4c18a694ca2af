#include "runtime/policy/Eviction.h"
#include "runtime/policy/ExchangeRule.h"
#include "runtime/policy/PublishedScores.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

using namespace moert;

using Experts = std::vector<uint32_t>;

static Experts leavingOrder(std::vector<EvictionCandidate> candidates) {
  std::sort(candidates.begin(), candidates.end(), leavesBefore);
  Experts order;
  for (const EvictionCandidate &candidate : candidates)
    order.push_back(candidate.expert);
  return order;
}

TEST_CASE("the expert that was not used for longest is evicted first") {
  CHECK(leavingOrder({{0, 30, 0, 0}, {1, 10, 0, 0}, {2, 20, 0, 0}}) == Experts{1, 2, 0});
}

TEST_CASE("of experts used by the same pass the least popular is evicted first") {
  CHECK(leavingOrder({{0, 10, 0, 0}, {1, 10, 2, 0}, {2, 10, 1, 0}}) == Experts{1, 2, 0});
  CHECK(leavingOrder({{0, 9, 0, 0}, {1, 10, 2, 0}, {2, 10, 1, 0}}) == Experts{0, 1, 2});
}

TEST_CASE("among equals the lowest expert is evicted, in whatever order they stand") {
  CHECK(leavingOrder({{4, 10, 1, 0}, {2, 10, 1, 0}, {3, 10, 1, 0}}) == Experts{2, 3, 4});
  CHECK(leavingOrder({{2, 10, 1, 0}, {3, 10, 1, 0}, {4, 10, 1, 0}}) == Experts{2, 3, 4});
}

TEST_CASE("the value of keeping an expert comes before its last use") {
  CHECK(leavingOrder({{0, 1, 0, 7}, {1, 9, 0, 5}, {2, 5, 0, 6}}) == Experts{1, 2, 0});
}

/// A history of that many uses, the last one in that turn of its layer.
static ExpertHistory used(uint32_t tokens, uint32_t lastTurn) {
  ExpertHistory history;
  history.tokens = tokens;
  history.lastTurn = lastTurn;
  return history;
}

/// In a cycle of 10 layers.
static LayerDistance ahead(uint32_t layers, uint32_t turn = 0) {
  LayerDistance distance;
  distance.layersAhead = layers;
  distance.layers = 10;
  distance.turn = turn;
  return distance;
}

static uint64_t valueOf(EvictionPolicy policy, const ExpertHistory &history,
                        const LayerDistance &distance) {
  return keepingValue(policy, history, distance);
}

TEST_CASE("LRU and adaptive replacement look at the last use alone") {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kArc})
    CHECK(valueOf(policy, used(5, 3), ahead(1, 4)) == valueOf(policy, used(1, 1), ahead(9, 9)));
}

TEST_CASE("LFU keeps what was used most often, wherever its layer stands") {
  EvictionPolicy lfu = EvictionPolicy::kLfu;
  CHECK(valueOf(lfu, used(3, 1), ahead(9)) > valueOf(lfu, used(2, 1), ahead(1)));
  CHECK(valueOf(lfu, used(3, 1), ahead(9)) == valueOf(lfu, used(3, 8), ahead(1)));
}

TEST_CASE("EdgeMoE divides uses by the layers until the expert's turn") {
  EvictionPolicy edge = EvictionPolicy::kEdgeMoe;
  // 6 / 2 layers = 3, 9 / 3 = 3, 2 / 1 = 2.
  CHECK(valueOf(edge, used(6, 1), ahead(2)) == valueOf(edge, used(9, 1), ahead(3)));
  CHECK(valueOf(edge, used(6, 1), ahead(2)) > valueOf(edge, used(2, 1), ahead(1)));
}

TEST_CASE("least-stale lets go first what its layer has missed for the most turns") {
  EvictionPolicy stale = EvictionPolicy::kLeastStale;
  // Turn 8 of a layer that was just executed, last wanted in turn 7: one turn missed. Turn 7 of a
  // layer that is next, last wanted in turn 7: none, although that was longer ago.
  CHECK(valueOf(stale, used(1, 7), ahead(10, 8)) < valueOf(stale, used(1, 7), ahead(1, 7)));
  // Equally stale: the layer furthest away.
  CHECK(valueOf(stale, used(1, 7), ahead(10, 8)) < valueOf(stale, used(1, 6), ahead(4, 7)));
}

TEST_CASE("the weighted policy adds recency, two frequencies and nearness by their weights") {
  ExpertHistory history = used(50, 9);
  history.lastToken = 75;
  history.fullTokens = 25;
  LayerDistance distance = ahead(4, 9); // Of 10 layers: 0.6 are not ahead of it.
  distance.tokens = 100;
  auto valueWith = [&](const EvictionWeights &weights) {
    return double(keepingValue(EvictionPolicy::kWeighted, history, distance, weights)) /
           kFixedPointOne / kFixedPointOne;
  };
  const uint32_t one = kFixedPointOne, quarter = one / 4;
  CHECK(valueWith({one, 0, 0, 0}) == doctest::Approx(0.75));
  CHECK(valueWith({0, one, 0, 0}) == doctest::Approx(0.5));
  CHECK(valueWith({0, 0, one, 0}) == doctest::Approx(0.25));
  CHECK(valueWith({0, 0, 0, one}) == doctest::Approx(0.6));
  CHECK(valueWith({quarter, quarter, quarter, quarter}) == doctest::Approx(2.1 / 4));
  distance.layersAhead = 10; // The layer that is executed.
  CHECK(valueWith({0, 0, 0, one}) == 1);
  distance.tokens = 0; // A new prompt: nothing is remembered.
  history = {};
  CHECK(valueWith({one, 0, 0, 0}) == 0);
}

TEST_CASE("the importance of a token is the product of both norms and the router's weight") {
  constexpr double kOne = double(kImportanceOne);
  CHECK(double(tokenImportance(8, 0.25f, kFixedPointOne)) == 2 * kOne);
  CHECK(double(tokenImportance(8, 0.25f, kFixedPointOne / 4)) == kOne / 2);
  CHECK(tokenImportance(8, 0.25f, 0) == 0);
  CHECK(tokenImportance(std::numeric_limits<float>::quiet_NaN(), 1, kFixedPointOne) == 0);
  CHECK(tokenImportance(std::numeric_limits<float>::infinity(), 1, kFixedPointOne) ==
        4096 * kImportanceOne);
  CHECK(tokenImportance(1, -1, kFixedPointOne) == 0);
}

TEST_CASE("importance fades with every token and adds up to what tokens add in as many as fade") {
  ExpertHistory history;
  ImportanceStep(1, 4).apply(history, 3 * kImportanceOne);
  CHECK(history.importance == 3 * kImportanceOne);
  ImportanceStep(1, 4).apply(history, 0);
  CHECK(history.importance == 3 * kImportanceOne / 16 * 15);
  CHECK(keepingValue(EvictionPolicy::kImportance, history, ahead(1)) == history.importance);
  fadeForPrompt(history);
  CHECK(history.importance == 3 * kImportanceOne / 64 * 15);
  for (int token = 0; token < 1000; ++token)
    ImportanceStep(1, 4).apply(history, kImportanceOne);
  CHECK(double(history.importance) == doctest::Approx(16.0 * kImportanceOne).epsilon(0.001));
  // Tokens of one layer pass move it as far as one by one.
  ExpertHistory together;
  ImportanceStep(1000, 4).apply(together, 1000 * kImportanceOne);
  CHECK(double(together.importance) == doctest::Approx(double(history.importance)).epsilon(0.001));
  // Numbers stay in range whatever is added.
  ExpertHistory most;
  for (int token = 0; token < 20000; ++token)
    ImportanceStep(1, kMostFadeShift).apply(most, UINT64_MAX);
  CHECK(most.importance <= uint64_t(1) << 39);
  CHECK(most.importance > uint64_t(1) << 38);
}

TEST_CASE("each policy is the row of its number") {
  using enum EvictionPolicy;
  const std::pair<EvictionPolicy, std::string_view> names[] = {{kLru, "lru"},
                                                               {kLfu, "lfu"},
                                                               {kEdgeMoe, "edgemoe"},
                                                               {kArc, "arc"},
                                                               {kLeastStale, "least-stale"},
                                                               {kReuseDistance, "reuse-distance"},
                                                               {kWeighted, "weighted"},
                                                               {kImportance, "importance"}};
  CHECK(std::size(names) == kEvictionScores.size());
  for (const auto &[policy, name] : names)
    CHECK(scoreOf(policy).name == name);
}

TEST_CASE("layers that do not come round again go first where the policy looks ahead") {
  for (EvictionPolicy policy :
       {EvictionPolicy::kEdgeMoe, EvictionPolicy::kLeastStale, EvictionPolicy::kReuseDistance}) {
    LayerDistance encoder = ahead(1);
    encoder.repeatsEveryStep = false;
    ExpertHistory popular = used(100, 1), rare = used(1, 1);
    FrequencyStep step(1);
    step.add(popular, 1);
    CHECK(valueOf(policy, popular, encoder) < valueOf(policy, rare, ahead(10, 5)));
  }
}

TEST_CASE("a token moves the recent frequency by a half and the long one by 1/64") {
  ExpertHistory history;
  FrequencyStep step(1);
  step.fade(history);
  step.add(history, 1);
  CHECK(history.recentFrequency == kFixedPointOne / 2);
  CHECK(history.longFrequency == kFixedPointOne / 64);
  step.fade(history);
  CHECK(history.recentFrequency == kFixedPointOne / 4);
  CHECK(history.longFrequency == kFixedPointOne / 64 / 64 * 63);
}

TEST_CASE("a chunk of tokens moves the frequencies as far as its tokens one by one") {
  ExpertHistory one, many;
  FrequencyStep single(1), chunk(50);
  for (int i = 0; i < 50; ++i) {
    single.fade(one);
    single.add(one, 1);
  }
  chunk.fade(many);
  chunk.add(many, 50);
  // Each step rounds down once.
  CHECK(many.longFrequency - one.longFrequency <= 50);
  CHECK(many.recentFrequency - one.recentFrequency <= 50);
}

TEST_CASE("a prompt leaves a quarter of the frequencies and all else as it is") {
  ExpertHistory history = used(5, 3);
  history.lastUse = 9;
  history.rank = 2;
  history.recentFrequency = kFixedPointOne / 2;
  history.longFrequency = kFixedPointOne / 8;
  fadeForPrompt(history);
  CHECK(history.recentFrequency == kFixedPointOne / 8);
  CHECK(history.longFrequency == kFixedPointOne / 32);
  CHECK(history.tokens == 5);
  CHECK(history.lastTurn == 3);
  CHECK(history.lastUse == 9);
  CHECK(history.rank == 2);
}

TEST_CASE("frequencies stay within the whole, whatever the tokens") {
  ExpertHistory history;
  for (uint32_t tokens : {1u, 7u, 4096u, UINT32_MAX, 1u}) {
    FrequencyStep step(tokens);
    step.fade(history);
    step.add(history, UINT32_MAX);
    CHECK(history.recentFrequency <= kFixedPointOne);
    CHECK(history.longFrequency <= kFixedPointOne);
  }
}

TEST_CASE("the reuseDistance policy adds the way to the layer's turn to the turns that pass "
          "without use") {
  EvictionPolicy reuseDistance = EvictionPolicy::kReuseDistance;
  // The frequency is (recent + 8 * long) / 9. In cycles until the next use:
  auto wantedBy = [](uint32_t frequency) {
    ExpertHistory history;
    history.recentFrequency = history.longFrequency = frequency;
    return history;
  };
  ExpertHistory half = wantedBy(kFixedPointOne / 2);            // 2, and the way.
  ExpertHistory third = wantedBy(kFixedPointOne / 3);           // 3, and the way.
  ExpertHistory almostHalf = wantedBy(kFixedPointOne / 20 * 9); // 2.22, and the way.
  CHECK(valueOf(reuseDistance, half, ahead(9)) >
        valueOf(reuseDistance, third, ahead(1))); // 2.9, 3.1
  CHECK(valueOf(reuseDistance, half, ahead(10)) <
        valueOf(reuseDistance, almostHalf, ahead(1))); // 3, 2.32
  CHECK(valueOf(reuseDistance, half, ahead(10)) > valueOf(reuseDistance, almostHalf, ahead(10)));
}
