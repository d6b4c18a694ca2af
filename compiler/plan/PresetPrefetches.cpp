#include "compiler/plan/PresetPrefetches.h"

#include "compiler/plan/DeviceTimes.h"
#include "compiler/plan/Presets.h"
#include "compiler/plan/StepCosts.h"

#include <algorithm>

using namespace moert;

namespace moec {

namespace {

/// Decides for one plan. Borrows its inputs.
class PrefetchDecisions {
public:
  PrefetchDecisions(const ModelFacts &model, const BudgetPlan &planned, const PlannedUse &use,
                    const DeviceProfile *device)
      : facts(model), budget(planned), asked(predictorOf(planned.preset)) {
    if (!device)
      return;
    costs = stepCostsOf(facts, *device, {use.threads, std::max(1u, budget.contextTokens / 2)});
    reads = plannedReads(*device);
  }

  PresetPrefetches make(bool hasPaths) const {
    if (asked.predictor == Predictor::kOff)
      return {PrefetchLimit::kNoPreset, {}};
    if (asked.predictor == Predictor::kPaths && !hasPaths)
      return {PrefetchLimit::kNoTable, {}};
    PresetPrefetches made;
    for (uint32_t layer = 0; layer < facts.topK.size(); ++layer)
      made.layers.push_back(layerPrefetch(layer));
    return made;
  }

private:
  DecidedPrefetch layerPrefetch(uint32_t layer) const {
    const CacheShape::Layer &shape = facts.footprint.cache.layers[layer];
    if (!facts.isPredicted[layer][asked.ahead - 1u])
      return {{}, PrefetchLimit::kNoPrediction, {}};
    if (budget.allotment.quotaPages[layer] >= shape.allPages)
      return {{}, PrefetchLimit::kAllResident, {}};
    DecidedPrefetch made;
    if (costs)
      made.readsInTime = readsInTime(layer);
    const uint64_t records =
        budget.allotment.stagingPages / std::max<uint64_t>(1, shape.recordPages);
    // The number of candidates has no measured optimum without a trace: twice the experts of a
    // token, as many as calibration keeps.
    const uint64_t named = asked.predictor == Predictor::kGate
                               ? shape.experts
                               : std::min<uint64_t>(shape.experts, 2 * shape.topK);
    made.rule =
        withCounts(asked, {shape.experts, shape.topK, named, records},
                   made.readsInTime ? std::optional(made.readsInTime->value) : std::nullopt);
    if (made.rule.predictor == Predictor::kOff)
      made.limit = records == 0 ? PrefetchLimit::kNoStaging : PrefetchLimit::kNoTime;
    return made;
  }

  Quantity readsInTime(uint32_t layer) const {
    PlanProblem problem;
    problem.recordBytes = facts.recordBytes;
    problem.topK = facts.topK;
    problem.reads = &*reads;
    problem.costs = &*costs;
    return {readsBetweenRouters(problem, layer), worseOf(costs->origin, Origin::kDerived)};
  }

  const ModelFacts &facts;
  const BudgetPlan &budget;
  const PrefetchRule asked;
  std::optional<StepCosts> costs; // Where there is a device.
  std::optional<ReadTable> reads;
};

} // namespace

PresetPrefetches presetPrefetches(const ModelFacts &facts, const BudgetPlan &budget,
                                  const PlannedUse &use, const DeviceProfile *device) {
  return PrefetchDecisions(facts, budget, use, device).make(use.hasPaths);
}

} // namespace moec
