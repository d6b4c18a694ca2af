#include "compiler/plan/Presets.h"

#include "runtime/policy/Prefetches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

PlanDecision allotmentDecision(Preset preset) {
  switch (preset) {
  case Preset::kLoadOnDemand:
    return {"quotas", "none", "by definition: nothing is kept between turns", Origin::kStated};
  case Preset::kFate:
    return {
        "quotas", "shallow layers first",
        "Fate 4.4: the first eighth of the MoE layers whole, the rest evenly; the paper's model "
        "has 3 of 24",
        Origin::kStated};
  case Preset::kEdgeMoe:
    return {"quotas", "one pool", "EdgeMoE III-C: one buffer of the budget's size",
            Origin::kStated};
  case Preset::kLru:
  case Preset::kAuto:
    break;
  }
  return {"quotas", "even", "the same number of experts in each layer", Origin::kAssumed};
}

PlanDecision evictionDecision(Preset preset, EvictionPolicy policy) {
  const std::string name(evictionName(policy));
  switch (preset) {
  case Preset::kLoadOnDemand:
    return {"eviction", name, "nothing is kept that could be let go", Origin::kStated};
  case Preset::kFate:
    return {"eviction", name, "Fate 4.4: adaptive replacement in each layer", Origin::kStated};
  case Preset::kEdgeMoe:
    return {"eviction", name, "EdgeMoE III-C: uses by the layers until the expert's own comes",
            Origin::kStated};
  case Preset::kLru:
    return {"eviction", name, "by definition", Origin::kStated};
  case Preset::kAuto:
    break;
  }
  return {"eviction", name, "the best on most models; nothing was searched", Origin::kAssumed};
}

PlanDecision noPrefetchDecision(Preset preset) {
  if (preset == Preset::kAuto || predictorOf(preset).predictor != Predictor::kOff)
    return {"prefetches", "none", "nothing was searched: that takes a trace and a device",
            Origin::kAssumed};
  return {"prefetches", "none", "the preset prefetches nothing", Origin::kStated};
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

bool isKnown(const PlanProblem &problem, const PrefetchRule &rule) {
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    if (const LayerPredictions *made = findPredictions(problem, rule, layer))
      if (made->perToken > 0)
        return true;
  return false;
}

/// "2 reads a layer", "1 to 3 reads a layer", of the layers that are prefetched.
std::string readsText(const std::vector<PrefetchRule> &prefetches) {
  uint32_t least = UINT16_MAX, most = 0;
  for (const PrefetchRule &rule : prefetches)
    if (rule.predictor != Predictor::kOff) {
      least = std::min<uint32_t>(least, rule.reads);
      most = std::max<uint32_t>(most, rule.reads);
    }
  const std::string count = least == most ? strCat(most) : strCat(least, " to ", most);
  return strCat(count, most == 1 ? " read a layer" : " reads a layer");
}

/// Of prefetches by layers; empty ones: none came of the preset's predictor.
PlanDecision prefetchDecision(Preset preset, const PlanProblem &problem,
                              const std::vector<PrefetchRule> &prefetches) {
  const PrefetchRule asked = predictorOf(preset);
  if (asked.predictor == Predictor::kOff)
    return noPrefetchDecision(preset);
  const std::string name(predictorName(asked.predictor));
  const Origin origin = worseOf(problem.costs->origin, Origin::kDerived);
  if (!isKnown(problem, asked))
    return {"prefetches", "none", strCat("nothing is known of prefetches by ", name), origin};
  double inTime = 0;
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    inTime = std::max(inTime, readsBetweenRouters(problem, layer));
  const std::string time = strCat("from one router to the next there is time to read at most ",
                                  std::round(inTime * 100) / 100,
                                  std::round(inTime * 100) == 100 ? " expert" : " experts");
  if (prefetches.empty())
    return {"prefetches", "none", time, origin};
  return {"prefetches", strCat(name, ", ", readsText(prefetches)), time, origin};
}

} // namespace

PlannedSettings planPreset(Preset preset, const PlanProblem &problem) {
  PlannedSettings planned;
  PlanSettings &settings = planned.settings;
  settings.rules = rulesOf(preset);
  settings.prefetches = prefetchesOf(preset, problem);
  if (!prefetchesAnything(settings.prefetches))
    settings.prefetches.clear();
  settings.allotment =
      allotFor(preset, shapeOf(problem), problem.poolPages, !settings.prefetches.empty());
  if (preset == Preset::kEdgeMoe)
    fillInOrder(problem, settings);
  planned.decisions = {evictionDecision(preset, settings.rules.eviction), allotmentDecision(preset),
                       prefetchDecision(preset, problem, settings.prefetches)};
  if (preset == Preset::kEdgeMoe)
    planned.decisions.push_back({"start", "layer by layer",
                                 "EdgeMoE III-C: the buffer is filled in the order of the layers",
                                 Origin::kStated});
  return planned;
}

} // namespace moec
