#include "compiler/plan/WidthTrials.h"

#include "compiler/plan/WidthSolvers.h"

#include <algorithm>

using namespace moert;

namespace moec {

void WidthTrials::keepOthers(WidthAssignment &assignment, const WidthAssignment &others) const {
  for (size_t i = 0; i < assignment.size(); ++i)
    if (given.isProbedDirectly[i])
      assignment[i] = others[i];
}

WidthAssignment WidthTrials::uniform(uint32_t bits, const WidthAssignment &others) const {
  WidthAssignment assignment = uniformAssignment(given.problem, bits);
  keepOthers(assignment, others);
  return assignment;
}

std::vector<uint32_t> WidthTrials::uniformWidths() const {
  std::vector<uint32_t> widths;
  for (size_t i = 0; i < given.problem.items.size(); ++i)
    if (!given.isProbedDirectly[i])
      for (const WidthOption &option : given.problem.items[i].options)
        widths.push_back(option.bits);
  std::sort(widths.begin(), widths.end(), std::greater<>());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

WidthAssignment WidthTrials::firstOthers() const {
  if (!given.others.empty())
    return given.others;
  return WidthAssignment(given.problem.items.size(), 0);
}

bool WidthTrials::isUniform(const WidthAssignment &assignment) const {
  std::vector<uint32_t> widths = uniformWidths();
  return std::any_of(widths.begin(), widths.end(),
                     [&](uint32_t bits) { return uniform(bits, assignment) == assignment; });
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
  trials.push_back({isUniform(assignment) ? "uniform" : solver, assignment, costOf(assignment),
                    limit, measurement});
  return true;
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
    return widths.solver != "edgemoe";
  case SolverChoice::kEdgeMoe:
    return widths.solver != "mckp";
  case SolverChoice::kUniform:
    return widths.solver == "uniform";
  }
  return false;
}

const MeasuredWidths *WidthTrials::safest() const {
  const MeasuredWidths *best = nullptr;
  for (const MeasuredWidths &known : trials)
    if (mayTake(known) && (!best || known.measurement.upperBound < best->measurement.upperBound))
      best = &known;
  return best;
}

const MeasuredWidths *WidthTrials::cheapest() const {
  const MeasuredWidths *best = nullptr;
  for (const MeasuredWidths &known : trials)
    if (mayTake(known) && meets(known) && (!best || known.cost < best->cost))
      best = &known;
  for (const MeasuredWidths &known : trials)
    if (best && meets(known) && known.solver == "uniform" && best->solver != "uniform" &&
        known.cost <= best->cost * (1 + kCostTolerance))
      best = &known;
  return best;
}

} // namespace moec
