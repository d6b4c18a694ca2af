#include "compiler/plan/WidthTrials.h"

#include "compiler/plan/WidthSolvers.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

void WidthTrials::keepOthers(WidthAssignment &assignment, const WidthAssignment &others) const {
  for (size_t i = 0; i < assignment.size(); ++i)
    if (given.isProbedDirectly[i])
      assignment[i] = others[i];
}

WidthAssignment WidthTrials::uniform(double bits, const WidthAssignment &others) const {
  WidthAssignment assignment = uniformAssignment(given.problem, bits);
  keepOthers(assignment, others);
  return assignment;
}

std::vector<double> WidthTrials::uniformWidths() const {
  std::vector<double> widths;
  for (size_t i = 0; i < given.problem.items.size(); ++i)
    if (!given.isProbedDirectly[i])
      for (const WidthOption &option : given.problem.items[i].options)
        widths.push_back(option.bits);
  std::sort(widths.begin(), widths.end(), std::greater<>());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

std::vector<double> WidthTrials::wholeWidths() const {
  std::vector<double> widths = uniformWidths();
  const double most = widths.front(); // May be the only one, and then any.
  std::erase_if(widths, [&](double bits) { return bits != most && bits != std::floor(bits); });
  return widths;
}

WidthAssignment WidthTrials::firstOthers() const {
  if (!given.others.empty())
    return given.others;
  return WidthAssignment(given.problem.items.size(), 0);
}

bool WidthTrials::isUniform(const WidthAssignment &assignment) const {
  std::vector<double> widths = uniformWidths();
  return std::any_of(widths.begin(), widths.end(),
                     [&](double bits) { return uniform(bits, assignment) == assignment; });
}

const MeasuredWidths *WidthTrials::find(const WidthAssignment &assignment) const {
  for (const MeasuredWidths &known : trials)
    if (known.assignment == assignment)
      return &known;
  return nullptr;
}

Result<bool> WidthTrials::measure(const std::string &solver, const WidthAssignment &assignment,
                                  double limit) {
  if (find(assignment))
    return true;
  if (!canMeasure())
    return false;
  ++measurementCount;
  MOERT_ASSIGN_OR_RETURN(Measurement measurement, judge.measure(assignment));
  // Whoever proposed it: one width for all is what it is.
  trials.push_back({isUniform(assignment) ? kUniformSolver : solver, assignment, costOf(assignment),
                    limit, measurement});
  if (times) {
    MOERT_ASSIGN_OR_RETURN(trials.back().tokenNs, times->tokenNs(assignment));
  }
  return true;
}

Status WidthTrials::beginTiming(WidthTimes &clock) {
  times = &clock;
  for (MeasuredWidths &known : trials) {
    MOERT_ASSIGN_OR_RETURN(known.tokenNs, times->tokenNs(known.assignment));
  }
  return {};
}

Result<double> WidthTrials::probe(const WidthAssignment &assignment) {
  ++measurementCount;
  return judge.probe(assignment);
}

bool WidthTrials::mayTake(const MeasuredWidths &widths) const {
  switch (given.solver) {
  case SolverChoice::kAuto:
    return true;
  case SolverChoice::kKnapsack:
    return widths.solver != kEdgeMoeSolver;
  case SolverChoice::kEdgeMoe:
    return widths.solver != kKnapsackSolver && widths.solver != kSecondsSolver;
  case SolverChoice::kUniform:
    return widths.solver == kUniformSolver;
  }
  return false;
}

const MeasuredWidths *WidthTrials::safest() const {
  const MeasuredWidths *least = nullptr;
  for (const MeasuredWidths &known : trials)
    if (mayTake(known) &&
        (!least || known.measurement.predictedBound < least->measurement.predictedBound))
      least = &known;
  if (!least)
    return nullptr;
  const double same =
      least->measurement.predictedBound * (1 + least->measurement.spread.value_or(0));
  const MeasuredWidths *best = least;
  for (const MeasuredWidths &known : trials)
    if (mayTake(known) && known.measurement.predictedBound <= same &&
        costOf(known.assignment) > costOf(best->assignment))
      best = &known;
  return best;
}

std::vector<const MeasuredWidths *> WidthTrials::takeable() const {
  std::vector<const MeasuredWidths *> taken;
  for (const MeasuredWidths &known : trials)
    if (mayTake(known) && meets(known))
      taken.push_back(&known);
  return taken;
}

const MeasuredWidths *WidthTrials::fewestBytes() const {
  const MeasuredWidths *best = nullptr;
  for (const MeasuredWidths *known : takeable())
    if (known->solver != kSecondsSolver && (!best || known->cost < best->cost))
      best = known;
  for (const MeasuredWidths *known : takeable())
    if (best && known->solver == kUniformSolver && best->solver != kUniformSolver &&
        known->cost <= best->cost * (1 + kCostTolerance))
      best = known;
  return best;
}

const MeasuredWidths *WidthTrials::cheapest() const {
  if (!times)
    return fewestBytes();
  double least = std::numeric_limits<double>::infinity();
  for (const MeasuredWidths *known : takeable())
    least = std::min(least, known->tokenNs);
  const MeasuredWidths *best = nullptr;
  for (const MeasuredWidths *known : takeable()) {
    const bool isUniform = known->solver == kUniformSolver;
    if (known->tokenNs > least * (1 + kSameTokenTime))
      continue;
    if (!best || (isUniform && best->solver != kUniformSolver) ||
        (isUniform == (best->solver == kUniformSolver) && known->cost < best->cost))
      best = known;
  }
  return best;
}

bool WidthTrials::isClearlyCheaper(const MeasuredWidths &one, const MeasuredWidths &other) const {
  const bool hasFewerBytes = one.cost < other.cost * (1 - kCostTolerance);
  if (!times)
    return hasFewerBytes;
  return one.tokenNs < other.tokenNs * (1 - kCostTolerance) ||
         (one.tokenNs <= other.tokenNs * (1 + kSameTokenTime) && hasFewerBytes);
}

} // namespace moec
