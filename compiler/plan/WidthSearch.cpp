// The order of the search: uniform widths, probes, improvements and acceptance tests. Its parts are
// beside it: WidthTrials.h (what was measured), WidthProbes.h, LimitBisection.h, WidthChallenges.h,
// AcceptanceTests.h.
#include "compiler/plan/WidthSearch.h"

#include "compiler/plan/LimitBisection.h"
#include "compiler/plan/WidthChallenges.h"
#include "compiler/plan/WidthProbes.h"
#include "compiler/plan/WidthSolvers.h"
#include "compiler/plan/WidthTrials.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace moert;

namespace moec {

constexpr uint32_t kMeasurementsAtCenter = 7;
constexpr uint32_t kMeasurementsInSeconds = 4;
// Around the center the neighbours are known, so that few more find the limit: half as many where
// as many again follow in seconds, or where thresholds are coarse, as predictions have no spread.
constexpr uint32_t kMeasurementsPerThreshold = 4;
constexpr uint32_t kMeasurementsPerReserve = 4;

namespace {

/// One search from its uniform widths to its last test. Borrows the input and the judge; one
/// thread.
class WidthSearch {
public:
  WidthSearch(const WidthSearchInput &given, WidthJudge &measuring)
      : input(given), judge(measuring), trials(given, measuring) {
    outcome.estimates = given.problem;
  }

  Result<WidthSearchOutcome> run();

private:
  Status search();
  Result<bool> measureUniform(double bits);
  /// The narrowest whole width that meets the threshold; 0: none does. Sets probeBits.
  Result<double> fewestWholeBits();
  Status measureUniforms();
  Status bisect(uint32_t most);
  Status beginTiming();
  Status bisectInSeconds(uint32_t most);
  Status improveInSeconds(uint32_t most);
  Status improve(uint32_t most);
  Status improveAtCenter();
  Result<TestResult> test(AcceptanceChain chain, const MeasuredWidths &widths);
  Result<bool> testFrom(AcceptanceChain chain, double center, double above, double below);
  Status runChains(double center);
  Status searchWithoutCandidate();

  const WidthSearchInput &input;
  WidthJudge &judge;
  WidthTrials trials;
  double probeBits = 0;
  double passedThreshold = 0; // That of the last test that passed.
  bool isOutOfReach = false;
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
  if (input.firstThreshold &&
      (!(*input.firstThreshold > 0) || !std::isfinite(*input.firstThreshold)))
    return invalidInput("a first threshold of ", *input.firstThreshold, ", expected more than 0");
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

// False: it does not meet the threshold, or no measurements are left.
Result<bool> WidthSearch::measureUniform(double bits) {
  const WidthAssignment assignment = trials.uniform(bits, trials.firstOthers());
  MOERT_RETURN_IF_ERROR(trials.measure(kUniformSolver, assignment).status());
  const MeasuredWidths *known = trials.find(assignment);
  return known && trials.meets(*known);
}

// From the middle down to the first whole width that loses too much, or up to the first that does
// not: the other widths need no measurement.
Result<double> WidthSearch::fewestWholeBits() {
  const std::vector<double> whole = trials.wholeWidths();
  size_t width = whole.size() / 2;
  MOERT_ASSIGN_OR_RETURN(bool isMet, measureUniform(whole[width]));
  if (isMet) {
    while (isMet && width + 1 < whole.size()) {
      MOERT_ASSIGN_OR_RETURN(isMet, measureUniform(whole[++width]));
    }
    probeBits = whole[width];
    return isMet ? whole[width] : whole[width - 1];
  }
  while (!isMet && width > 0) {
    MOERT_ASSIGN_OR_RETURN(isMet, measureUniform(whole[--width]));
  }
  probeBits = whole[isMet ? width + 1 : 0];
  return isMet ? whole[width] : 0.0;
}

Status WidthSearch::measureUniforms() {
  MOERT_ASSIGN_OR_RETURN(const double fewestMet, fewestWholeBits());
  if (input.solver != SolverChoice::kUniform)
    return {};
  const std::vector<double> whole = trials.wholeWidths();
  for (double bits : trials.uniformWidths()) {
    if (bits >= fewestMet || std::find(whole.begin(), whole.end(), bits) != whole.end())
      continue;
    MOERT_ASSIGN_OR_RETURN(const bool isMet, measureUniform(bits));
    if (!isMet)
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
  if (const MeasuredWidths *tested = trials.find(outcome.best.assignment))
    outcome.best = *tested;
  return {};
}

// Losses are as estimated, whoever chose the widths, so that the first limit is where the cheapest
// of all has met the threshold.
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

Status WidthSearch::improveInSeconds(uint32_t most) {
  if (!input.times)
    return {};
  MOERT_RETURN_IF_ERROR(beginTiming());
  if (trials.isTimed() &&
      (input.solver == SolverChoice::kAuto || input.solver == SolverChoice::kKnapsack))
    return bisectInSeconds(most);
  return {};
}

// Finds something cheaper than what met the threshold so far.
Status WidthSearch::improve(uint32_t most) {
  switch (input.solver) {
  case SolverChoice::kAuto:
  case SolverChoice::kKnapsack:
    return bisect(most);
  case SolverChoice::kEdgeMoe:
    MOERT_RETURN_IF_ERROR(measureUniforms()); // The threshold may be beyond those measured.
    return bisectEdgeMoe(trials, outcome.estimates, most);
  case SolverChoice::kUniform:
    return measureUniforms();
  }
  return {};
}

Status WidthSearch::improveAtCenter() {
  if (input.solver != SolverChoice::kUniform) {
    MOERT_ASSIGN_OR_RETURN(outcome.estimates, probeGroups(trials, probeBits));
  }
  MOERT_RETURN_IF_ERROR(improve(kMeasurementsAtCenter));
  if (input.solver == SolverChoice::kAuto)
    MOERT_RETURN_IF_ERROR(challengeBest(trials, outcome.estimates));
  return improveInSeconds(kMeasurementsInSeconds);
}

Result<TestResult> WidthSearch::test(AcceptanceChain chain, const MeasuredWidths &widths) {
  const MeasuredWidths tested = widths; // Measuring moves what is pointed to.
  ++outcome.tests;
  MOERT_ASSIGN_OR_RETURN(TestResult result, judge.accept(tested.assignment, chain));
  isOutOfReach = isOutOfReach || result == TestResult::kOutOfReach;
  const bool isSafest = outcome.tests == 1 ||
                        tested.measurement.predictedBound < outcome.best.measurement.predictedBound;
  if (result == TestResult::kPassed || (!outcome.isMet && isSafest)) {
    outcome.best = tested;
    outcome.chain = chain;
  }
  if (result == TestResult::kPassed) {
    outcome.isMet = true;
    passedThreshold = trials.threshold();
  }
  return result;
}

// One chain, at its thresholds above one limit and up to another. False: a test failed.
Result<bool> WidthSearch::testFrom(AcceptanceChain chain, double center, double above,
                                   double below) {
  const MeasuredWidths *central = trials.cheapest();
  std::optional<double> spread;
  if (!input.firstThreshold && central)
    spread = central->measurement.spread;
  // Little is measured near the thresholds of the reserve chain.
  const bool isFine = spread && !trials.isTimed();
  const uint32_t measurements = chain == AcceptanceChain::kReserve ? kMeasurementsPerReserve
                                : isFine                           ? kMeasurementsPerThreshold
                                                                   : kMeasurementsPerThreshold / 2;
  for (double threshold : chainThresholds(chain, center, spread)) {
    if (threshold <= above || threshold >= below)
      continue;
    trials.setThreshold(threshold);
    MOERT_RETURN_IF_ERROR(improve(measurements));
    MOERT_RETURN_IF_ERROR(improveInSeconds(measurements));
    const MeasuredWidths *best = trials.cheapest();
    if (!best || best->measurement.predictedBound >= below ||
        (outcome.isMet && !trials.isClearlyCheaper(*best, outcome.best)))
      continue;
    MOERT_ASSIGN_OR_RETURN(TestResult result, test(chain, *best));
    if (result != TestResult::kPassed)
      return false;
  }
  return true;
}

// If the main chain's first test fails, the reserve chain tests the safest candidate, and then
// those that are predicted to be safer than the one that failed.
Status WidthSearch::runChains(double center) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  MOERT_RETURN_IF_ERROR(testFrom(AcceptanceChain::kMain, center, 0, kAll).status());
  if (outcome.isMet || isOutOfReach || outcome.tests == 0)
    return {};
  const double failed = outcome.best.measurement.predictedBound;
  MOERT_RETURN_IF_ERROR(measureUniform(trials.wholeWidths().front()).status()); // Loses least.
  const MeasuredWidths *safest = trials.safest();
  if (safest->assignment == outcome.best.assignment)
    return {};
  const double least = safest->measurement.predictedBound;
  trials.setThreshold(least);
  MOERT_ASSIGN_OR_RETURN(TestResult result, test(AcceptanceChain::kReserve, *safest));
  if (result != TestResult::kPassed)
    return {};
  return testFrom(AcceptanceChain::kReserve, center, least, failed).status();
}

// Nothing is good enough on the search's text; unseen text may be kinder.
Status WidthSearch::searchWithoutCandidate() {
  const double center = trials.safest()->measurement.predictedBound;
  trials.setThreshold(center);
  MOERT_ASSIGN_OR_RETURN(TestResult result, test(AcceptanceChain::kMain, *trials.safest()));
  if (result != TestResult::kPassed)
    return {};
  MOERT_RETURN_IF_ERROR(measureUniforms());
  MOERT_RETURN_IF_ERROR(improveAtCenter());
  constexpr double kAll = std::numeric_limits<double>::infinity();
  return testFrom(AcceptanceChain::kMain, center, center, kAll).status();
}

Status WidthSearch::search() {
  const double center = trials.threshold();
  MOERT_RETURN_IF_ERROR(measureUniforms());
  if (!trials.cheapest())
    return searchWithoutCandidate();
  MOERT_RETURN_IF_ERROR(improveAtCenter());
  return runChains(center);
}

Result<WidthSearchOutcome> WidthSearch::run() {
  MOERT_RETURN_IF_ERROR(search());
  if (outcome.isMet)
    trials.setThreshold(passedThreshold);
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
