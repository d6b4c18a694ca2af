#include "compiler/plan/MissSearch.h"

#include "compiler/plan/PlanTrials.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

static uint32_t fraction(double value) {
  return static_cast<uint32_t>(std::lround(value * kFixedPointOne));
}

/// Each from safe to lossy: with every step fewer ranks are important, and less is done for the
/// others.
static std::vector<std::vector<MissRule>> ladderRules(bool hasSlices) {
  std::vector<MissRule> lower, skip, substitute;
  for (auto [waitUpTo, skipBeyond] : {std::pair(0.95, 1.0),
                                      {0.9, 1.0},
                                      {0.8, 1.0},
                                      {0.7, 1.0},
                                      {0.6, 1.0},
                                      {0.6, 0.95},
                                      {0.6, 0.9},
                                      {0.5, 0.9},
                                      {0.5, 0.8},
                                      {0.4, 0.8},
                                      {0.4, 0.7},
                                      {0.3, 0.6},
                                      {0.0, 0.5}})
    lower.push_back({.action = MissAction::kLower,
                     .waitUpTo = fraction(waitUpTo),
                     .skipBeyond = fraction(skipBeyond)});
  for (double waitUpTo : {0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4})
    skip.push_back({.action = MissAction::kSkip, .waitUpTo = fraction(waitUpTo)});
  for (auto [waitUpTo, within] : {std::pair(0.9, 0.3),
                                  {0.9, 0.6},
                                  {0.8, 0.6},
                                  {0.7, 0.6},
                                  {0.6, 0.7},
                                  {0.5, 0.7},
                                  {0.4, 0.8},
                                  {0.0, 0.8}})
    substitute.push_back({.action = MissAction::kSubstitute,
                          .waitUpTo = fraction(waitUpTo),
                          .substituteWithin = fraction(within)});
  std::vector<std::vector<MissRule>> ladders;
  if (hasSlices)
    ladders.push_back(std::move(lower));
  ladders.push_back(std::move(skip));
  ladders.push_back(std::move(substitute));
  return ladders;
}

static bool hasSlices(const PlanProblem &problem) {
  return std::ranges::any_of(problem.sliceEnds, [](const auto &layer) {
    return std::ranges::any_of(layer, [](const auto &ends) { return ends.size() > 1; });
  });
}

static bool prefetchesAnything(const PlanSettings &settings) {
  return std::ranges::any_of(settings.prefetches, [](const PrefetchRule &rule) {
    return rule.predictor != Predictor::kOff;
  });
}

/// With the rule: as planned and, if that is different, without prefetches.
static std::vector<PlanSettings> variantsOf(const PlanSettings &waiting, const MissRule &rule) {
  std::vector<PlanSettings> variants = {waiting};
  if (prefetchesAnything(waiting))
    variants.emplace_back(waiting).prefetches.clear();
  for (PlanSettings &settings : variants)
    settings.miss = rule;
  return variants;
}

Result<MissLadders> searchMisses(const PlanProblem &problem, const PlanSettings &waiting,
                                 uint32_t threads, const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(check(problem));
  PlanSettings lossy = waiting;
  lossy.miss.action = MissAction::kSkip;
  MOERT_RETURN_IF_ERROR(verify(problem, lossy));
  PlanTrials trials(problem, threads, stop);
  MissLadders found;
  found.waitingNs = trials.measure({&waiting, 1}).front();
  for (const std::vector<MissRule> &rules : ladderRules(hasSlices(problem))) {
    std::vector<PlanSettings> settings;
    for (const MissRule &rule : rules)
      for (PlanSettings &variant : variantsOf(waiting, rule))
        settings.push_back(std::move(variant));
    const std::vector<double> ns = trials.measure(settings);
    if (trials.isStopped())
      return Status(StatusCode::kInterrupted, "interrupted");
    found.tried += static_cast<uint32_t>(rules.size());
    const size_t perRule = settings.size() / rules.size();
    std::vector<MissRung> ladder;
    double slowest = found.waitingNs; // That a rung has to be faster than.
    for (size_t i = 0; i < settings.size(); i += perRule) {
      const auto first = ns.begin() + static_cast<ptrdiff_t>(i);
      const auto best = std::min_element(first, first + static_cast<ptrdiff_t>(perRule));
      if (*best > slowest * (1 - kMinRungGain))
        continue;
      slowest = *best;
      ladder.push_back({settings[static_cast<size_t>(best - ns.begin())], *best});
    }
    if (!ladder.empty())
      found.ladders.push_back(std::move(ladder));
  }
  return found;
}

} // namespace moec
