#include "runtime/evaluation/LossQuantile.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <vector>

namespace moert {

std::optional<uint64_t> quantileRank(uint64_t units, double fraction, double confidence) {
  // The probability that `rank` or more of the units are below the quantile, from the last rank
  // downwards. In logarithms, since the first terms of many units are below the range of a double.
  const double count = static_cast<double>(units), error = 1 - confidence;
  double logTerm = count * deterministicLog(fraction), above = 0;
  for (uint64_t rank = units; rank > 0; --rank) {
    above += deterministicExp(logTerm);
    if (above > error)
      return rank == units ? std::nullopt : std::optional(rank + 1);
    const double successes = static_cast<double>(rank);
    logTerm += deterministicLog(successes / (count - successes + 1)) +
               deterministicLog((1 - fraction) / fraction);
  }
  return units > 0 ? std::optional<uint64_t>(1) : std::nullopt;
}

uint64_t leastUnitsOfQuantile(double fraction, double confidence) {
  auto units = static_cast<uint64_t>(deterministicLog(1 - confidence) / deterministicLog(fraction));
  units = std::max<uint64_t>(units, 2) - 1; // Rounding may have raised it.
  while (!quantileRank(units, fraction, confidence))
    ++units;
  return units;
}

std::optional<double> lossQuantileBound(std::span<const SampleScore> samples, LossMetric metric,
                                        double fraction, double confidence) {
  if (isOfItems(metric) || !lossOf(sumOf(samples), metric))
    return std::nullopt;
  std::vector<double> losses = unitLosses(samples, metric);
  const std::optional<uint64_t> rank = quantileRank(losses.size(), fraction, confidence);
  if (!rank)
    return std::nullopt;
  const auto bound = losses.begin() + static_cast<ptrdiff_t>(*rank - 1);
  std::nth_element(losses.begin(), bound, losses.end());
  return *bound;
}

} // namespace moert
