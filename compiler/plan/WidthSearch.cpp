// The order of the search: uniform widths, probes, improvements and looks. Its parts are beside it:
// WidthTrials.h (what was measured), WidthProbes.h, LimitBisection.h, WidthChallenges.h.
#include "compiler/plan/WidthSearch.h"

#include "compiler/plan/LimitBisection.h"
#include "compiler/plan/ProxyBar.h"
#include "compiler/plan/WidthChallenges.h"
#include "compiler/plan/WidthProbes.h"
#include "compiler/plan/WidthSolvers.h"
#include "compiler/plan/WidthTrials.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace moert;

namespace moec {

// A bar that was not met is raised by at least this much: a look is worth more than its bytes.
constexpr double kLeastTightening = 0.95;
// Text differs from text by no more than this; a look that says more is taken for noise.
constexpr double kMostBarShift = 4;
// What one look says of the bar for another assignment is right to within a few hundredths.
constexpr double kBarMargin = 0.97;
constexpr uint32_t kMeasurementsBeforeLooking = 3;
constexpr uint32_t kMeasurementsPerBisection = 7;
constexpr uint32_t kMeasurementsInSeconds = 4;

namespace {

/// One search from its uniform widths to its last look. Borrows the input and the judge; one
/// thread.
class WidthSearch {
public:
  WidthSearch(const WidthSearchInput &given, WidthJudge &measuring)
      : input(given), judge(measuring), trials(given, measuring), proxyBar(given.target) {
    outcome.estimates = given.problem;
  }

  Result<WidthSearchOutcome> run();

private:
  Status search();
  Status measureUniforms();
  Status bisect(uint32_t most);
  Status beginTiming();
  Status bisectInSeconds(uint32_t most);
  Status improveInSeconds();
  Status improve(uint32_t most);
  void moveBar(const MeasuredWidths &widths, const Measurement &acceptance);
  Result<bool> look();
  Status lookAndImprove();

  const WidthSearchInput &input;
  WidthJudge &judge;
  WidthTrials trials;
  ProxyBar proxyBar; // Where there is a first bar.
  uint32_t probeBits = 0;
  WidthAssignment lastLook;
  WidthSearchOutcome outcome;
};

} // namespace

static Status checkInput(const WidthSearchInput &input) {
  MOERT_RETURN_IF_ERROR(check(input.problem));
  size_t items = input.problem.items.size();
  if (input.groups.size() != items || input.isProbedDirectly.size() != items)
    return invalidInput("groups for ", input.groups.size(), " of ", items, " items");
  if (!input.others.empty() && input.others.size() != items)
    return invalidInput("options for ", input.others.size(), " of ", items, " items");
  for (size_t i = 0; i < input.others.size(); ++i)
    if (input.others[i] >= input.problem.items[i].options.size())
      return invalidInput("option ", input.others[i], " of ", input.problem.items[i].name,
                          ", which has ", input.problem.items[i].options.size());
  if (!(input.target > 0) || !std::isfinite(input.target))
    return invalidInput("a target of ", input.target, ", expected more than 0");
  if (input.firstBar && (!(*input.firstBar > 0) || !std::isfinite(*input.firstBar)))
    return invalidInput("a first bar of ", *input.firstBar, ", expected more than 0");
  if (input.maxMeasurements == 0)
    return invalidInput("0 measurements, expected at least 1");
  if (std::find(input.isProbedDirectly.begin(), input.isProbedDirectly.end(), false) ==
      input.isProbedDirectly.end())
    return invalidInput("all ", items, " items are probed directly, expected one that is not");
  for (uint32_t group : input.groups)
    if (group >= items)
      return invalidInput("group ", group, " of ", items, " items, expected them without gaps");
  return {};
}

Status WidthSearch::measureUniforms() {
  const WidthAssignment widest = trials.firstOthers();
  for (uint32_t bits : trials.uniformWidths()) {
    probeBits = bits;
    WidthAssignment assignment = trials.uniform(bits, widest);
    MOERT_RETURN_IF_ERROR(trials.measure(kUniformSolver, assignment).status());
    if (const MeasuredWidths *known = trials.find(assignment); !known || !trials.meets(*known))
      break;
  }
  return {};
}

Status WidthSearch::bisect(uint32_t most) {
  for (uint32_t i = 0; i < most; ++i) {
    std::optional<double> limit = nextLimit(trials, outcome.estimates, kKnapsackSolver);
    if (!limit)
      return {};
    WidthProblem problem = outcome.estimates;
    problem.lossLimit = *limit;
    MOERT_ASSIGN_OR_RETURN(WidthAssignment assignment, solveKnapsack(problem));
    MOERT_RETURN_IF_ERROR(verify(problem, assignment));
    if (trials.find(assignment))
      return {};
    MOERT_ASSIGN_OR_RETURN(bool isMeasured, trials.measure(kKnapsackSolver, assignment, *limit));
    if (!isMeasured)
      return {};
  }
  return {};
}

// Before, the cheapest is the one of bytes, whose plan is likely to be near the outcome's.
Status WidthSearch::beginTiming() {
  const MeasuredWidths *likely = trials.cheapest();
  if (!likely || trials.isTimed())
    return {};
  MOERT_ASSIGN_OR_RETURN(bool hasBegun, input.times->begin(likely->assignment));
  if (!hasBegun)
    return {};
  MOERT_RETURN_IF_ERROR(trials.beginTiming(*input.times));
  outcome.isTimed = true;
  if (const MeasuredWidths *looked = trials.find(outcome.best.assignment))
    outcome.best = *looked;
  return {};
}

// Losses are as estimated, whoever chose the widths, so that the first limit is where the cheapest
// of all has met the bar.
Status WidthSearch::bisectInSeconds(uint32_t most) {
  const MeasuredWidths *best = trials.cheapest();
  if (!best)
    return {};
  std::optional<double> limit =
      std::isnan(best->limit) ? totalsOf(outcome.estimates, best->assignment).loss : best->limit;
  for (uint32_t i = 0; i < most && limit; ++i) {
    WidthProblem problem = outcome.estimates;
    problem.lossLimit = *limit;
    MOERT_ASSIGN_OR_RETURN(WidthAssignment assignment, solveInSeconds(problem, *input.times));
    MOERT_RETURN_IF_ERROR(verify(problem, assignment));
    const MeasuredWidths *known = trials.find(assignment);
    if (known && (i > 0 || known->solver != kSecondsSolver))
      return {};
    MOERT_ASSIGN_OR_RETURN(bool isMeasured, trials.measure(kSecondsSolver, assignment, *limit));
    if (!isMeasured)
      return {};
    limit = nextLimit(trials, outcome.estimates, kSecondsSolver);
  }
  return {};
}

Status WidthSearch::improveInSeconds() {
  if (!input.times)
    return {};
  MOERT_RETURN_IF_ERROR(beginTiming());
  if (trials.isTimed() &&
      (input.solver == SolverChoice::kAuto || input.solver == SolverChoice::kKnapsack))
    return bisectInSeconds(kMeasurementsInSeconds);
  return {};
}

// Looks for something cheaper than what met the bar so far.
Status WidthSearch::improve(uint32_t most) {
  switch (input.solver) {
  case SolverChoice::kAuto:
  case SolverChoice::kKnapsack:
    return bisect(most);
  case SolverChoice::kEdgeMoe:
    MOERT_RETURN_IF_ERROR(measureUniforms()); // The bar may have risen beyond those measured.
    return bisectEdgeMoe(trials, outcome.estimates, most);
  case SolverChoice::kUniform:
    return measureUniforms();
  }
  return {};
}

// Whether losses on unseen text are larger or smaller than on the search's is seen by looking, and
// the bar on the search's text moves accordingly: up where a look failed, down where one found
// room.
void WidthSearch::moveBar(const MeasuredWidths &widths, const Measurement &acceptance) {
  if (input.firstBar) {
    trials.setBar(proxyBar.after(widths.measurement.upperBound, acceptance.upperBound));
    return;
  }
  double ratio = acceptance.upperBound / std::max(widths.measurement.upperBound, 1e-9);
  double bar = input.target / std::clamp(ratio, 1 / kMostBarShift, kMostBarShift) * kBarMargin;
  if (acceptance.upperBound > input.target)
    bar = std::min(bar, widths.measurement.upperBound * kLeastTightening);
  trials.setBar(bar);
}

// False: nothing that was not looked at yet meets the bar, or would save anything, or no look can
// meet the target.
Result<bool> WidthSearch::look() {
  const MeasuredWidths *best = trials.cheapest();
  // What a look says of another loss elsewhere is too rough to spare the one that is likeliest.
  if (!best && input.firstBar && !outcome.isMet)
    best = trials.safest();
  if (!best || outcome.looks == kMaxLooks)
    return false;
  if (outcome.looks > 0 && best->assignment == lastLook)
    return false;
  if (outcome.isMet && !trials.isClearlyCheaper(*best, outcome.best))
    return false;
  MeasuredWidths widths = *best;
  lastLook = widths.assignment;
  ++outcome.looks;
  MOERT_ASSIGN_OR_RETURN(Measurement acceptance, judge.accept(widths.assignment));
  const bool isAccepted = acceptance.upperBound <= input.target;
  if (isAccepted || !outcome.isMet) {
    outcome.best = widths;
    outcome.acceptance = acceptance;
  }
  outcome.isMet = outcome.isMet || isAccepted;
  moveBar(widths, acceptance);
  return acceptance.leastBound <= input.target;
}

// The first look is at what a few measurements have found, to learn where the bar has to be; the
// others are at the best for that bar.
Status WidthSearch::lookAndImprove() {
  MOERT_RETURN_IF_ERROR(improve(kMeasurementsBeforeLooking));
  bool hasLooked = true;
  while (hasLooked) {
    MOERT_ASSIGN_OR_RETURN(hasLooked, look());
    if (!hasLooked || outcome.looks == kMaxLooks)
      return {};
    MOERT_RETURN_IF_ERROR(improve(kMeasurementsPerBisection));
    if (input.solver == SolverChoice::kAuto && outcome.looks == 1)
      MOERT_RETURN_IF_ERROR(challengeBest(trials, outcome.estimates));
    MOERT_RETURN_IF_ERROR(improveInSeconds());
  }
  return {};
}

Status WidthSearch::search() {
  MOERT_RETURN_IF_ERROR(measureUniforms());
  if (!trials.cheapest()) {
    // Of the search's text nothing is good enough; unseen text may be kinder.
    trials.setBar(trials.safest()->measurement.upperBound);
    MOERT_ASSIGN_OR_RETURN(bool hasLooked, look());
    if (!hasLooked || !outcome.isMet)
      return {};
    MOERT_RETURN_IF_ERROR(measureUniforms());
  }
  if (input.solver != SolverChoice::kUniform) {
    MOERT_ASSIGN_OR_RETURN(outcome.estimates, probeGroups(trials, probeBits));
  }
  return lookAndImprove();
}

Result<WidthSearchOutcome> WidthSearch::run() {
  MOERT_RETURN_IF_ERROR(search());
  outcome.measured = trials.measured();
  outcome.measurements = trials.measurements();
  if (const MeasuredWidths *fewest = trials.fewestBytes(); fewest && outcome.isTimed)
    outcome.fewestBytes = *fewest;
  return std::move(outcome);
}

Result<WidthSearchOutcome> searchWidths(const WidthSearchInput &input, WidthJudge &judge) {
  MOERT_RETURN_IF_ERROR(checkInput(input));
  return WidthSearch(input, judge).run();
}

} // namespace moec
