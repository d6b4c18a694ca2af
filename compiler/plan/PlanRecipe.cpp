#include "compiler/plan/PlanRecipe.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <numeric>

using namespace moert;

namespace moec {

RecipeBook::RecipeBook(const PlanProblem &planned, size_t popularSteps, size_t quotaSteps,
                       uint32_t threadCount)
    : problem(planned), curveSteps(quotaSteps), threads(threadCount), shape(shapeOf(planned)) {
  const RoutingTrace &trace = *problem.trace;
  const size_t layers = trace.layerExperts.size();
  const size_t passes = std::min(popularSteps * layers, trace.passes.size());
  for (uint32_t experts : trace.layerExperts)
    uses.emplace_back(experts, 0);
  for (size_t p = 0; p < passes; ++p) {
    const RoutingPass &pass = trace.passes[p];
    tokens += pass.layer == 0 ? pass.tokens : 0;
    for (uint64_t i = pass.begin; i < pass.end; ++i)
      uses[pass.layer][trace.wanted[i]] += trace.uses[i];
  }
  for (const std::vector<uint32_t> &layer : uses) {
    std::vector<uint32_t> &order = byUse.emplace_back(layer.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return layer[a] > layer[b]; });
  }
}

const std::vector<QuotaCurve> &RecipeBook::curvesOf(const CurveSubject &subject) {
  for (const auto &[known, curvesOfIt] : curves)
    if (known == subject)
      return curvesOfIt;
  return curves.emplace_back(subject, quotaCurves(problem, subject, curveSteps, threads)).second;
}

CacheAllotment RecipeBook::allotmentOf(const PlanRecipe &recipe) {
  const uint64_t record = smallestPoolPages(shape);
  const uint64_t prefetchPages =
      std::min(recipe.prefetchRecords * record, problem.poolPages - record);
  CacheAllotment allotment = allotCache(shape, problem.poolPages - prefetchPages);
  if (recipe.hasCurvedQuotas)
    allotment = curved(std::move(allotment), recipe.rules.eviction, recipe.miss);
  allotment.stagingPages += static_cast<uint32_t>(prefetchPages);
  return allotment;
}

CacheAllotment RecipeBook::curved(CacheAllotment allotment, EvictionPolicy eviction,
                                  const MissRule &miss) {
  uint64_t working = 0, quotas = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    working = std::max(working, layer.workingPages);
  for (uint32_t pages : allotment.quotaPages)
    quotas += pages;
  // The curves hardly depend on what passes through, so that one set of them serves all recipes.
  allotment.quotaPages =
      quotasOfCurves(shape, curvesOf({eviction, miss, working}),
                     working - std::min<uint64_t>(working, allotment.stagingPages), quotas);
  return allotment;
}

void RecipeBook::setStart(PlanSettings &settings) const {
  settings.start.clear();
  settings.startUses.clear();
  settings.startTokens = std::max(1u, tokens);
  for (size_t l = 0; l < byUse.size(); ++l) {
    std::vector<uint32_t> &start = settings.start.emplace_back();
    std::vector<uint32_t> &startUses = settings.startUses.emplace_back();
    uint64_t left = settings.allotment.quotaPages[l];
    for (uint32_t expert : byUse[l]) {
      const uint64_t pages = divideUp(problem.recordBytes[l][expert], problem.pageBytes);
      if (pages > left)
        continue;
      left -= pages;
      start.push_back(expert);
      startUses.push_back(std::min(uses[l][expert], settings.startTokens));
    }
  }
}

PlanSettings RecipeBook::settingsOf(const PlanRecipe &recipe) {
  PlanSettings settings;
  settings.rules = recipe.rules;
  settings.allotment = allotmentOf(recipe);
  setMiss(recipe.miss, settings);
  if (recipe.pins > 0)
    for (const std::vector<uint32_t> &order : byUse)
      settings.pinned.emplace_back(order.begin(),
                                   order.begin() + std::min<ptrdiff_t>(recipe.pins, ssize(order)));
  if (recipe.hasStart)
    setStart(settings);
  if (recipe.prefetch.predictor == Predictor::kOff)
    return settings;
  for (uint32_t layer = 0; layer < byUse.size(); ++layer) {
    PrefetchRule rule = recipe.prefetch;
    rule.ahead = static_cast<uint8_t>(std::min<uint32_t>(rule.ahead, layer));
    const uint32_t known = knownCandidates(problem, rule, layer);
    const bool isSilent = !recipe.isSilent.empty() && recipe.isSilent[layer];
    if (known == 0 || isSilent) {
      settings.prefetches.emplace_back();
      continue;
    }
    rule.candidates = static_cast<uint16_t>(std::min<uint32_t>(rule.candidates, known));
    settings.prefetches.push_back(rule);
  }
  return settings;
}

} // namespace moec
