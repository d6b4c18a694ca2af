#include "compiler/plan/PlanInputs.h"

#include "compiler/plan/DeviceTimes.h"
#include "compiler/plan/StepCosts.h"

namespace moec {

PlanInputs::PlanInputs(const ModelFacts &model, const KnownRouting &traced,
                       const DeviceProfile &device)
    : facts(model), routing(traced),
      costs(stepCostsOf(model, device, {device.cores, traced.contextTokens})),
      reads(plannedReads(device)) {}

PlanProblem PlanInputs::problemOf(const RoutingTrace &trace, uint64_t poolPages) const {
  return {.trace = &trace,
          .predictions = routing.predictions,
          .recordBytes = facts.recordBytes,
          .sliceEnds = facts.sliceEnds,
          .lowCopySlices = facts.lowCopySlices,
          .scores = routing.scores,
          .topK = facts.topK,
          .expertNorms = facts.expertNorms,
          .accuracy = facts.accuracy ? &*facts.accuracy : nullptr,
          .pageBytes = facts.footprint.pageBytes,
          .poolPages = poolPages,
          .reads = &reads,
          .costs = &costs};
}

} // namespace moec
