#include "compiler/plan/WidthTimes.h"

#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/TimedReplay.h"
#include "compiler/plan/WidthSolvers.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moert;

namespace moec {

// Weights move little after the second time.
static constexpr int kMostRounds = 4;

static Status notHeld() {
  return invalidInput("the budget does not hold the widths");
}

Status ReplayedWidths::checkStop() const {
  if (stop && stop->load(std::memory_order_relaxed))
    return Status(StatusCode::kInterrupted, "interrupted");
  return {};
}

Result<bool> ReplayedWidths::begin(const WidthAssignment &likely) {
  MOERT_ASSIGN_OR_RETURN(bool isHeld, planning.begin(likely));
  if (!isHeld || rule.preset != Preset::kAuto)
    return isHeld;
  MOERT_ASSIGN_OR_RETURN(std::optional<PlanProblem> problem, planning.problemOf(likely));
  if (!problem)
    return notHeld();
  MOERT_ASSIGN_OR_RETURN(SearchedPlan found,
                         searchPlan(*problem, {.threads = threads, .stop = stop}));
  rule = found.rule;
  return true;
}

Result<double> ReplayedWidths::tokenNs(const WidthAssignment &assignment) {
  MOERT_RETURN_IF_ERROR(checkStop());
  MOERT_ASSIGN_OR_RETURN(std::optional<PlanProblem> problem, planning.problemOf(assignment));
  if (!problem)
    return std::numeric_limits<double>::infinity();
  MOERT_RETURN_IF_ERROR(check(*problem));
  auto result = replayInTime(*problem, settingsBy(rule, *problem));
  return result.isOk() ? result->meanNs() : std::numeric_limits<double>::infinity();
}

static double expertNs(const PlanProblem &problem, const MarginalTimes &times, const ExpertUse &use,
                       const TimedOption &option) {
  const auto pages = static_cast<double>(divideUp(option.bytes, problem.pageBytes));
  return times.computingFraction * (use.wanted * option.computeNs + use.reads * option.checkNs) +
         times.readingFraction * use.reads * readingNs(problem, times, option.bytes) +
         use.held * pages * times.pageNs;
}

Result<std::vector<std::vector<double>>>
ReplayedWidths::optionNs(const WidthAssignment &assignment) {
  MOERT_RETURN_IF_ERROR(checkStop());
  MOERT_ASSIGN_OR_RETURN(std::optional<PlanProblem> problem, planning.problemOf(assignment));
  if (!problem)
    return notHeld();
  MOERT_ASSIGN_OR_RETURN(MarginalTimes times, marginalTimes(*problem, rule));
  std::vector<std::vector<double>> ns;
  for (const TimedItem &item : planning.items()) {
    std::vector<double> &options = ns.emplace_back();
    for (const TimedOption &option : item.options)
      options.push_back(
          item.expert ? expertNs(*problem, times,
                                 times.experts[item.expert->layer][item.expert->expert], option)
                      : option.computeNs + times.pageNs * static_cast<double>(option.bytes) /
                                               static_cast<double>(problem->pageBytes));
  }
  return ns;
}

namespace {

/// The rounds of one solution.
class SecondsSolver {
public:
  SecondsSolver(const WidthProblem &given, WidthTimes &timing) : problem(given), times(timing) {}

  Result<WidthAssignment> solve() {
    MOERT_ASSIGN_OR_RETURN(WidthAssignment at, solveKnapsack(problem));
    MOERT_RETURN_IF_ERROR(hold(at));
    for (int round = 1; round <= kMostRounds && std::isfinite(atNs); ++round) {
      MOERT_RETURN_IF_ERROR(weigh(at, round));
      MOERT_ASSIGN_OR_RETURN(WidthAssignment next, solveKnapsack(weighted));
      if (next == at)
        break;
      at = std::move(next);
      MOERT_RETURN_IF_ERROR(hold(at));
    }
    return std::move(best);
  }

private:
  Status hold(const WidthAssignment &assignment) {
    MOERT_ASSIGN_OR_RETURN(atNs, times.tokenNs(assignment));
    if (best.empty() || atNs < bestNs) {
      best = assignment;
      bestNs = atNs;
    }
    return {};
  }

  Status weigh(const WidthAssignment &assignment, int round) {
    MOERT_ASSIGN_OR_RETURN(std::vector<std::vector<double>> ns, times.optionNs(assignment));
    if (round == 1)
      weighted = problem;
    for (size_t i = 0; i < ns.size(); ++i)
      for (size_t o = 0; o < ns[i].size(); ++o) {
        double &cost = weighted.items[i].options[o].cost;
        cost = round == 1 ? ns[i][o] : cost + (ns[i][o] - cost) / round;
      }
    return {};
  }

  const WidthProblem &problem;
  WidthTimes &times;
  WidthProblem weighted;
  WidthAssignment best;
  double bestNs = 0, atNs = 0;
};

} // namespace

Result<WidthAssignment> solveInSeconds(const WidthProblem &problem, WidthTimes &times) {
  return SecondsSolver(problem, times).solve();
}

} // namespace moec
