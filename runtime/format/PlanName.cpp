#include "runtime/format/PlanName.h"

#include "runtime/policy/MissPolicy.h"

namespace moert {

std::string nameWithRule(const Plan &plan) {
  const std::string rule = missRuleText(plan.miss);
  return plan.name.ends_with(" " + rule) ? plan.name : plan.name + ", " + rule;
}

} // namespace moert
