#include "compiler/planning/RefinePlans.h"

#include "compiler/emit/PlanReasonOf.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/Presets.h"
#include "compiler/planning/PlanInputs.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"

#include <algorithm>

using namespace moert;

namespace moec {

uint64_t poolPagesOf(const Plan &plan) {
  return CacheAllotment{plan.stagingPages, plan.quotaPages}.totalPages();
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
    text += strCat(text.empty() ? ":" : "", "\n  ", plan.name, ": ", formatBytes(plan.budgetBytes),
                   " with room for ", plan.contextTokens, " tokens of context");
    text += prefetchesText(plan);
    if (plan.forecast)
      text += strCat(", ", fixed(1e9 / plan.forecast->tokenNs, 1),
                     " tokens/s expected on the calibration text");
  }
  return text;
}

PlanSettings settingsOf(const Plan &plan) {
  PlanSettings settings;
  settings.allotment = {plan.stagingPages, plan.quotaPages};
  settings.rules = plan.rules;
  settings.pinned = plan.pinned;
  for (const LayerStart &start : plan.start) {
    settings.start.push_back(start.experts);
    settings.startUses.push_back(start.uses);
  }
  settings.startTokens = plan.startTokens;
  settings.prefetches = plan.prefetches;
  return settings;
}

static void take(PlannedSettings planned, Plan &plan) {
  PlanSettings &settings = planned.settings;
  plan.stagingPages = settings.allotment.stagingPages;
  plan.quotaPages = std::move(settings.allotment.quotaPages);
  plan.rules = settings.rules;
  plan.pinned = std::move(settings.pinned);
  plan.start.clear();
  for (size_t i = 0; i < settings.start.size(); ++i)
    plan.start.push_back({std::move(settings.start[i]), std::move(settings.startUses[i])});
  plan.startTokens = settings.startTokens;
  plan.prefetches = std::move(settings.prefetches);
  std::erase_if(plan.reasons,
                [](const PlanReason &reason) { return reason.decision != kWidthsReason; });
  for (PlanDecision &decision : planned.decisions)
    plan.reasons.push_back(planReasonOf(std::move(decision)));
}

static Forecast asForecast(const PlanForecast &from, const DeviceProfile &device) {
  Forecast forecast;
  forecast.device = device.name;
  forecast.threads = device.cores;
  forecast.tokens = from.tokens;
  forecast.traceTokens = from.traceTokens;
  forecast.tokenNs = from.tokenNs;
  forecast.medianNs = from.medianNs;
  forecast.slowNs = from.slowNs;
  forecast.hitRate = from.hitRate;
  forecast.readyRate = from.readyRate;
  forecast.bytesPerToken = from.bytesPerToken;
  forecast.prefetchRecall = from.prefetchRecall;
  forecast.prefetchPrecision = from.prefetchPrecision;
  forecast.leastBytesPerToken = from.leastBytesPerToken;
  forecast.boundNs = from.boundNs;
  forecast.origin = from.origin;
  return forecast;
}

// Progress is counted in thousandths of a plan.
static constexpr uint64_t kPerPlan = 1000;

/// Estimates the progress of a search after a number of replays. The total is unknown; 90 to 130
/// are usual.
static uint64_t progressAfter(uint32_t replays) {
  constexpr uint64_t kUsualReplays = 130;
  return std::min(kPerPlan - 1, replays * kPerPlan / kUsualReplays);
}

/// Explains why a forecast's time differs from the one that the search decided by.
static std::string forecastText(const PlanForecast &forecast, const ReadTable &reads) {
  return strCat("; ", fixed(forecast.tokenNs / 1e6, 2), " ms per token is forecast on ",
                forecast.tokens, " other tokens",
                reads.reused.empty() ? ""
                                     : ", with the faster rate into recently used memory, "
                                       "which planning ignores");
}

static Result<PlannedSettings> settle(const PlanProblem &problem, Preset preset,
                                      const Session &session, uint64_t done) {
  if (preset != Preset::kAuto)
    return planPreset(preset, problem);
  SearchOptions options{.threads = availableCores(), .stop = session.stop};
  options.progress = [&](const SearchProgress &progress) {
    if (session.progress)
      session.progress->advanceTo(done + progressAfter(progress.replays));
  };
  MOERT_ASSIGN_OR_RETURN(SearchedPlan found, searchPlan(problem, options));
  return std::move(found.planned);
}

static Status refine(const PlanInputs &inputs, const DeviceProfile &device, Preset preset,
                     const Session &session, uint64_t done, Plan &plan) {
  const PlanProblem problem = inputs.problem(poolPagesOf(plan));
  MOERT_ASSIGN_OR_RETURN(PlannedSettings planned, settle(problem, preset, session, done));
  MOERT_ASSIGN_OR_RETURN(const PlanForecast forecast, inputs.forecast(planned.settings));
  plan.forecast = asForecast(forecast, device);
  if (preset == Preset::kAuto && !planned.decisions.empty())
    planned.decisions.back().reason += forecastText(forecast, *problem.reads);
  take(std::move(planned), plan);
  return {};
}

Status checkPrefetching(const Artifact &artifact, bool hasTrace, bool hasDevice) {
  for (const Plan &plan : artifact.plans) {
    MOERT_ASSIGN_OR_RETURN(Preset preset, presetOf(plan.preset));
    if (predictorOf(preset).predictor == Predictor::kOff)
      continue;
    const std::string prefetches =
        strCat("preset ", plan.preset, " prefetches experts, for which ");
    if (!hasTrace)
      return invalidInput(prefetches, "the artifact must contain a trace: compile it with "
                                      "--calibration-text, or give this command --calibration");
    if (!hasDevice)
      return invalidInput(prefetches, "a device profile is needed: --device");
    if (artifact.moeLayers.size() > 1 && !canPrefetch(artifact, 1, 1))
      return invalidInput(prefetches,
                          "the artifact's program has no predict instruction: compile it again");
  }
  return {};
}

Status refinePlans(Artifact &artifact, const PlanBasis &basis, const Session &session) {
  MOERT_RETURN_IF_ERROR(
      checkPrefetching(artifact, basis.trace != nullptr, basis.device != nullptr));
  if (!basis.trace || !basis.device)
    return {};
  const StepUse use = tracedUse(*basis.device, *basis.trace);
  MOERT_ASSIGN_OR_RETURN(PlanInputs inputs, PlanInputs::create(artifact, *basis.trace, basis.paths,
                                                               *basis.device, use));
  if (session.progress)
    session.progress->beginCounting("planning", "plans", kPerPlan, kPerPlan * artifact.plans.size(),
                                    0);
  uint64_t done = 0;
  for (Plan &plan : artifact.plans) {
    if (session.stop && session.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    MOERT_ASSIGN_OR_RETURN(Preset preset, presetOf(plan.preset));
    Status refined = refine(inputs, *basis.device, preset, session, done, plan);
    if (refined.code() == StatusCode::kInterrupted)
      return refined;
    MOERT_RETURN_IF_ERROR(std::move(refined).withContext(strCat("plan '", plan.name, "'")));
    if (session.progress)
      session.progress->advanceTo(done += kPerPlan);
  }
  if (session.progress)
    session.progress->end();
  return {};
}

} // namespace moec
