// The cache and the prefetches that suit a miss rule. Under a rule layers demand other experts than
// without it, fewer of them, and those in memory more often: the quotas, the eviction policy and
// the prefetches that are best for waiting are not best for it.
#pragma once

#include "compiler/plan/MissSearch.h"
#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PlanTrials.h"

#include <span>
#include <vector>

namespace moec {

/// For one search. Borrows the problem and the trials.
class MissTuning {
public:
  /// `waiting`: settings that wait, which verify() accepts.
  MissTuning(const PlanProblem &planned, const PlanSettings &waiting, PlanTrials &replays);

  /// The rule with the settings that wait, and, if they prefetch, without prefetches and their
  /// staging pages; of both, if the rule lowers experts, with records that are held whole, too.
  std::vector<PlanSettings> variantsOf(const moert::MissRule &rule);
  /// The fastest of some settings with a rule, changed where that makes them faster: one decision
  /// after the other, as PlanSearch.h does. What is not kSameTime faster stays.
  MissRung tune(const PlanSettings &settings);
  /// Settings with which only experts in memory take part: preset swapmoe's, with the norms of
  /// experts, and those that wait, without prefetches and with a start that fills the cache.
  std::vector<PlanSettings> maskVariants();
  /// The rung of settings that are not changed further.
  MissRung rungOf(const PlanSettings &settings, const Trial &trial) const;

private:
  bool take(std::span<const PlanSettings> variants);
  void tuneQuotas();
  void tuneEviction();
  void tuneSlices();
  void tunePrefetches();

  const PlanProblem &problem;
  const PlanSettings &waiting;
  PlanTrials &trials;
  RecipeBook book;
  PlanSettings best;
  Trial bestTrial;
};

} // namespace moec
