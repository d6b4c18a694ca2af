#include "passes/PlanReasons.h"

#include "compiler/plan/Presets.h"
#include "runtime/base/Status.h"

#include <string>

using namespace moert;

namespace mlir::moe {

using moec::Preset;

namespace {

void add(std::string_view decision, std::string value, std::string_view why, Origin origin,
         Plan &plan) {
  plan.reasons.push_back({std::string(decision), std::move(value), std::string(why), origin});
}

void add(const moec::PlanDecision &made, Plan &plan) {
  add(made.decision, made.value, made.reason, made.origin, plan);
}

} // namespace

void removeReasons(std::string_view beginning, Plan &plan) {
  std::erase_if(plan.reasons,
                [&](const PlanReason &reason) { return reason.decision.starts_with(beginning); });
}

void addCacheReasons(Preset preset, Plan &plan) {
  for (const moec::PlanDecision &made :
       {moec::evictionDecision(preset, plan.rules.eviction), moec::allotmentDecision(preset)})
    add(made, plan);
}

void addPredictorReason(Preset preset, std::string_view whyNot, Plan &plan) {
  removeReasons("guesses", plan);
  const GuessRule rule = moec::predictorOf(preset);
  if (rule.predictor == Predictor::kOff)
    return add(moec::noGuessDecision(preset), plan);
  if (!whyNot.empty())
    return add("guesses", "none", whyNot, Origin::kDerived, plan);
  add("guesses", strCat(moec::predictorName(rule.predictor), ", ", uint32_t(rule.ahead), " ahead"),
      rule.predictor == Predictor::kGate
          ? "Fate, section 4.3: the next layer's gate on this layer's input"
          : "EdgeMoE, section III-C: what followed the experts of the two layers before",
      Origin::kStated, plan);
}

} // namespace mlir::moe
