#include "passes/PlanReasons.h"

#include "compiler/plan/PlanProblem.h"
#include "runtime/base/Status.h"

#include <string>

using namespace moert;

namespace mlir::moe {

using moec::Preset;

namespace {

/// What a published system's paper says is stated; a choice of this project's own without a trace
/// is an assumption.
struct Why {
  const char *value;
  const char *text;
  Origin origin;
};

const char *evictionReason(Preset preset) {
  switch (preset) {
  case Preset::kAuto:
    return "the best on most models; nothing was searched";
  case Preset::kLoadOnDemand:
    return "nothing is kept that could be let go";
  case Preset::kLru:
    return "by definition";
  case Preset::kEdgeMoe:
    return "EdgeMoE III-C: uses by the layers until the expert's own comes";
  case Preset::kFate:
    return "Fate 4.4: adaptive replacement in each layer";
  }
  return "";
}

Why quotaReason(Preset preset) {
  switch (preset) {
  case Preset::kLoadOnDemand:
    return {"none", "by definition: nothing is kept between turns", Origin::kStated};
  case Preset::kEdgeMoe:
    return {"one pool", "EdgeMoE III-C: one buffer of the budget's size", Origin::kStated};
  case Preset::kFate:
    return {"shallow layers first",
            "Fate 4.4: the first eighth of the MoE layers whole, the rest evenly; the paper's "
            "model has 3 of 24",
            Origin::kStated};
  case Preset::kAuto:
  case Preset::kLru:
    break;
  }
  return {"even", "the same number of experts in each layer", Origin::kAssumed};
}

void add(std::string_view decision, std::string value, std::string_view why, Origin origin,
         Plan &plan) {
  plan.reasons.push_back({std::string(decision), std::move(value), std::string(why), origin});
}

} // namespace

void removeReasons(std::string_view beginning, Plan &plan) {
  std::erase_if(plan.reasons,
                [&](const PlanReason &reason) { return reason.decision.starts_with(beginning); });
}

void addCacheReasons(Preset preset, Plan &plan) {
  const Why quotas = quotaReason(preset);
  add("eviction", std::string(moec::evictionName(plan.rules.eviction)), evictionReason(preset),
      preset == Preset::kAuto ? Origin::kAssumed : Origin::kStated, plan);
  add("quotas", quotas.value, quotas.text, quotas.origin, plan);
}

void addPredictorReason(Preset preset, std::string_view whyNot, Plan &plan) {
  removeReasons("guesses", plan);
  const GuessRule rule = moec::predictorOf(preset);
  if (rule.predictor == Predictor::kOff)
    return preset == Preset::kAuto
               ? add("guesses", "none", "nothing was searched: that takes a trace and a device",
                     Origin::kAssumed, plan)
               : add("guesses", "none", "the preset reads nothing ahead", Origin::kStated, plan);
  if (!whyNot.empty())
    return add("guesses", "none", whyNot, Origin::kDerived, plan);
  add("guesses", strCat(moec::predictorName(rule.predictor), ", ", uint32_t(rule.ahead), " ahead"),
      rule.predictor == Predictor::kGate
          ? "Fate, section 4.3: the next layer's gate on this layer's input"
          : "EdgeMoE, section III-C: what followed the experts of the two layers before",
      Origin::kStated, plan);
}

} // namespace mlir::moe
