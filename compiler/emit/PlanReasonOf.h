// Converts a planner's decision to the form that an artifact keeps. Planners do not depend on the
// artifact, so the two are separate types; all code that writes a plan uses this conversion.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/format/Artifact.h"

#include <utility>

namespace moec {

inline moert::PlanReason planReasonOf(PlanDecision made) {
  return {std::move(made.decision), std::move(made.value), std::move(made.reason), made.origin};
}

} // namespace moec
