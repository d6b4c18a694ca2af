#include "compiler/plan/WidthSolvers.h"

#include <algorithm>
#include <optional>

using namespace moert;

namespace moec {

static uint32_t optionAtMost(const WidthItem &item, double bits) {
  for (uint32_t i = 0; i < item.options.size(); ++i)
    if (item.options[i].bits <= bits)
      return i;
  return uint32_t(item.options.size() - 1);
}

WidthAssignment uniformAssignment(const WidthProblem &problem, double bits) {
  WidthAssignment assignment;
  for (const WidthItem &item : problem.items)
    assignment.push_back(optionAtMost(item, bits));
  return assignment;
}

namespace {

/// From one corner of an item's hull to the next.
struct HullStep {
  uint32_t item, from, to;
  double saved, added; // Cost, loss; both above 0.
};

/// The beginning (the least loss, of several the least cost) and the way down from it.
struct Relaxation {
  WidthAssignment start;
  std::vector<HullStep> steps; // In the order of falling saved / added.
};

} // namespace

static uint32_t leastLossOption(const WidthItem &item) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < item.options.size(); ++i) {
    const WidthOption &a = item.options[i], &b = item.options[best];
    if (a.loss < b.loss || (a.loss == b.loss && a.cost < b.cost))
      best = i;
  }
  return best;
}

// The corner after `from`: of the cheaper options the one that saves the most per loss added, of
// equal ones the cheapest.
static std::optional<HullStep> nextCorner(const WidthItem &item, uint32_t itemIndex,
                                          uint32_t from) {
  std::optional<HullStep> best;
  for (uint32_t to = 0; to < item.options.size(); ++to) {
    double saved = item.options[from].cost - item.options[to].cost;
    double added = item.options[to].loss - item.options[from].loss;
    if (!(saved > 0) || !(added > 0))
      continue;
    if (!best || saved * best->added > best->saved * added ||
        (saved * best->added == best->saved * added && saved > best->saved))
      best = HullStep{itemIndex, from, to, saved, added};
  }
  return best;
}

static Relaxation relax(const WidthProblem &problem) {
  Relaxation relaxation;
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const WidthItem &item = problem.items[i];
    uint32_t at = leastLossOption(item);
    relaxation.start.push_back(at);
    while (auto step = nextCorner(item, i, at)) {
      relaxation.steps.push_back(*step);
      at = step->to;
    }
  }
  // Stable, so that equal steps keep the order of the items, and an item's steps their own.
  std::stable_sort(
      relaxation.steps.begin(), relaxation.steps.end(),
      [](const HullStep &a, const HullStep &b) { return a.saved * b.added > b.saved * a.added; });
  return relaxation;
}

namespace {

/// An assignment and its totals, as it is improved.
class Repair {
public:
  Repair(const WidthProblem &given, WidthAssignment start)
      : problem(given), assignment(std::move(start)), totals(totalsOf(given, assignment)) {}

  double lossLeft() const { return problem.lossLimit - totals.loss; }
  const WidthAssignment &result() const { return assignment; }
  bool isAt(const HullStep &step) const { return assignment[step.item] == step.from; }

  void move(uint32_t item, uint32_t option) {
    assignment[item] = option;
    // Anew, not by differences: those would gather rounding until verify() disagrees.
    totals = totalsOf(problem, assignment);
  }
  bool tryMove(uint32_t item, uint32_t option) {
    uint32_t before = assignment[item];
    move(item, option);
    if (totals.loss <= problem.lossLimit)
      return true;
    move(item, before);
    return false;
  }

  /// The single change that saves the most within `loss`; false: there is none.
  bool improveOnce();
  /// One item gets more bits, so that another can do with fewer. False: no such pair saves.
  bool exchangeOnce();

private:
  struct Move {
    uint32_t item = 0, option = 0;
    double saved = 0;
  };
  Move bestSaving(double loss, uint32_t except) const;

  const WidthProblem &problem;
  WidthAssignment assignment;
  WidthTotals totals;
};

Repair::Move Repair::bestSaving(double loss, uint32_t except) const {
  Move best;
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    if (i == except)
      continue;
    const std::vector<WidthOption> &options = problem.items[i].options;
    const WidthOption &now = options[assignment[i]];
    for (uint32_t o = 0; o < options.size(); ++o)
      if (options[o].loss - now.loss <= loss && now.cost - options[o].cost > best.saved)
        best = {i, o, now.cost - options[o].cost};
  }
  return best;
}

constexpr uint32_t kNoItem = UINT32_MAX;

bool Repair::improveOnce() {
  Move best = bestSaving(lossLeft(), kNoItem);
  return best.saved > 0 && tryMove(best.item, best.option);
}

bool Repair::exchangeOnce() {
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const std::vector<WidthOption> &options = problem.items[i].options;
    const uint32_t before = assignment[i];
    for (uint32_t o = 0; o < options.size(); ++o) {
      double freed = options[before].loss - options[o].loss;
      double price = options[o].cost - options[before].cost;
      if (freed <= 0)
        continue;
      Move other = bestSaving(lossLeft() + freed, i);
      if (other.saved <= price)
        continue;
      move(i, o);
      if (tryMove(other.item, other.option))
        return true;
      move(i, before);
    }
  }
  return false;
}

} // namespace

Result<WidthAssignment> solveKnapsack(const WidthProblem &problem) {
  Relaxation relaxation = relax(problem);
  Repair repair(problem, relaxation.start);
  if (repair.lossLeft() < 0)
    return failed("no choice of widths loses at most ", problem.lossLimit,
                  "; the least possible is ", totalsOf(problem, relaxation.start).loss);
  for (const HullStep &step : relaxation.steps)
    if (repair.isAt(step))
      repair.tryMove(step.item, step.to);
  while (repair.improveOnce()) {
  }
  // Exchanges look at every pair of items. Among many items there is nothing left to gain.
  constexpr size_t kMaxItems = 512;
  constexpr int kMaxExchanges = 100;
  for (int i = 0; i < kMaxExchanges && problem.items.size() <= kMaxItems; ++i)
    if (!repair.exchangeOnce())
      break;
  return repair.result();
}

double knapsackLowerBound(const WidthProblem &problem) {
  Relaxation relaxation = relax(problem);
  WidthTotals totals = totalsOf(problem, relaxation.start);
  double cost = totals.cost, lossLeft = problem.lossLimit - totals.loss;
  for (const HullStep &step : relaxation.steps) {
    if (lossLeft <= 0)
      break;
    double fraction = std::min(1.0, lossLeft / step.added);
    cost -= fraction * step.saved;
    lossLeft -= fraction * step.added;
  }
  return cost;
}

static std::optional<uint32_t> optionOf(const WidthItem &item, double bits) {
  for (uint32_t i = 0; i < item.options.size(); ++i)
    if (item.options[i].bits == bits)
      return i;
  return std::nullopt;
}

EdgeMoeList edgeMoeList(const WidthProblem &problem, double highBits, double lowBits,
                        double importanceBits) {
  EdgeMoeList list{highBits, lowBits, {}};
  std::vector<double> importance(problem.items.size());
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const WidthItem &item = problem.items[i];
    if (!optionOf(item, highBits) || !optionOf(item, lowBits))
      continue;
    importance[i] = item.options[optionAtMost(item, importanceBits)].loss;
    list.items.push_back(i);
  }
  std::stable_sort(list.items.begin(), list.items.end(),
                   [&](uint32_t a, uint32_t b) { return importance[a] < importance[b]; });
  return list;
}

WidthAssignment edgeMoeAssignment(const WidthProblem &problem, const EdgeMoeList &list,
                                  size_t count) {
  WidthAssignment assignment = uniformAssignment(problem, list.highBits);
  for (size_t i = 0; i < count; ++i)
    assignment[list.items[i]] = *optionOf(problem.items[list.items[i]], list.lowBits);
  return assignment;
}

} // namespace moec
