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

/// The rule of one layer, with at most as many layers ahead as there are before it. Off if the
/// trace has no predictions of the layer, or if no prefetch can be read in time.
PrefetchRule prefetchOf(PrefetchRule rule, const PlanProblem &problem, uint32_t layer) {
  rule.ahead = static_cast<uint8_t>(std::min<uint32_t>(rule.ahead, std::max(1u, layer)));
  const uint32_t known = knownCandidates(problem, rule, layer);
  if (known == 0)
    return {};
  return withCounts(rule,
                    {problem.trace->layerExperts[layer], problem.topK[layer], known, UINT64_MAX},
                    readsBetweenRouters(problem, layer));
}

std::vector<PrefetchRule> prefetchesOf(const PrefetchRule &rule, const PlanProblem &problem) {
  std::vector<PrefetchRule> prefetches;
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    prefetches.push_back(prefetchOf(rule, problem, layer));
  if (!prefetchesAnything(prefetches))
    prefetches.clear();
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
static PlanSettings rulesAsPublished(Preset preset, const PlanProblem &problem,
                                     const PrefetchRule &prefetch) {
  PlanSettings settings;
  settings.rules = rulesOf(preset);
  settings.prefetches = prefetchesOf(prefetch, problem);
  settings.allotment =
      allotFor(preset, shapeOf(problem), problem.poolPages, !settings.prefetches.empty());
  if (preset == Preset::kEdgeMoe)
    fillInOrder(problem, settings);
  return settings;
}

/// With what hobbit fits on the trace, and the reasons.
static PlanSettings publishedSettings(Preset preset, const PlanProblem &problem,
                                      uint32_t hobbitDepth, std::vector<PlanReason> &fitted) {
  if (preset != Preset::kHobbit)
    return rulesAsPublished(preset, problem, predictorOf(preset));
  std::vector<HobbitDepth> depths;
  for (uint8_t ahead = 0; ahead <= kMostAhead; ++ahead) {
    const PrefetchRule rule = {ahead == 0 ? Predictor::kOff : predictorOf(preset).predictor,
                               std::max<uint8_t>(1, ahead)};
    HobbitDepth depth = {ahead, rulesAsPublished(preset, problem, rule), {}};
    const bool isMade = ahead == 0 || !depth.settings.prefetches.empty();
    if (isMade && (hobbitDepth == 0 || ahead == 0 || ahead == hobbitDepth))
      depths.push_back(std::move(depth));
  }
  if (hobbitDepth != 0 && depths.size() > 1) // What was asked for can be made.
    depths.erase(depths.begin());
  const bool isRefused = hobbitDepth != 0 && depths.front().ahead == 0;
  PlanSettings settings = takeHobbitDepth(problem, std::move(depths), fitted);
  if (isRefused)
    fitted.push_back(
        {"prediction depth", "none",
         strCat(hobbitDepth, " ahead was asked for, but the memory, the program or the "
                             "trace leaves no prefetch"),
         Origin::kDerived});
  return settings;
}

PlanSettings presetSettings(Preset preset, const PlanProblem &problem) {
  std::vector<PlanReason> fitted;
  return publishedSettings(preset, problem, 0, fitted);
}

PlannedSettings planPreset(Preset preset, const PlanProblem &problem, uint32_t hobbitDepth) {
  std::vector<PlanReason> fitted;
  PlanSettings settings = publishedSettings(preset, problem, hobbitDepth, fitted);
  std::vector<PlanReason> reasons = reasonsOf(preset, problem, settings);
  std::ranges::move(fitted, std::back_inserter(reasons));
  if (usesVirtualExperts(preset)) {
    const std::vector<PlanReason> chosen = chooseVirtualExperts(preset, problem, settings);
    reasons.insert(reasons.end(), chosen.begin(), chosen.end());
  }
  return {std::move(settings), std::move(reasons)};
}

} // namespace moec
