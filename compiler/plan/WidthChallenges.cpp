#include "compiler/plan/WidthChallenges.h"

#include "compiler/plan/WidthSolvers.h"

#include <algorithm>

using namespace moert;

namespace moec {

namespace {

/// EdgeMoE's assignments between two whole widths. Borrows all that it is made of; one thread.
class EdgeMoeRange {
public:
  EdgeMoeRange(const WidthTrials &measured, const WidthProblem &estimated,
               const WidthAssignment &kept, double highBits, double lowBits)
      : trials(measured), estimates(estimated), others(kept),
        list(edgeMoeList(estimated, highBits, lowBits)) {
    std::erase_if(list.items, [&](uint32_t item) { return trials.input().isProbedDirectly[item]; });
  }

  size_t size() const { return list.items.size(); }

  /// The first `count` of the list at the lower width.
  WidthAssignment assignment(size_t count) const {
    WidthAssignment chosen = edgeMoeAssignment(estimates, list, count);
    trials.keepOthers(chosen, others);
    return chosen;
  }

private:
  const WidthTrials &trials;
  const WidthProblem &estimates;
  const WidthAssignment &others;
  EdgeMoeList list;
};

} // namespace

static Status challengeWithUniform(WidthTrials &trials, const WidthAssignment &others) {
  for (double bits : trials.uniformWidths()) {
    WidthAssignment assignment = trials.uniform(bits, others);
    const MeasuredWidths *best = trials.cheapest();
    if (!best || trials.costOf(assignment) > best->cost * (1 + kCostTolerance))
      continue;
    MOERT_RETURN_IF_ERROR(trials.measure(kUniformSolver, assignment).status());
    const MeasuredWidths *known = trials.find(assignment);
    if (!known || !trials.meets(*known))
      return {}; // Fewer bits lose more. A wider down may not: the knapsack has it as an option.
  }
  return {};
}

// Between the neighbouring whole widths around the best: as many of the list at the lower one
// that the bytes are those of the best, and then more for as long as the threshold
// is met.
static Status challengeWithEdgeMoe(WidthTrials &trials, const WidthProblem &estimates,
                                   const WidthAssignment &others) {
  const MeasuredWidths *best = trials.cheapest();
  if (!best)
    return {};
  const double bestCost = best->cost; // Measuring moves what is pointed to.
  const std::vector<double> widths = trials.wholeWidths();
  for (size_t w = 0; w + 1 < widths.size(); ++w) {
    if (trials.costOf(trials.uniform(widths[w + 1], others)) >= bestCost)
      continue;
    EdgeMoeRange range(trials, estimates, others, widths[w], widths[w + 1]);
    size_t count = 0;
    while (count < range.size() && trials.costOf(range.assignment(count)) >= bestCost)
      ++count;
    const size_t step = std::max<size_t>(range.size() / 20, 1);
    for (; count <= range.size(); count += step) {
      WidthAssignment assignment = range.assignment(count);
      MOERT_ASSIGN_OR_RETURN(bool isMeasured, trials.measure(kEdgeMoeSolver, assignment));
      if (!isMeasured || !trials.meets(*trials.find(assignment)))
        return {};
    }
    return {};
  }
  return {};
}

Status challengeBest(WidthTrials &trials, const WidthProblem &estimates) {
  const MeasuredWidths *best = trials.cheapest();
  if (!best)
    return {};
  const WidthAssignment others = best->assignment; // Measuring moves what is pointed to.
  MOERT_RETURN_IF_ERROR(challengeWithUniform(trials, others));
  return challengeWithEdgeMoe(trials, estimates, others);
}

Status bisectEdgeMoe(WidthTrials &trials, const WidthProblem &estimates, uint32_t most) {
  const WidthAssignment others = trials.firstOthers();
  const std::vector<double> widths = trials.wholeWidths();
  for (size_t w = 0; w + 1 < widths.size(); ++w) {
    const MeasuredWidths *high = trials.find(trials.uniform(widths[w], others));
    const MeasuredWidths *low = trials.find(trials.uniform(widths[w + 1], others));
    if (!high || !trials.meets(*high) || !low || trials.meets(*low))
      continue;
    EdgeMoeRange range(trials, estimates, others, widths[w], widths[w + 1]);
    size_t good = 0, bad = range.size();
    for (uint32_t step = 0; step < most && bad - good > 1; ++step) {
      size_t count = (good + bad) / 2;
      WidthAssignment assignment = range.assignment(count);
      MOERT_ASSIGN_OR_RETURN(bool isMeasured, trials.measure(kEdgeMoeSolver, assignment));
      if (!isMeasured)
        return {};
      (trials.meets(*trials.find(assignment)) ? good : bad) = count;
    }
    return {};
  }
  return {};
}

} // namespace moec
