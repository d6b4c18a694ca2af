#include "compiler/plan/LimitBisection.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moert;

namespace moec {

namespace {

/// A limit and the bound that came of it.
struct Point {
  double limit, bound;
  const MeasuredWidths *widths; // Null: nothing was measured on this side of the threshold.
};

} // namespace

// On the line through two points in logarithms: losses grow as powers of each other.
static double limitAt(double bound, const Point &low, const Point &high) {
  const double slope = std::isfinite(high.bound) ? deterministicLog(high.bound / low.bound) /
                                                       deterministicLog(high.limit / low.limit)
                                                 : 0;
  if (!(slope > 0.05) || !std::isfinite(slope))
    return std::sqrt(low.limit * high.limit);
  return low.limit * deterministicPow(bound / low.bound, 1 / slope);
}

// What an assignment loses on average, where nothing has failed yet.
static double averageLoss(const WidthProblem &estimates) {
  double sum = 0;
  for (const WidthItem &item : estimates.items)
    for (const WidthOption &option : item.options)
      sum += option.loss / double(item.options.size());
  return sum;
}

static bool isClose(const Point &good, const Point &bad, bool isInSeconds) {
  if (!good.widths || !bad.widths || std::isnan(good.widths->limit) ||
      std::isnan(bad.widths->limit))
    return false;
  const auto priceOf = [&](const MeasuredWidths &widths) {
    return isInSeconds ? widths.tokenNs : widths.cost;
  };
  return priceOf(*good.widths) - priceOf(*bad.widths) <= kCostTolerance * priceOf(*good.widths);
}

std::optional<double> nextLimit(const WidthTrials &trials, const WidthProblem &estimates,
                                const std::string &solver) {
  auto counts = [&](const MeasuredWidths &known) {
    return known.solver == solver ||
           (known.solver != kKnapsackSolver && known.solver != kSecondsSolver);
  };
  auto pointOf = [&](const MeasuredWidths &known) {
    double limit =
        std::isnan(known.limit) ? totalsOf(estimates, known.assignment).loss : known.limit;
    return Point{limit, known.measurement.predictedBound, &known};
  };
  Point bad{std::numeric_limits<double>::infinity(), 0, nullptr}, good{0, 0, nullptr};
  for (const MeasuredWidths &known : trials.measured())
    if (Point point = pointOf(known);
        counts(known) && !trials.meets(known) && point.limit < bad.limit)
      bad = point;
  for (const MeasuredWidths &known : trials.measured())
    if (Point point = pointOf(known); counts(known) && trials.meets(known) &&
                                      point.limit < bad.limit && point.limit >= good.limit)
      good = point;
  if (isClose(good, bad, solver == kSecondsSolver))
    return std::nullopt;
  if (!bad.widths)
    return good.limit > 0 ? good.limit * 2 : averageLoss(estimates);
  // Without a good point above nothing: losses in proportion to the limit.
  if (good.limit <= 0 || good.bound <= 0)
    return bad.limit * std::clamp(trials.threshold() / bad.bound, 0.05, 0.9);
  double limit = limitAt(trials.threshold(), good, bad), ratio = bad.limit / good.limit;
  return std::clamp(limit, good.limit * deterministicPow(ratio, 0.1),
                    good.limit * deterministicPow(ratio, 0.9));
}

} // namespace moec
