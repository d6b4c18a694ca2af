#include "compiler/plan/Presets.h"

#include "compiler/plan/HobbitCache.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/plan/VirtualExperts.h"
#include "runtime/policy/Prefetches.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

using namespace moert;

namespace moec {

double readsBetweenRouters(const PlanProblem &problem, uint32_t layer) {
  if (layer == 0)
    return 0;
  const StepCosts::Layer &executed = problem.costs->layers[layer - 1];
  const double ns = executed.expert.of(1) * problem.topK[layer - 1] + executed.beside.of(1) +
                    problem.costs->layers[layer].before.of(1) +
                    problem.costs->layers[layer].predictNs.front();
  const std::vector<uint64_t> &records = problem.recordBytes[layer];
  const uint64_t bytes = *std::max_element(records.begin(), records.end());
  return ns / readNs(*problem.reads, bytes, 1).value;
}

namespace {

/// The rule of one layer; off where nothing is known of its prefetches, or none can be read in
/// time.
PrefetchRule prefetchOf(Preset preset, const PlanProblem &problem, uint32_t layer) {
  const PrefetchRule rule = predictorOf(preset);
  const LayerPredictions *made = findPredictions(problem, rule, layer);
  if (!made)
    return {};
  return withCounts(
      rule, {problem.trace->layerExperts[layer], problem.topK[layer], made->perToken, UINT64_MAX},
      readsBetweenRouters(problem, layer));
}

std::vector<PrefetchRule> prefetchesOf(Preset preset, const PlanProblem &problem) {
  std::vector<PrefetchRule> prefetches;
  if (predictorOf(preset).predictor == Predictor::kOff)
    return prefetches;
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    prefetches.push_back(prefetchOf(preset, problem, layer));
  return prefetches;
}

/// Every expert of every layer, in order, nothing known of its use.
void fillInOrder(const PlanProblem &problem, PlanSettings &settings) {
  for (const std::vector<uint64_t> &records : problem.recordBytes) {
    std::vector<uint32_t> &start = settings.start.emplace_back(records.size());
    std::iota(start.begin(), start.end(), 0);
    settings.startUses.emplace_back(records.size(), 0);
  }
}

} // namespace

/// Without what is fitted on the trace.
static PlanSettings rulesAsPublished(Preset preset, const PlanProblem &problem) {
  PlanSettings settings;
  settings.rules = rulesOf(preset);
  settings.prefetches = prefetchesOf(preset, problem);
  if (!prefetchesAnything(settings.prefetches))
    settings.prefetches.clear();
  settings.allotment =
      allotFor(preset, shapeOf(problem), problem.poolPages, !settings.prefetches.empty());
  if (preset == Preset::kEdgeMoe)
    fillInOrder(problem, settings);
  return settings;
}

PlanSettings presetSettings(Preset preset, const PlanProblem &problem) {
  PlanSettings settings = rulesAsPublished(preset, problem);
  if (preset == Preset::kHobbit)
    (void)fitHobbitCache(problem, settings);
  return settings;
}

PlannedSettings planPreset(Preset preset, const PlanProblem &problem) {
  PlanSettings settings = rulesAsPublished(preset, problem);
  std::vector<PlanReason> reasons = reasonsOf(preset, problem, settings);
  if (preset == Preset::kHobbit)
    std::ranges::move(fitHobbitCache(problem, settings), std::back_inserter(reasons));
  if (usesVirtualExperts(preset)) {
    const std::vector<PlanReason> chosen = chooseVirtualExperts(preset,
                                                                {.recordBytes = problem.recordBytes,
                                                                 .pageBytes = problem.pageBytes,
                                                                 .norms = problem.expertNorms,
                                                                 .trace = problem.trace,
                                                                 .costs = problem.costs,
                                                                 .reads = problem.reads,
                                                                 .topK = problem.topK,
                                                                 .problem = &problem,
                                                                 .accuracy = problem.accuracy},
                                                                settings);
    reasons.insert(reasons.end(), chosen.begin(), chosen.end());
  }
  return {std::move(settings), std::move(reasons)};
}

} // namespace moec
