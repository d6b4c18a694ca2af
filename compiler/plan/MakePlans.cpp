#include "compiler/plan/MakePlans.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/Presets.h"
#include "compiler/plan/StepCosts.h"
#include "compiler/plan/VirtualExperts.h"
#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace moert;

namespace moec {

uint64_t poolPagesOf(const Plan &plan) {
  return CacheAllotment{plan.stagingPages, plan.quotaPages}.totalPages();
}

//===-- Plans and settings --------------------------------------------------------------------===//

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
  settings.miss = plan.miss;
  return settings;
}

void takeSettings(PlanSettings settings, const std::vector<std::vector<uint32_t>> &expertNorms,
                  Plan &plan) {
  plan.stagingPages = settings.allotment.stagingPages;
  plan.quotaPages = std::move(settings.allotment.quotaPages);
  plan.rules = settings.rules;
  plan.pinned = std::move(settings.pinned);
  plan.start.clear();
  for (size_t i = 0; i < settings.start.size(); ++i)
    plan.start.push_back({std::move(settings.start[i]), std::move(settings.startUses[i])});
  plan.startTokens = settings.startTokens;
  plan.prefetches = std::move(settings.prefetches);
  plan.miss = settings.miss;
  plan.expertNorms.clear();
  if (needs(plan.rules.eviction, ScoreData::kExchanges))
    plan.expertNorms = expertNorms;
}

static Plan planOf(const ModelFacts &facts, const BudgetPlan &budget, PlanSettings settings,
                   std::vector<PlanReason> reasons) {
  Plan plan;
  plan.name = budget.name;
  plan.budgetBytes = budget.budgetBytes;
  plan.prefillChunk = budget.prefillChunk;
  plan.contextTokens = budget.contextTokens;
  plan.preset = presetName(budget.preset);
  takeSettings(std::move(settings), facts.expertNorms, plan);
  plan.reasons = std::move(reasons);
  return plan;
}

/// The sets of virtual experts without a trace.
static std::vector<PlanReason> virtualExpertsOf(const ModelFacts &facts, const BudgetPlan &budget,
                                                const PlannedUse &use, const DeviceProfile *device,
                                                PlanSettings &settings) {
  std::optional<StepCosts> costs;
  std::optional<ReadTable> reads;
  if (device) {
    costs = stepCostsOf(facts, *device, {use.threads, std::max(1u, budget.contextTokens / 2)});
    reads = plannedReads(*device);
  }
  return chooseVirtualExperts(budget.preset,
                              {.recordBytes = facts.recordBytes,
                               .topK = facts.topK,
                               .expertNorms = facts.expertNorms,
                               .accuracy = facts.accuracy ? &*facts.accuracy : nullptr,
                               .pageBytes = facts.footprint.pageBytes,
                               .reads = reads ? &*reads : nullptr,
                               .costs = costs ? &*costs : nullptr},
                              settings);
}

//===-- One plan ------------------------------------------------------------------------------===//

static Plan planByRules(const ModelFacts &facts, const BudgetPlan &budget, const PlannedUse &use,
                        const DeviceProfile *device) {
  const PresetPrefetches prefetches = presetPrefetches(facts, budget, use, device);
  PlanSettings settings;
  settings.allotment = budget.allotment;
  settings.rules = rulesOf(budget.preset);
  for (const DecidedPrefetch &layer : prefetches.layers)
    settings.prefetches.push_back(layer.rule);
  std::vector<PlanReason> reasons =
      reasonsOf(budget.preset, prefetches, device ? std::string_view(device->name) : "");
  if (usesVirtualExperts(budget.preset)) {
    const std::vector<PlanReason> chosen = virtualExpertsOf(facts, budget, use, device, settings);
    reasons.insert(reasons.end(), chosen.begin(), chosen.end());
  }
  return planOf(facts, budget, std::move(settings), std::move(reasons));
}

/// Explains why a forecast's time differs from the one that the search decided by.
static std::string forecastText(const Forecast &forecast, const ReadTable &reads) {
  return strCat("; ", timeText(forecast.tokenNs), " per token is forecast on ", forecast.tokens,
                " other tokens",
                reads.reused.empty() ? ""
                                     : ", with the faster rate into recently used memory, "
                                       "which planning ignores");
}

Result<Forecast> forecastPlan(const PlanInputs &inputs, const KnownRouting &routing,
                              const DeviceProfile &device, const PlanSettings &settings) {
  MOERT_ASSIGN_OR_RETURN(Forecast forecast,
                         forecastOf(inputs.forecastProblem(settings.allotment.totalPages()),
                                    settings, routing.decidingSteps()));
  forecast.device = device.name;
  forecast.threads = device.cores;
  return forecast;
}

namespace {

/// Makes plans from a trace, one after the other. Borrows its inputs.
class TracedPlans {
public:
  TracedPlans(const ModelFacts &model, const KnownRouting &known, const DeviceProfile &on,
              uint32_t askedDepth, const PlanWatch &observer, size_t planCount)
      : facts(model), inputs(model, known, on), routing(known), device(on), hobbitDepth(askedDepth),
        watch(observer), total(planCount * kProgressPerPlan) {
    report(0);
  }

  Result<Plan> make(const BudgetPlan &budget) {
    if (watch.stop && watch.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    const uint64_t pages = budget.allotment.totalPages();
    MOERT_ASSIGN_OR_RETURN(PlannedSettings planned, settle(budget.preset, inputs.problem(pages)));
    MOERT_ASSIGN_OR_RETURN(Forecast forecast,
                           forecastPlan(inputs, routing, device, planned.settings));
    if (budget.preset == Preset::kAuto && !planned.decisions.empty())
      planned.decisions.back().reason +=
          forecastText(forecast, *inputs.forecastProblem(pages).reads);
    Plan plan = planOf(facts, budget, std::move(planned.settings), std::move(planned.decisions));
    plan.forecast = std::move(forecast);
    report(done += kProgressPerPlan);
    return plan;
  }

private:
  void report(uint64_t thousandths) const {
    if (watch.progress)
      watch.progress(thousandths, total);
  }

  Result<PlannedSettings> settle(Preset preset, const PlanProblem &problem) const {
    if (preset != Preset::kAuto)
      return planPreset(preset, problem, hobbitDepth);
    SearchOptions options{.threads = availableCores(), .stop = watch.stop};
    // The number of replays is unknown; 90 to 130 are usual.
    options.progress = [this](const SearchProgress &progress) {
      constexpr uint64_t kUsualReplays = 130;
      report(done +
             std::min(kProgressPerPlan - 1, progress.replays * kProgressPerPlan / kUsualReplays));
    };
    MOERT_ASSIGN_OR_RETURN(SearchedPlan found, searchPlan(problem, options));
    return std::move(found.planned);
  }

  const ModelFacts &facts;
  PlanInputs inputs;
  const KnownRouting &routing;
  const DeviceProfile &device;
  const uint32_t hobbitDepth;
  const PlanWatch &watch;
  uint64_t done = 0, total; // Thousandths of plans.
};

} // namespace

//===-- All plans -----------------------------------------------------------------------------===//

static void addWidthsReason(const WidthsReason &widths, Plan &plan) {
  PlanReason reason = widths.reason;
  if (widths.isTimed && plan.forecast)
    reason.origin = worseOf(reason.origin, plan.forecast->origin);
  plan.reasons.insert(plan.reasons.begin(), std::move(reason));
}

Result<std::vector<Plan>> makePlans(const ModelFacts &facts, std::span<const BudgetPlan> budgets,
                                    const PlannedUse &use, const PlanBasis &basis,
                                    const std::optional<WidthsReason> &widths,
                                    const PlanWatch &watch) {
  std::optional<TracedPlans> traced;
  if (basis.routing && basis.device)
    traced.emplace(facts, *basis.routing, *basis.device, use.hobbitDepth, watch, budgets.size());
  std::vector<Plan> plans;
  for (const BudgetPlan &budget : budgets) {
    Result<Plan> plan =
        traced ? traced->make(budget) : Result<Plan>(planByRules(facts, budget, use, basis.device));
    if (plan.status().code() == StatusCode::kInterrupted)
      return plan.status();
    if (!plan.isOk())
      return plan.status().withContext(strCat("plan '", budget.name, "'"));
    if (widths)
      addWidthsReason(*widths, *plan);
    plans.push_back(std::move(plan).value());
  }
  return plans;
}

std::optional<WidthsReason> widthsReasonOf(const Plan &plan) {
  const auto found = std::ranges::find(plan.reasons, kWidthsReason, &PlanReason::decision);
  return found == plan.reasons.end() ? std::nullopt : std::optional(WidthsReason{*found});
}

Status checkPrefetching(std::span<const Preset> presets, bool hasTrace, bool hasDevice) {
  for (Preset preset : presets) {
    if (predictorOf(preset).predictor == Predictor::kOff)
      continue;
    const std::string prefetches =
        strCat("preset ", presetName(preset), " prefetches experts, for which ");
    if (!hasTrace)
      return invalidInput(prefetches, "the artifact must contain a trace: compile it with "
                                      "--calibration-text, or give this command --calibration");
    if (!hasDevice)
      return invalidInput(prefetches, "a device profile is needed: --device");
  }
  return {};
}

} // namespace moec
