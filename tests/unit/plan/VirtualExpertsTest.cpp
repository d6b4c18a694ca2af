// Which experts swapmoe and pruning begin with, and how often swapmoe exchanges them.
#include "compiler/plan/VirtualExperts.h"

#include "compiler/plan/TimedReplay.h"
#include "tests/unit/plan/ScoredFixture.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moec;
using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

constexpr uint64_t kPage = 4096;

/// Two layers of four experts with one page each; two stay in each layer.
struct SmallModel {
  SmallModel() {
    trace.layerExperts = {4, 4};
    // Layer 0 uses expert 2 most, then 1 and 3; layer 1 uses expert 0 alone.
    for (uint32_t token = 0; token < 6; ++token) {
      addPass(0, token == 0 ? Experts{1, 3} : Experts{2}, token == 0);
      addPass(1, {0}, false);
    }
    inputs = {.recordBytes = records, .topK = topK, .expertNorms = norms, .pageBytes = kPage};
    settings.allotment = {2, {2, 2}};
    settings.rules = rulesOf(Preset::kSwapMoe);
  }
  void addPass(uint32_t layer, const Experts &wanted, bool beginsPrompt) {
    const uint64_t begin = trace.wanted.size();
    for (uint32_t expert : wanted) {
      trace.wanted.push_back(expert);
      trace.uses.push_back(1);
    }
    trace.passes.push_back({layer, 1, begin, trace.wanted.size(), beginsPrompt});
  }

  std::vector<std::vector<uint64_t>> records{2, std::vector<uint64_t>(4, kPage)};
  std::vector<std::vector<uint32_t>> norms{{kFixedPointOne, 100, 100, 300}, {5, 9, 9, 7}};
  std::vector<uint32_t> topK{2, 1};
  RoutingTrace trace;
  PlanProblem inputs;
  PlanSettings settings;
};

} // namespace

TEST_CASE("experts are ordered by their uses times their norms, and those without uses by norms") {
  SmallModel model;
  model.inputs.trace = &model.trace;
  // Uses of layer 0: 0, 1, 5, 1; products 0, 100, 500, 300.
  CHECK(expertsByImportance(model.inputs) == std::vector<Experts>{{2, 3, 1, 0}, {0, 1, 2, 3}});
  model.inputs.trace = nullptr;
  CHECK(expertsByImportance(model.inputs) == std::vector<Experts>{{0, 3, 1, 2}, {1, 2, 3, 0}});
  model.inputs.expertNorms = {};
  CHECK(expertsByImportance(model.inputs) == std::vector<Experts>{{0, 1, 2, 3}, {0, 1, 2, 3}});
}

TEST_CASE("the cache begins with the most important experts, as many as its quotas hold") {
  SmallModel model;
  model.inputs.trace = &model.trace;
  chooseVirtualExperts(Preset::kSwapMoe, model.inputs, model.settings);
  CHECK(model.settings.start == std::vector<Experts>{{2, 3}, {0, 1}});
  CHECK(model.settings.startUses == std::vector<Experts>{{5, 1}, {6, 0}});
  CHECK(model.settings.startTokens == 6);
  CHECK(model.settings.pinned.empty());
  CHECK(model.settings.rules.exchange.exchanges());
}

TEST_CASE("pruning pins what it begins with and exchanges nothing") {
  SmallModel model;
  model.settings.rules = rulesOf(Preset::kPruning);
  const std::vector<PlanReason> reasons =
      chooseVirtualExperts(Preset::kPruning, model.inputs, model.settings);
  CHECK(model.settings.pinned == std::vector<Experts>{{0, 3}, {1, 2}});
  CHECK(model.settings.start == model.settings.pinned);
  CHECK_FALSE(model.settings.rules.exchange.exchanges());
  CHECK(reasons.front().origin == Origin::kAssumed);
}

TEST_CASE("without a device one expert is exchanged per token and joins with the next") {
  CHECK(fastestExchanges(10, 4, {}).everyTokens == 10);
  CHECK(fastestExchanges(10, 4, {}).afterTokens == 1);
  CHECK_FALSE(fastestExchanges(10, 0, {}).exchanges());
}

TEST_CASE("exchanges read for three quarters of a token's time, each in the time of two reads") {
  // 12 layers: a token has time for 3 reads, so a round takes 4 tokens.
  ExchangeRule rule = fastestExchanges(12, 100, ExchangeTimes{4e6, 1e6});
  CHECK(rule.everyTokens == 4);
  CHECK(rule.afterTokens == 1);
  // A read takes as long as 5 tokens.
  rule = fastestExchanges(12, 100, ExchangeTimes{1e6, 5e6});
  CHECK(rule.everyTokens == 80);
  CHECK(rule.afterTokens == 10);
  // A fast disk exchanges an expert of each layer with each token.
  CHECK(fastestExchanges(12, 100, ExchangeTimes{1e9, 1}).everyTokens == 1);
  // One layer alone: no round is shorter than an exchange.
  rule = fastestExchanges(1, 100, ExchangeTimes{1e6, 2.25e6});
  CHECK(rule.everyTokens == 5);
  CHECK(rule.afterTokens == 5);
}

TEST_CASE("no more promotions are under way than the staging pages hold") {
  // Without the limit 12 would be.
  const ExchangeRule rule = fastestExchanges(12, 4, ExchangeTimes{1e9, 1});
  CHECK(rule.everyTokens == 3);
  CHECK(rule.afterTokens == 1);
}

namespace {

/// A plan of exchanges for three layers of sixteen experts, twelve of which are in memory.
PlanSettings exchanging() {
  PlanSettings settings = quotasOf({24, 24, 24}, 8);
  settings.rules = rulesOf(Preset::kSwapMoe);
  for (int layer = 0; layer < 3; ++layer) {
    settings.start.push_back({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    settings.startUses.emplace_back(12, 1);
  }
  return settings;
}

} // namespace

TEST_CASE("exchanges are tried from a low frequency to a high one, as high as the disk allows") {
  ScoredFixture fixture(3 * 24 + 8);
  ExchangeRule fastest = rulesOf(Preset::kSwapMoe).exchange;
  fastest.everyTokens = fastest.afterTokens = 1;
  // Reads that take next to nothing.
  fixture.reads.bytesPerSecond = {{1e15, Origin::kMeasured}};
  fixture.costs.layers.front().checks = {};
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.checks.sliceNs = {0};
  const ProfiledExchanges fast = profileExchanges(fixture.problem(), exchanging(), fastest);
  CHECK(fast.rule.everyTokens == 1);
  CHECK(fast.trials.front().everyTokens == 64);
  CHECK(fast.trials.back().everyTokens == 1);
  // A read takes as long as some tokens, and it is waited for.
  fixture.reads.bytesPerSecond = {{1e8, Origin::kMeasured}};
  const ProfiledExchanges slow = profileExchanges(fixture.problem(), exchanging(), fastest);
  CHECK(slow.rule.everyTokens > 1);
  CHECK(slow.rule.afterTokens == 1);
  bool isTouched = false;
  for (const ExchangeTrial &trial : slow.trials)
    isTouched |= trial.tokenNs > slow.stillNs * (1 + kTouchedTime);
  CHECK(isTouched);
}

TEST_CASE("an exchanged expert that was read while another one was computed is not waited for") {
  ScoredFixture fixture(3 * 24 + 8);
  PlanSettings settings = exchanging();
  settings.miss.action = MissAction::kMask;
  settings.rules.exchange.everyTokens = 64; // No other read is under way.
  settings.rules.exchange.afterTokens = 1;
  // A read takes 8,192 ns, from one layer's end until it is due two layers of four experts later.
  const auto waited = [&](double expertNs) {
    for (StepCosts::Layer &layer : fixture.costs.layers)
      layer.expert = {expertNs, 0};
    auto result = replayInTime(fixture.problem(), settings);
    REQUIRE(result.isOk());
    CHECK(result->diskBusyNs > 0);
    return result->decode.waitNs;
  };
  CHECK(waited(900) > 0);
  for (double expertNs = 1000; expertNs < 1200;
       expertNs += 25) // It ends in the last expert's time.
    CHECK(waited(expertNs) == 0);
}

TEST_CASE("quotas by an accuracy model go where experts are missed most") {
  std::vector<AccuracySample> samples;
  for (int i = 0; i < 40; ++i) {
    const double first = 0.05 + 0.9 * (i % 8) / 8, second = 0.05 + 0.9 * (i / 8) / 5;
    samples.push_back({{first, second}, 2 * (1 - first) + 0.1 * (1 - second)});
  }
  const AccuracyModel model = AccuracyModel::fit(samples);
  CacheShape shape;
  shape.layers.assign(2, {16, 2, 2, 4, 32});
  const CacheAllotment even = {5, {16, 16}};
  const CacheAllotment found = allotByAccuracy(model, shape, even);
  CHECK(found.quotaPages[0] > found.quotaPages[1]);
  CHECK(found.totalPages() == even.totalPages());
  CHECK(found.quotaPages[1] >= 2);
  // No record for each layer: nothing to divide.
  const CacheAllotment small = {5, {2, 0}};
  CHECK(allotByAccuracy(model, shape, small) == small);
}

TEST_CASE("with an accuracy model swapmoe begins with what its own quotas hold, and says why") {
  SmallModel model;
  const std::vector<AccuracySample> samples = {{{0.25, 0.25}, 4}, {{0.75, 0.25}, 1},
                                               {{0.25, 0.75}, 4}, {{0.75, 0.75}, 1},
                                               {{0.5, 0.25}, 2},  {{0.5, 0.75}, 2}};
  const AccuracyModel accuracy = AccuracyModel::fit(samples);
  model.inputs.accuracy = &accuracy;
  const std::vector<PlanReason> reasons =
      chooseVirtualExperts(Preset::kSwapMoe, model.inputs, model.settings);
  CHECK(model.settings.allotment.quotaPages == std::vector<uint32_t>{3, 1});
  CHECK(model.settings.start[0].size() == 3);
  CHECK(model.settings.start[1].size() == 1);
  CHECK(reasons.front().decision == "quotas");
  CHECK(reasons.front().reason.find("SwapMoE 3.5.2") != std::string::npos);
}
