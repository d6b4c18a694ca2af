#include "compiler/planning/VirtualExpertProfile.h"

#include "compiler/plan/GeneticAllotment.h"
#include "compiler/plan/MakePlans.h"
#include "runtime/base/RandomStream.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

static double partInQuotas(const CacheShape &shape, const CacheAllotment &allotment) {
  double pages = 0;
  for (uint32_t quota : allotment.quotaPages)
    pages += quota;
  return pages / static_cast<double>(largestPoolPages(shape));
}

static double within(RandomStream &random, double least, double most) {
  return least + random.nextUnit() * (most - least);
}

std::vector<Plan> randomConfigurations(const ModelFacts &facts, const PlanProblem &inputs,
                                       std::span<const BudgetPlan> budgets, uint32_t configurations,
                                       uint64_t seed) {
  const CacheShape &shape = facts.footprint.cache;
  double least = 1, most = 0;
  for (const BudgetPlan &budget : budgets) {
    const double part = partInQuotas(shape, budget.allotment);
    least = std::min(least, part / 2);
    most = std::max(most, std::min(1.0, part * 1.5));
  }
  RandomStream random(seed);
  std::vector<Plan> plans;
  for (uint32_t i = 0; i < configurations; ++i) {
    PlanSettings settings;
    settings.rules = rulesOf(Preset::kSwapMoe);
    settings.allotment.stagingPages = budgets.front().allotment.stagingPages;
    const double part = within(random, least, most);
    for (const CacheShape::Layer &layer : shape.layers) {
      const double experts = layer.experts * part * within(random, 0.25, 1.75);
      const auto count =
          static_cast<uint32_t>(std::lround(std::clamp(experts, 1.0, double(layer.experts))));
      settings.allotment.quotaPages.push_back(static_cast<uint32_t>(pagesOf(layer, count)));
    }
    (void)chooseVirtualExperts(Preset::kSwapMoe, inputs, settings);
    settings.miss = missRuleOf(Preset::kSwapMoe);
    Plan &plan = plans.emplace_back();
    plan.name = strCat("configuration ", i + 1, " of ", configurations);
    plan.contextTokens = budgets.front().contextTokens;
    plan.prefillChunk = budgets.front().prefillChunk;
    takeSettings(std::move(settings), facts.expertNorms, plan);
  }
  return plans;
}

Result<AccuracyModel> profileAccuracy(PlanJudge &judge, const ModelFacts &facts,
                                      std::span<const Plan> configurations,
                                      const Session &session) {
  std::vector<AccuracySample> samples;
  for (const Plan &plan : configurations) {
    MOERT_ASSIGN_OR_RETURN(const SampleScore score, judge.scoreOf(plan));
    const std::optional<double> nats = valueOf(score, LossMetric::kKl);
    if (!nats || !std::isfinite(*nats))
      return invalidInput("--profile-text: ", plan.name,
                          " has no loss that is a number, expected texts of the model's language");
    samples.push_back(
        {inMemoryOf(facts.footprint.cache, {plan.stagingPages, plan.quotaPages}), *nats});
  }
  AccuracyModel model = AccuracyModel::fit(samples);
  sayTo(session, strCat("accuracy model of virtual experts: fitted to ", samples.size(),
                        " configurations, explains ", std::lround(100 * model.heldOutR2()),
                        "% of the variance of held-out ones"));
  return model;
}

} // namespace moec
