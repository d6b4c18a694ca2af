#include "compiler/accuracy/ArtifactPlanning.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/plan/StepCosts.h"
#include "compiler/profile/TracedRouting.h"
#include "runtime/base/Size.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Writer.h"

#include <algorithm>

using namespace moert;

namespace moec {

Result<Artifact> ArtifactPlanning::artifactOf(const WidthAssignment &assignment,
                                              const std::vector<std::string> &budgets) const {
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, artifacts.plan(assignment, {.budgets = budgets}));
  MOERT_RETURN_IF_ERROR(layOutArtifact(plan.artifact, {}));
  return std::move(plan.artifact);
}

/// Without the memory of a run, which the passes have accounted for.
static ModelFacts factsOfWeights(const Artifact &artifact) {
  ModelFootprint footprint;
  footprint.pageBytes = artifact.pageBytes;
  footprint.cache = cacheShapeOf(artifact);
  return factsOf(artifact, footprint);
}

// Refused only with the budget, so the budget is too small.
Result<std::optional<Artifact>>
ArtifactPlanning::artifactWithinBudget(const WidthAssignment &assignment) const {
  Result<Artifact> artifact = artifactOf(assignment, {budget});
  if (artifact.status().code() == StatusCode::kInvalidInput) {
    MOERT_RETURN_IF_ERROR(artifactOf(assignment, {}).status());
    return std::optional<Artifact>();
  }
  MOERT_RETURN_IF_ERROR(artifact.status());
  return std::optional(std::move(*artifact));
}

const Plan &ArtifactPlanning::planOf(const Artifact &artifact) const {
  return *std::ranges::find(artifact.plans, presetName(preset), &Plan::preset);
}

Result<std::optional<PlanProblem>> ArtifactPlanning::problemOf(const WidthAssignment &assignment) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<Artifact> artifact, artifactWithinBudget(assignment));
  if (!artifact)
    return std::optional<PlanProblem>();
  facts = factsOfWeights(*artifact);
  if (!routing) {
    MOERT_ASSIGN_OR_RETURN(routing, routingOf(learned.trace, learned.sections.paths, *facts));
  }
  inputs.emplace(*facts, *routing, device);
  inputs->takeMemoryAsAlike(); // As every decision does (PlanSearch.h).
  return std::optional(inputs->problem(poolPagesOf(planOf(*artifact))));
}

StepCosts ArtifactPlanning::costsOf(const Artifact &artifact) const {
  return stepCostsOf(factsOfWeights(artifact), device,
                     {device.cores, learned.trace.windowTokens / 2});
}

// Every grid has an artifact in which all experts have it.
Status ArtifactPlanning::timeExperts(WidthAssignment assignment) {
  const WidthSearchInput &input = artifacts.items().input();
  const std::vector<WidthItem> &items = input.problem.items;
  const size_t experts = static_cast<size_t>(std::ranges::find(input.isProbedDirectly, true) -
                                             input.isProbedDirectly.begin());
  for (uint32_t option = 0; option < items.front().options.size(); ++option) {
    std::fill_n(assignment.begin(), experts, option);
    MOERT_ASSIGN_OR_RETURN(const Artifact artifact, artifactOf(assignment, {}));
    const StepCosts costs = costsOf(artifact);
    size_t item = 0;
    for (uint32_t l = 0; l < artifact.moeLayers.size(); ++l)
      for (uint32_t e = 0; e < artifact.moeLayers[l].experts.size(); ++e) {
        TimedItem &timed = timedItems[item++];
        timed.expert = TimedItem::Place{l, e};
        timed.options.push_back({artifact.moeLayers[l].experts[e].bytes,
                                 costs.layers[l].expert.firstNs, costs.layers[l].checks.of(1)});
      }
  }
  return {};
}

// Each class alone at each width: the difference is due to the class. A budget relative to the
// experts' bytes does not depend on the other classes.
Status ArtifactPlanning::timeResidents(const WidthAssignment &assignment) {
  const WidthSearchInput &input = artifacts.items().input();
  MOERT_ASSIGN_OR_RETURN(const Size size, parseSize(budget));
  for (size_t i = 0; i < timedItems.size(); ++i) {
    if (!input.isProbedDirectly[i])
      continue;
    const std::vector<WidthOption> &options = input.problem.items[i].options;
    for (uint32_t option = 0; option < options.size(); ++option) {
      WidthAssignment other = assignment;
      other[i] = option;
      MOERT_ASSIGN_OR_RETURN(const Artifact artifact, artifactOf(other, {}));
      const StepCosts costs = costsOf(artifact);
      double ns = costs.after.firstNs;
      for (const StepCosts::Layer &layer : costs.layers)
        ns += layer.before.firstNs + layer.beside.firstNs;
      const auto bytes = size.fraction ? 0 : static_cast<uint64_t>(options[option].cost);
      timedItems[i].options.push_back({bytes, ns, 0});
    }
  }
  return {};
}

Result<bool> ArtifactPlanning::begin(const WidthAssignment &likely) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<Artifact> artifact, artifactWithinBudget(likely));
  if (!artifact)
    return false;
  timedItems.assign(likely.size(), {});
  MOERT_RETURN_IF_ERROR(timeExperts(likely));
  MOERT_RETURN_IF_ERROR(timeResidents(likely));
  return true;
}

} // namespace moec
