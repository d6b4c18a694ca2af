// How long the search for a plan takes on a large model, and what it finds: 48 MoE layers of 128
// experts, 8 of them a token, 2,000 tokens.
//
//     plan_search_bench [--threads N] [--layers N] [--tokens N]
//
// The trace is made up: some experts are popular, and a token often takes what the ones before it
// took, so that LRU hits 47, 69 and 86% with a quarter, half and three quarters of the experts in
// memory (the bundled model's trace: 45, 72, 90). Gates one to three layers ahead name 79, 71 and
// 63% of what is wanted among their first eight.
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/Presets.h"
#include "runtime/base/Clock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace moec;
using namespace moert;

namespace {

constexpr uint32_t kExperts = 128, kTopK = 8, kCandidates = 16;
constexpr uint64_t kRecordBytes = 1 << 20, kPageBytes = 64 * 1024;
constexpr double kSticky = 0.2, kSkew = 0.55;

/// What one layer chooses; habits reach back some tokens.
class Router {
public:
  explicit Router(uint32_t seed) : random(seed) {
    double sum = 0;
    for (uint32_t e = 0; e < kExperts; ++e) {
      popularity[e] = sum += std::pow(e + 1.0, -kSkew);
      names[e] = static_cast<uint16_t>(e);
    }
    std::shuffle(names.begin(), names.end(), random);
  }

  double uniform() { return static_cast<double>(random()) / 4294967296.0; }
  uint16_t popular() {
    const double place = uniform() * popularity.back();
    return names[static_cast<size_t>(
        std::lower_bound(popularity.begin(), popularity.end() - 1, place) - popularity.begin())];
  }
  void choose(std::vector<uint16_t> &chosen) {
    const size_t before = chosen.size();
    while (chosen.size() < before + kTopK) {
      // Among the recent choices.
      const size_t back = 1 + static_cast<size_t>(-std::log(1 - uniform()) * kTopK * 2);
      const uint16_t expert =
          uniform() < kSticky && back <= before ? chosen[before - back] : popular();
      if (std::find(chosen.begin() + ptrdiff_t(before), chosen.end(), expert) == chosen.end())
        chosen.push_back(expert);
    }
  }

private:
  std::mt19937 random;
  std::array<double, kExperts> popularity;
  std::array<uint16_t, kExperts> names;
};

LayerPredictions predict(const std::vector<uint16_t> &chosen, uint32_t layer, uint32_t ahead) {
  LayerPredictions made{Predictor::kGate, layer, ahead, kCandidates, {}};
  Router router(1000 * layer + ahead);
  std::vector<uint16_t> named;
  for (size_t first = 0; first < chosen.size(); first += kTopK) {
    named.clear();
    for (size_t k = 0; k < kTopK; ++k)
      if (router.uniform() > 0.13 + 0.08 * ahead)
        named.push_back(chosen[first + k]);
    while (named.size() < kCandidates)
      if (uint16_t expert = router.popular(); std::ranges::count(named, expert) == 0)
        named.push_back(expert);
    for (size_t rank = 0; rank < kCandidates; ++rank)
      made.candidates.push_back(
          {named[rank], static_cast<uint32_t>(kFixedPointOne * 0.35 * std::pow(0.8, rank))});
  }
  return made;
}

struct Model {
  RoutingTrace trace;
  std::vector<LayerPredictions> predictions;
  std::vector<std::vector<uint64_t>> recordBytes;
  std::vector<uint32_t> topK;
  StepCosts costs;
  ReadTable reads = {{kRecordBytes},
                     {1, 4},
                     {{0.8e9, Origin::kAssumed}, {1e9, Origin::kAssumed}},
                     {{8 << 20, {1.2, Origin::kAssumed}}}};
};

Model makeModel(uint32_t layers, uint32_t tokens) {
  Model model;
  std::vector<std::vector<uint16_t>> chosen(layers);
  std::vector<LayerRoutes> routes;
  for (uint32_t l = 0; l < layers; ++l) {
    Router router(l);
    for (uint32_t token = 0; token < tokens; ++token)
      router.choose(chosen[l]);
    routes.push_back({kExperts, kTopK, chosen[l]});
    for (uint32_t ahead = 1; ahead <= std::min(l, kMostAhead); ++ahead)
      model.predictions.push_back(predict(chosen[l], l, ahead));
    model.costs.layers.push_back({.before = {60000, 30000},
                                  .expert = {30000, 9000},
                                  .checks = {{100000}},
                                  .predictNs = {2000, 2000, 2000}});
  }
  model.costs.after = {200000, 0};
  const uint32_t windows = 4;
  model.trace = makeTrace(routes, stepsOfWindows(windows, tokens / windows, 64, 64)).value();
  model.recordBytes.assign(layers, std::vector<uint64_t>(kExperts, kRecordBytes));
  model.topK.assign(layers, kTopK);
  return model;
}

uint32_t numberAfter(int argc, char **argv, const char *name, uint32_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name))
      return static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
  return otherwise;
}

} // namespace

int main(int argc, char **argv) {
  const uint32_t layers = std::max(1u, numberAfter(argc, argv, "--layers", 48));
  const uint32_t tokens = std::max(4u, numberAfter(argc, argv, "--tokens", 2000)) / 4 * 4;
  const Model model = makeModel(layers, tokens);
  const uint64_t allPages = layers * kExperts * (kRecordBytes / kPageBytes);
  for (double fraction : {0.1, 0.25, 0.5, 0.75}) {
    PlanProblem problem{.trace = &model.trace,
                        .predictions = model.predictions,
                        .recordBytes = model.recordBytes,
                        .topK = model.topK,
                        .pageBytes = kPageBytes,
                        .poolPages =
                            static_cast<uint64_t>(static_cast<double>(allPages) * fraction),
                        .reads = &model.reads,
                        .costs = &model.costs};
    const uint64_t before = monotonicNs();
    Result<SearchedPlan> plan =
        searchPlan(problem, {.threads = numberAfter(argc, argv, "--threads", 2)});
    const double seconds = static_cast<double>(monotonicNs() - before) / 1e9;
    if (!plan.isOk()) {
      std::fprintf(stderr, "%s\n", plan.status().message().c_str());
      return 1;
    }
    const PlanSettings lru = planPreset(Preset::kLru, problem).settings;
    const Forecast ofLru = forecastOf(problem, lru).value();
    const Forecast ofFound = forecastOf(problem, plan->planned.settings).value();
    std::printf("%2.0f%% of the experts: %.1f s, %u replays; %.1f ms a token, hits %.1f%%, of lru "
                "%.1f%%\n",
                100 * fraction, seconds, plan->replays, plan->tokenNs / 1e6, 100 * ofFound.hitRate,
                100 * ofLru.hitRate);
    for (const PresetTime &preset : plan->presets)
      std::printf("    %-15s %.1f ms\n", std::string(presetName(preset.preset)).c_str(),
                  preset.tokenNs / 1e6);
    for (const PlanReason &decision : plan->planned.decisions)
      std::printf("    %-15s %s: %s\n", decision.decision.c_str(), decision.value.c_str(),
                  decision.reason.c_str());
    std::fflush(stdout);
  }
  return 0;
}
