#include "compiler/plan/MissSearch.h"

#include "compiler/plan/MissTuning.h"
#include "compiler/plan/PlanTrials.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

using namespace moert;

namespace moec {

static uint32_t fraction(double value) {
  return static_cast<uint32_t>(std::lround(value * kFixedPointOne));
}

static constexpr double kScores[] = {0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0};

static std::vector<MissRule> lowerRules() {
  std::vector<MissRule> rules;
  for (double waitUpTo : kScores)
    for (double skipBeyond : {1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5})
      if (waitUpTo < skipBeyond)
        rules.push_back({.action = MissAction::kLower,
                         .waitUpTo = fraction(waitUpTo),
                         .skipBeyond = fraction(skipBeyond)});
  return rules;
}

static std::vector<MissRule> skipRules() {
  std::vector<MissRule> rules;
  for (double waitUpTo :
       {0.95, 0.925, 0.9, 0.875, 0.85, 0.825, 0.8, 0.775, 0.75, 0.7, 0.65, 0.6, 0.5, 0.4, 0.2})
    rules.push_back({.action = MissAction::kSkip, .waitUpTo = fraction(waitUpTo)});
  return rules;
}

static std::vector<MissRule> substituteRules() {
  std::vector<MissRule> rules;
  for (double waitUpTo : kScores)
    for (double within : {0.3, 0.5, 0.7, 0.9})
      rules.push_back({.action = MissAction::kSubstitute,
                       .waitUpTo = fraction(waitUpTo),
                       .substituteWithin = fraction(within)});
  return rules;
}

namespace {

/// The ladders of one search. Borrows its inputs.
class Ladders {
public:
  Ladders(const PlanProblem &problem, const PlanSettings &waiting, PlanTrials &replays)
      : trials(replays), tuning(problem, waiting, replays),
        waitingNs(replays.measure({&waiting, 1}).front()) {}

  double timeOfWaiting() const { return waitingNs; }
  /// May be empty.
  std::vector<MissRung> make(const std::vector<MissRule> &rules, bool endsWithMask);

private:
  std::vector<MissRung> untuned(const std::vector<MissRule> &rules);
  std::vector<MissRung> climbable(std::vector<MissRung> rungs) const;

  PlanTrials &trials;
  MissTuning tuning;
  double waitingNs;
};

/// Each rule with the faster of its variants.
std::vector<MissRung> Ladders::untuned(const std::vector<MissRule> &rules) {
  std::vector<PlanSettings> settings;
  for (const MissRule &rule : rules)
    std::ranges::move(tuning.variantsOf(rule), std::back_inserter(settings));
  const std::vector<Trial> tried = trials.tryAll(settings);
  const size_t perRule = settings.size() / rules.size();
  std::vector<MissRung> rungs;
  for (size_t i = 0; i < settings.size(); i += perRule) {
    size_t best = i;
    for (size_t other = i + 1; other < i + perRule; ++other)
      if (tried[other].tokenNs < tried[best].tokenNs)
        best = other;
    rungs.push_back(tuning.rungOf(settings[best], tried[best]));
  }
  return rungs;
}

/// Those that are kMinRungStep faster than every one that displaces less, and kMinRungGain faster
/// than waiting.
std::vector<MissRung> Ladders::climbable(std::vector<MissRung> rungs) const {
  std::ranges::stable_sort(rungs, {}, &MissRung::displacedWeight);
  double slowest = waitingNs; // That a rung has to be faster than.
  std::vector<MissRung> ladder;
  for (MissRung &rung : rungs) {
    if (rung.tokenNs > slowest * (1 - (ladder.empty() ? kMinRungGain : kMinRungStep)))
      continue;
    slowest = rung.tokenNs;
    ladder.push_back(std::move(rung));
  }
  return ladder;
}

std::vector<MissRung> Ladders::make(const std::vector<MissRule> &rules, bool endsWithMask) {
  std::vector<MissRung> tuned;
  for (const MissRung &rung : climbable(untuned(rules)))
    if (!trials.isStopped())
      tuned.push_back(tuning.tune(rung.settings));
  if (endsWithMask) {
    const std::vector<PlanSettings> masked = tuning.maskVariants();
    const std::vector<Trial> tried = trials.tryAll(masked);
    for (size_t i = 0; i < masked.size(); ++i)
      tuned.push_back(tuning.rungOf(masked[i], tried[i]));
  }
  return climbable(std::move(tuned));
}

} // namespace

Result<MissLadders> searchMisses(const PlanProblem &problem, const PlanSettings &waiting,
                                 uint32_t threads, const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(check(problem));
  PlanSettings lossy = waiting;
  lossy.miss.action = MissAction::kSkip;
  MOERT_RETURN_IF_ERROR(verify(problem, lossy));
  PlanTrials trials(problem, threads, stop);
  Ladders ladders(problem, waiting, trials);
  MissLadders found;
  found.waitingNs = ladders.timeOfWaiting();
  std::vector<std::vector<MissRule>> kinds;
  if (hasSlices(problem))
    kinds.push_back(lowerRules());
  kinds.push_back(skipRules());
  kinds.push_back(substituteRules());
  for (const std::vector<MissRule> &rules : kinds) {
    const bool endsWithMask = rules.front().action == MissAction::kSubstitute;
    std::vector<MissRung> ladder = ladders.make(rules, endsWithMask);
    if (trials.isStopped())
      return Status(StatusCode::kInterrupted, "interrupted");
    found.tried += static_cast<uint32_t>(rules.size()) + endsWithMask;
    if (!ladder.empty())
      found.ladders.push_back(std::move(ladder));
  }
  return found;
}

} // namespace moec
