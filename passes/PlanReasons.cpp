#include "passes/PlanReasons.h"

#include "compiler/emit/PlanReasonOf.h"
#include "compiler/plan/Presets.h"
#include "runtime/base/Status.h"

#include <string>

using namespace moert;

namespace mlir::moe {

using moec::Preset;

static void addPrefetches(std::string value, std::string_view why, Origin origin, Plan &plan) {
  plan.reasons.push_back({"prefetches", std::move(value), std::string(why), origin});
}

void removeReasons(std::string_view beginning, Plan &plan) {
  std::erase_if(plan.reasons,
                [&](const PlanReason &reason) { return reason.decision.starts_with(beginning); });
}

void addCacheReasons(Preset preset, Plan &plan) {
  for (const moec::PlanDecision &made :
       {moec::evictionDecision(preset, plan.rules.eviction), moec::allotmentDecision(preset)})
    plan.reasons.push_back(moec::planReasonOf(made));
}

void addPredictorReason(Preset preset, std::string_view whyNot, Plan &plan) {
  removeReasons("prefetches", plan);
  const PrefetchRule rule = moec::predictorOf(preset);
  if (rule.predictor == Predictor::kOff) {
    plan.reasons.push_back(moec::planReasonOf(moec::noPrefetchDecision(preset)));
    return;
  }
  if (!whyNot.empty())
    return addPrefetches("none", whyNot, Origin::kDerived, plan);
  addPrefetches(
      strCat(moec::predictorName(rule.predictor), ", ", uint32_t(rule.ahead), " ahead"),
      rule.predictor == Predictor::kGate
          ? "Fate, section 4.3: the next layer's gate on this layer's input"
          : "EdgeMoE, section III-C: the experts that followed those of the two layers before",
      Origin::kStated, plan);
}

} // namespace mlir::moe
