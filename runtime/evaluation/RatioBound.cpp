#include "runtime/evaluation/RatioBound.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/evaluation/NormalQuantile.h"

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
      cumulant -= deterministicLog(1 - point.t * term);
    const double r = std::sqrt(std::max(-2 * cumulant, 0.0));
    if (r < 1e-3) // Where the correction is a difference of rounding errors. No bound is near it.
      return r;
    return r + deterministicLog(point.t * std::sqrt(point.second) / r) / r;
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

static double totalOfSizes(std::span<const Excess> excesses) {
  double sizes = 0;
  for (const Excess &excess : excesses)
    sizes += excess.size;
  return sizes;
}

// The expected size of the unit that contains a random token.
static double expectedSize(std::span<const Excess> excesses) {
  double squares = 0;
  for (const Excess &excess : excesses)
    squares += squareOf(excess.size);
  return squares / totalOfSizes(excesses);
}

// The sample's quantile, between two of its values.
static double quantileOf(std::span<const double> ascending, double probability) {
  const double place = probability * static_cast<double>(ascending.size() + 1) - 1;
  const auto below = static_cast<size_t>(place);
  const double part = place - static_cast<double>(below);
  return ascending[below] + part * (ascending[below + 1] - ascending[below]);
}

// The excess of one in 3 n + 100 units, by the shifted lognormal distribution that has the sample's
// median and outer deciles (their skewness is Hinkley's, Biometrika 62, 1975). 0 where the deciles
// are not skewed upwards. Deciles, because the largest units are what may be missing. The coverage
// test chose the number: with one in 3 n, lognormal losses of sigma 2 are covered 3% less often.
static double lognormalTail(std::span<const double> ascending) {
  constexpr double kDecile = 0.9, kMostSigma = 3;
  const double median = quantileOf(ascending, 0.5);
  const double above = quantileOf(ascending, kDecile) - median;
  const double below = median - quantileOf(ascending, 1 - kDecile);
  if (above <= below)
    return 0;
  const double atDecile = upperNormalQuantile(kDecile);
  const double sigma = below * 1e9 < above
                           ? kMostSigma
                           : std::min(deterministicLog(above / below) / atDecile, kMostSigma);
  const double scale = above / (deterministicExp(sigma * atDecile) - 1);
  const double units = static_cast<double>(ascending.size());
  const double atTail = upperNormalQuantile(1 - 1 / (3 * units + 100));
  return median + scale * (deterministicExp(sigma * atTail) - 1);
}

// Normal units of equal size give the largest square about (2 log n) / n of the sum, which is where
// widening begins; it is complete at 1.5 times that. Where sizes differ, n is the effective number
// of units for squares. The most depends on the units, because few of them may lack more of the
// tail. The coverage test chose the numbers.
static TailCheck tailOf(std::span<const Excess> excesses) {
  TailCheck tail;
  double squares = 0, largest = 0, sizes2 = 0, sizes4 = 0;
  std::vector<double> ratios;
  ratios.reserve(excesses.size());
  for (size_t i = 0; i < excesses.size(); ++i) {
    squares += squareOf(excesses[i].amount);
    sizes2 += squareOf(excesses[i].size);
    sizes4 += squareOf(squareOf(excesses[i].size));
    if (excesses[i].size > 0)
      ratios.push_back(excesses[i].amount / excesses[i].size);
    if (excesses[i].amount > largest) {
      largest = excesses[i].amount;
      tail.unit = i;
    }
  }
  if (largest <= 0 || ratios.size() < kMinimumBoundUnits)
    return tail;
  tail.part = squareOf(largest) / squares;
  const double units = static_cast<double>(ratios.size());
  const double effective = std::max(squareOf(sizes2) / sizes4, 2.0);
  const double overNormal = tail.part * effective / (2 * deterministicLog(effective));
  const double begun = std::clamp((overNormal - 1) / 0.5, 0.0, 1.0);
  if (begun == 0)
    return tail;
  std::sort(ratios.begin(), ratios.end());
  const double beyond = lognormalTail(ratios) * expectedSize(excesses) / largest;
  tail.widening = 1 + begun * (std::clamp(beyond, 1.0, 4 + 80 / units) - 1);
  return tail;
}

// The unobserved unit. Its size is the expected size of the unit that contains a random token.
//
// Its excess is the largest observed, times a factor that approaches 1 with more units and grows
// with the confidence, which reaches further into a tail, and times that of a heavy tail. With few
// units it is at least nine times the ratio: a tenth of the documents may lose ten times as much,
// and none of them be among the units. The probability of that is above 1 - confidence up to log(1
// - confidence) / log(0.9) units, 28 at 95%. Beyond, this part falls with the fourth power of the
// units. The numbers were chosen by the coverage test: smaller ones do not reach 93.5% with 20 and
// 40 units, larger ones widen every bound.
static Excess unseenUnit(std::span<const Excess> excesses, double ratio, double confidence,
                         std::optional<double> largestRatio) {
  Excess unseen = {0, expectedSize(excesses)};
  if (largestRatio) {
    unseen.amount = std::max(*largestRatio - ratio, 0.0) * unseen.size;
    return unseen;
  }
  constexpr double kReach = 20, kQuantileAt95 = 1.6448536269514722;
  constexpr double kUnseenFraction = 0.1, kUnseenRatio = 10;
  // Kish's effective sample size.
  const double effectiveUnits = totalOfSizes(excesses) / unseen.size;
  const TailCheck tail = tailOf(excesses);
  const double largest = std::max(excesses[tail.unit].amount, 0.0);
  const double reach =
      (1 + kReach / effectiveUnits) * upperNormalQuantile(confidence) / kQuantileAt95;
  const double fewUnits =
      deterministicLog(1 - confidence) / deterministicLog(1 - kUnseenFraction) / effectiveUnits;
  const double rare = (kUnseenRatio - 1) * std::min(1.0, squareOf(squareOf(fewUnits))) *
                      std::max(ratio, 0.0) * unseen.size;
  unseen.amount = std::max(reach * tail.widening * largest, rare);
  return unseen;
}

TailCheck checkTail(std::span<const RatioUnit> units) {
  return tailOf(excessesOf(units));
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
  return units * sizeof(Group) + (units + 1) * (sizeof(Excess) + sizeof(double)) +
         units * sizeof(double);
}

} // namespace moert
