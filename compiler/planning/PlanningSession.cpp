#include "compiler/planning/PlanningSession.h"

#include "compiler/inspection/InspectSections.h"
#include "runtime/base/Size.h"
#include "runtime/format/PlanName.h"

using namespace moert;

namespace moec {

PlanWatch watchOf(const Session &session) {
  PlanWatch watch{.stop = session.stop};
  if (session.progress)
    watch.progress = [progress = session.progress](uint64_t done, uint64_t total) {
      if (done == 0)
        progress->beginCounting("planning", "plans", kProgressPerPlan, total, 0);
      else
        progress->advanceTo(done);
      if (done == total)
        progress->end();
    };
  return watch;
}

/// States that a plan cannot prefetch, if its preset would.
static std::string prefetchesText(const Plan &plan) {
  const Result<Preset> preset = presetOf(plan.preset);
  const bool isInVain = preset.isOk() && predictorOf(*preset).predictor == Predictor::kPaths &&
                        plan.prefetches.empty() && !plan.forecast;
  return isInVain ? ", without prefetching: the routing is unknown (moec inspect lists the reasons)"
                  : "";
}

std::string plannedText(std::span<const Plan> plans) {
  std::string text;
  for (const Plan &plan : plans) {
    if (plan.budgetBytes == 0)
      continue;
    text += strCat(text.empty() ? ":" : "", "\n  ", plan.loss ? nameWithRule(plan) : plan.name,
                   ": ", formatBytes(plan.budgetBytes), " with room for ", plan.contextTokens,
                   " tokens of context");
    text += prefetchesText(plan);
    if (plan.loss)
      text += strCat(", loses ", boundedLossText(*plan.loss));
    if (plan.forecast)
      text += strCat(", ", fixed(1e9 / plan.forecast->tokenNs, 1),
                     " tokens/s expected on the calibration text");
  }
  return text;
}

} // namespace moec
