#include "runtime/evaluation/RatioBound.h"

#include "runtime/evaluation/NormalQuantile.h"
#include "runtime/evaluation/RowScore.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace moert {

namespace {

/// A unit's total beyond what its size predicts, and its size.
struct Excess {
  double amount, size;
};

/// Units whose excess is measured against their common ratio.
struct Group {
  double total = 0, size = 0;
  size_t units = 0;

  void add(const RatioUnit &unit) {
    total += unit.total;
    size += unit.size;
    ++units;
  }
  void add(const Group &other) {
    total += other.total;
    size += other.size;
    units += other.units;
  }
  double ratio() const { return size > 0 ? total / size : 0; }
};

// A stratum's own ratio hides a part of its units' spread, with one unit all of it. From 8 units
// on, the factor in excessesOf() compensates for that. Pooling adds the spread between the ratios
// of the pooled strata, which widens the bound.
constexpr size_t kMinimumStratumUnits = 8;

/// One group per stratum; strata of few units are one group together.
class Strata {
public:
  explicit Strata(std::span<const RatioUnit> units) {
    size_t count = 0;
    for (size_t i = 0; i < units.size(); ++i)
      count += isFirst(units, i);
    groups.reserve(count);
    for (size_t i = 0; i < units.size(); ++i) {
      if (isFirst(units, i))
        groups.emplace_back();
      groups.back().add(units[i]);
    }
    Group *smallest = nullptr;
    for (Group &group : groups)
      if (group.units < kMinimumStratumUnits)
        pooled.add(group);
      else if (!smallest || group.units < smallest->units)
        smallest = &group;
    if (pooled.units > 0 && pooled.units < kMinimumStratumUnits && smallest) {
      pooled.add(*smallest);
      *smallest = pooled;
    }
  }

  static bool isFirst(std::span<const RatioUnit> units, size_t i) {
    return i == 0 || units[i].stratum != units[i - 1].stratum;
  }

  const Group &groupOf(size_t stratum) const {
    return groups[stratum].units < kMinimumStratumUnits ? pooled : groups[stratum];
  }

private:
  std::vector<Group> groups;
  Group pooled;
};

/// A sum of excesses with independent exponential weights of mean 1. Its cumulant generating
/// function is the sum of -log(1 - t e).
class WeightedSum {
public:
  explicit WeightedSum(size_t count) { terms.reserve(count); }

  /// Each unit's term is its excess over a ratio that is larger by `rise`.
  void set(std::span<const Excess> excesses, double rise) {
    terms.clear();
    mean = square = largest = 0;
    for (const Excess &excess : excesses) {
      const double term = excess.amount - rise * excess.size;
      terms.push_back(term);
      mean += term;
      square += term * term;
      largest = std::max(largest, term);
    }
  }

  /// The quantile of a standard normal variable that is as probable as that the sum is below 0:
  /// Lugannani and Rice's formula as Barndorff-Nielsen's r*. At most 0 where the sum's mean is not
  /// below 0; infinity where it cannot be above 0.
  double quantileOfZero() const {
    if (mean >= 0)
      return 0;
    if (largest <= 0)
      return HUGE_VAL;
    const Point point = saddlepoint();
    double cumulant = 0;
    for (double term : terms)
      cumulant -= log64(1 - point.t * term);
    const double r = std::sqrt(std::max(-2 * cumulant, 0.0));
    if (r < 1e-3) // Where the correction is a difference of rounding errors. No bound is near it.
      return r;
    return r + log64(point.t * std::sqrt(point.second) / r) / r;
  }

private:
  struct Point {
    double t, second; // The zero of the first derivative, and the second derivative there.
  };

  // Newton's steps inside a bracket: the first derivative rises from the mean to infinity.
  Point saddlepoint() const {
    double low = 0, high = 1 / largest;
    Point point = {std::min(-mean / square, high / 2), square};
    constexpr int kMaxSteps = 200; // Halving alone ends by then.
    for (int step = 0; step < kMaxSteps; ++step) {
      double first = 0, second = 0;
      for (double term : terms) {
        const double slope = term / (1 - point.t * term);
        first += slope;
        second += slope * slope;
      }
      point.second = second;
      (first > 0 ? high : low) = point.t;
      double next = point.t - first / second;
      if (!(next > low && next < high))
        next = low + (high - low) / 2;
      const bool isSettled = std::abs(next - point.t) <= 1e-10 * point.t;
      point.t = next;
      if (isSettled)
        break;
    }
    return point;
  }

  std::vector<double> terms;
  double mean = 0, square = 0, largest = 0;
};

} // namespace

static double squareOf(double x) {
  return x * x;
}

// The units' excesses over the ratios of their groups, with room for the unseen unit. The factor
// gives a group's squares the expected sum that they have around the population's ratio.
static std::vector<Excess> excessesOf(std::span<const RatioUnit> units) {
  const Strata strata(units);
  std::vector<Excess> excesses;
  excesses.reserve(units.size() + 1);
  size_t stratum = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    stratum += i > 0 && Strata::isFirst(units, i);
    const Group &group = strata.groupOf(stratum);
    const double count = static_cast<double>(group.units);
    const double factor = std::sqrt(count / (count - 1));
    excesses.push_back({factor * (units[i].total - group.ratio() * units[i].size), units[i].size});
  }
  return excesses;
}

// The unobserved unit. Its size is the expected size of the unit that contains a random token.
//
// Its excess is the largest observed, times a factor that approaches 1 with more units and grows
// with the confidence, which reaches further into a tail. With few units it is at least nine times
// the ratio: a tenth of the documents may lose ten times as much, and none of them be among the
// units. The probability of that is above 1 - confidence up to log(1 - confidence) / log(0.9)
// units, 28 at 95%. Beyond, this part falls with the fourth power of the units. The numbers were
// chosen by the coverage test: smaller ones do not reach 93.5% with 20 and 40 units, larger ones
// widen every bound.
static Excess unseenUnit(std::span<const Excess> excesses, double ratio, double confidence,
                         std::optional<double> largestRatio) {
  double sizes = 0, squares = 0, largest = 0;
  for (const Excess &excess : excesses) {
    sizes += excess.size;
    squares += squareOf(excess.size);
    largest = std::max(largest, excess.amount);
  }
  Excess unseen = {0, squares / sizes};
  if (largestRatio) {
    unseen.amount = std::max(*largestRatio - ratio, 0.0) * unseen.size;
    return unseen;
  }
  constexpr double kReach = 20, kQuantileAt95 = 1.6448536269514722;
  constexpr double kUnseenFraction = 0.1, kUnseenRatio = 10;
  const double effectiveUnits = squareOf(sizes) / squares; // Kish's effective sample size.
  const double reach =
      (1 + kReach / effectiveUnits) * upperNormalQuantile(confidence) / kQuantileAt95;
  const double fewUnits = log64(1 - confidence) / log64(1 - kUnseenFraction) / effectiveUnits;
  const double rare = (kUnseenRatio - 1) * std::min(1.0, squareOf(squareOf(fewUnits))) *
                      std::max(ratio, 0.0) * unseen.size;
  unseen.amount = std::max(reach * largest, rare);
  return unseen;
}

// The rise of the ratio at which the weighted sum is below 0 with the wanted probability: the root
// of a rising function, by the Illinois form of regula falsi.
static double riseAt(double quantile, std::span<const Excess> excesses) {
  WeightedSum sum(excesses.size());
  double low = 0, high = 0, atLow = -quantile, atHigh = quantile;
  for (const Excess &excess : excesses)
    if (excess.size > 0)
      high = std::max(high, excess.amount / excess.size);
  int side = 0;
  constexpr int kMaxSteps = 100;
  for (int step = 0; step < kMaxSteps && high - low > 1e-9 * high; ++step) {
    double middle = low + (high - low) * (atLow / (atLow - atHigh));
    if (!(middle > low && middle < high))
      middle = low + (high - low) / 2;
    sum.set(excesses, middle);
    // Beyond the range of requested quantiles, only the function's sign is meaningful.
    const double value = std::min(sum.quantileOfZero() - quantile, quantile);
    if (std::abs(value) < 1e-12)
      return middle;
    if (value < 0) {
      low = middle;
      atLow = value;
      atHigh *= side < 0 ? 0.5 : 1; // The same end moved twice: pull the other one.
    } else {
      high = middle;
      atHigh = value;
      atLow *= side > 0 ? 0.5 : 1;
    }
    side = value < 0 ? -1 : 1;
  }
  return high;
}

std::optional<double> ratioUpperBound(std::span<const RatioUnit> units, double confidence,
                                      std::optional<double> largestRatio) {
  assert(confidence >= 0.5 && confidence < 1);
  Group all;
  for (const RatioUnit &unit : units)
    all.add(unit);
  if (units.size() < kMinimumBoundUnits || all.size <= 0)
    return std::nullopt;
  std::vector<Excess> excesses = excessesOf(units);
  const Excess unseen = unseenUnit(excesses, all.ratio(), confidence, largestRatio);
  if (unseen.amount <= 0) // All units have the same ratio.
    return all.ratio();
  excesses.push_back(unseen);
  return all.ratio() + riseAt(upperNormalQuantile(confidence), excesses);
}

uint64_t ratioBoundMemoryBytes(size_t units) {
  return units * sizeof(Group) + (units + 1) * (sizeof(Excess) + sizeof(double));
}

} // namespace moert
