// From a planner's decision to what an artifact keeps of it. Planners know nothing of artifacts, so
// that the two are separate types; whatever writes a plan goes through here.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/format/Artifact.h"

#include <utility>

namespace moec {

inline moert::PlanReason planReasonOf(PlanDecision made) {
  return {std::move(made.decision), std::move(made.value), std::move(made.reason), made.origin};
}

} // namespace moec
