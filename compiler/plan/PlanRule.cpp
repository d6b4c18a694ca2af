#include "compiler/plan/PlanRule.h"

#include "compiler/plan/PlanTrials.h"
#include "compiler/plan/Presets.h"

namespace moec {

PlanSettings settingsBy(const PlanRule &rule, const PlanProblem &problem) {
  if (!rule.recipe)
    return presetSettings(rule.preset, problem);
  // As much of the trace as the search's last step goes by (PlanAcceptance.cpp).
  const size_t steps = partsOf(*problem.trace).steps;
  return RecipeBook(problem, steps, steps).settingsOf(*rule.recipe);
}

} // namespace moec
