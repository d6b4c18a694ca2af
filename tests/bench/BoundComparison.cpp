// How often the bound of a loss and its textbook alternatives cover the truth, on the populations
// of the coverage test. docs/accuracy.md has the result.
//
//   bound_comparison [DRAWS] [CONFIDENCE]
//
// All methods use the files as strata. Takes ten minutes with 2,000 draws.
#include "runtime/evaluation/NormalQuantile.h"
#include "tests/unit/evaluation/SyntheticUnits.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace moert;
using namespace moert::test;

namespace {

constexpr int kResamples = 2000;

/// A sample as a mean of independent terms: the ratio, and each unit's part in its error.
struct Linear {
  double ratio = 0, size = 0;
  std::vector<double> excesses; // In units of the ratio's numerator.

  double deviation() const {
    double squares = 0;
    for (double excess : excesses)
      squares += excess * excess;
    const double count = double(excesses.size());
    return std::sqrt(squares * count / (count - 1)) / size;
  }
};

using Files = std::vector<std::pair<size_t, size_t>>; // First unit and number of units.

Files filesOf(const std::vector<RatioUnit> &units) {
  Files files;
  for (size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || units[i].stratum != units[i - 1].stratum)
      files.emplace_back(i, 0);
    ++files.back().second;
  }
  return files;
}

Linear linearOf(const std::vector<RatioUnit> &units) {
  Linear linear;
  double total = 0;
  for (const auto &[first, count] : filesOf(units)) {
    double fileTotal = 0, fileSize = 0;
    for (size_t i = first; i < first + count; ++i) {
      fileTotal += units[i].total;
      fileSize += units[i].size;
    }
    for (size_t i = first; i < first + count; ++i)
      linear.excesses.push_back(units[i].total - fileTotal / fileSize * units[i].size);
    total += fileTotal;
    linear.size += fileSize;
  }
  linear.ratio = total / linear.size;
  return linear;
}

/// Of Student's distribution: Cornish and Fisher's expansion, good to three digits from 19 degrees
/// of freedom on.
double studentQuantile(double z, double degrees) {
  const double z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

double studentBound(const Linear &linear, double z) {
  return linear.ratio + studentQuantile(z, double(linear.excesses.size()) - 1) * linear.deviation();
}

/// Hall's cubic transformation of the studentized mean, which removes its skewness.
double hallBound(const Linear &linear, double z) {
  const double count = double(linear.excesses.size());
  double squares = 0, cubes = 0;
  for (double excess : linear.excesses) {
    squares += excess * excess;
    cubes += excess * excess * excess;
  }
  if (squares == 0)
    return linear.ratio;
  const double skewness = cubes / count / std::pow(squares / count, 1.5);
  const double a = skewness / (3 * std::sqrt(count));
  const double lower = -studentQuantile(z, count - 1) - skewness / (6 * std::sqrt(count));
  const double t = std::abs(a) < 1e-9 ? lower : (std::cbrt(1 + 3 * a * lower) - 1) / a;
  return linear.ratio - t * linear.deviation();
}

/// One resample inside each file: the ratio, and the studentized difference.
struct Resample {
  double ratio, studentized;
};

std::vector<Resample> resample(const std::vector<RatioUnit> &units, const Linear &linear,
                               RandomStream &random) {
  const Files files = filesOf(units);
  std::vector<Resample> resamples;
  for (int r = 0; r < kResamples; ++r) {
    std::vector<RatioUnit> drawn;
    for (const auto &[first, count] : files)
      for (size_t i = 0; i < count; ++i)
        drawn.push_back(units[first + random.nextBelow(uint32_t(count))]);
    const Linear again = linearOf(drawn);
    const double deviation = again.deviation(), difference = again.ratio - linear.ratio;
    const double none = difference < 0 ? -HUGE_VAL : 0;
    resamples.push_back({again.ratio, deviation > 0 ? difference / deviation : none});
  }
  return resamples;
}

double quantile(std::vector<double> values, double probability) {
  const size_t place = size_t(std::clamp(probability, 0.0, 1.0) * double(values.size()));
  auto found = values.begin() + std::ptrdiff_t(std::min(place, values.size() - 1));
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

double normalProbability(double x) {
  return std::erfc(-x / std::sqrt(2)) / 2;
}

/// Efron's accelerated, bias-corrected bound.
double bcaBound(const std::vector<double> &ratios, const Linear &linear, double z) {
  double below = 0.5, squares = 0, cubes = 0;
  for (double ratio : ratios)
    below += ratio < linear.ratio;
  for (double excess : linear.excesses) {
    squares += excess * excess;
    cubes += excess * excess * excess;
  }
  if (squares == 0)
    return linear.ratio;
  const double fraction = below / double(ratios.size() + 1);
  const double bias =
      fraction < 0.5 ? -upperNormalQuantile(1 - fraction) : upperNormalQuantile(fraction);
  const double acceleration = cubes / (6 * std::pow(squares, 1.5));
  const double left = 1 - acceleration * (bias + z);
  return quantile(ratios, left > 0 ? normalProbability(bias + (bias + z) / left) : 1);
}

struct Tally {
  double covered = 0, width = 0;
  std::vector<double> coverages;
};

void addDraw(const Draw &draw, double confidence, RandomStream &random,
             std::map<std::string, Tally> &tallies) {
  const double z = upperNormalQuantile(confidence);
  const Linear linear = linearOf(draw.units);
  std::vector<double> ratios, studentized;
  for (const Resample &r : resample(draw.units, linear, random)) {
    ratios.push_back(r.ratio);
    studentized.push_back(r.studentized);
  }
  const std::pair<const char *, double> bounds[] = {
      {"1 percentile", quantile(ratios, confidence)},
      {"2 BCa", bcaBound(ratios, linear, z)},
      {"3 Student t", studentBound(linear, z)},
      {"4 Hall", hallBound(linear, z)},
      {"5 bootstrap-t", linear.ratio - quantile(studentized, 1 - confidence) * linear.deviation()},
      {"6 ours", *ratioUpperBound(draw.units, confidence)}};
  for (const auto &[name, bound] : bounds) {
    tallies[name].covered += !(bound < draw.truth);
    tallies[name].width += bound - linear.ratio;
  }
}

} // namespace

int main(int count, char **arguments) {
  const int draws = count > 1 ? std::atoi(arguments[1]) : 2000;
  const double confidence = count > 2 ? std::atof(arguments[2]) : 0.95;
  uint64_t seed = 1;
  for (const Population &population : allPopulations()) {
    RandomStream random(seed++), resampling(95);
    std::map<std::string, Tally> tallies;
    for (int i = 0; i < draws; ++i)
      addDraw(drawUnits(population, random), confidence, resampling, tallies);
    std::printf("%s:", population.name().c_str());
    for (const auto &[name, tally] : tallies)
      std::printf("; %s %.2f%% %.5g", name.c_str() + 2, 100 * tally.covered / draws,
                  tally.width / draws);
    std::printf("\n");
    std::fflush(stdout);
  }
}
