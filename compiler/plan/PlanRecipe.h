// Few numbers of which a plan's settings follow: what the search turns. Settings name quotas, start
// and prefetches layer by layer; a recipe derives them.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/QuotaCurves.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moec {

struct PlanRecipe {
  moert::CacheRules rules = {.eviction = moert::EvictionPolicy::kReuseDistance};
  uint32_t prefetchRecords = 0; // Staging pages for so many records, beside those for the demand.
  bool hasCurvedQuotas = false; // By QuotaCurves.h; otherwise even.
  uint32_t pins = 0;            // The most popular experts per layer.
  bool hasStart = false;        // With the most popular experts.
  /// For every layer that can be prefetched so; a layer nearer to the first one than `ahead` is
  /// prefetched from the first one, and no more candidates are looked at than are known.
  moert::PrefetchRule prefetch;
  std::vector<bool> isSilent; // Per layer: not prefetched all the same; empty: none.
  moert::MissRule miss = {};  // Curved quotas are those of the demand under the rule.
  friend bool operator==(const PlanRecipe &, const PlanRecipe &) = default;
};

/// Makes settings of recipes, with what the trace's first steps say: so many of popularity, so many
/// of quotas. Borrows the problem; one thread uses it, and it may use some.
class RecipeBook {
public:
  RecipeBook(const PlanProblem &planned, size_t popularSteps, size_t quotaSteps,
             uint32_t threadCount = 1);

  /// verify() may still refuse them, where the pool is too small for the recipe.
  PlanSettings settingsOf(const PlanRecipe &recipe);

  const moert::CacheShape &cacheShape() const { return shape; }

  moert::CacheAllotment allotmentOf(const PlanRecipe &recipe);
  /// The allotment with as many pages in quotas, divided by curves.
  moert::CacheAllotment curved(moert::CacheAllotment allotment, moert::EvictionPolicy eviction,
                               const moert::MissRule &miss);
  /// Replaces the start: as many popular experts of each layer as its quota holds; with one pool,
  /// an even part of each.
  void setStart(PlanSettings &settings) const;

private:
  const std::vector<QuotaCurve> &curvesOf(const CurveSubject &subject);

  const PlanProblem &problem;
  size_t curveSteps;
  uint32_t threads;
  moert::CacheShape shape;
  uint32_t tokens = 0;                      // That the popularity is of.
  std::vector<std::vector<uint32_t>> uses;  // [layer][expert]
  std::vector<std::vector<uint32_t>> byUse; // [layer]: experts, the most popular first.
  std::vector<std::pair<CurveSubject, std::vector<QuotaCurve>>> curves;
};

} // namespace moec
