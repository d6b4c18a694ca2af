#include "runtime/evaluation/UnitSpread.h"

#include <cmath>
#include <vector>

namespace moert {

// The sums over each unit's samples.
static std::vector<SampleScore> unitsOf(std::span<const SampleScore> samples) {
  std::vector<SampleScore> units;
  for (size_t i = 0; i < samples.size(); ++i)
    if (beginsUnit(samples, i))
      units.push_back(samples[i]);
    else
      units.back().add(samples[i]);
  return units;
}

uint64_t unitCount(std::span<const SampleScore> samples) {
  uint64_t count = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    count += beginsUnit(samples, i);
  return count;
}

uint64_t unitCountOfWindows(std::span<const uint32_t> units) {
  uint64_t count = 0;
  for (size_t i = 0; i < units.size(); ++i)
    count += i == 0 || units[i] != units[i - 1];
  return count;
}

std::vector<double> unitLosses(std::span<const SampleScore> samples, LossMetric metric) {
  const std::vector<SampleScore> units = unitsOf(samples);
  const double meanPoints = sumOf(samples).referencePoints / static_cast<double>(units.size());
  std::vector<double> losses;
  losses.reserve(units.size());
  for (const SampleScore &unit : units)
    losses.push_back(isOfItems(metric) ? (unit.referencePoints - unit.points) / meanPoints
                                       : lossOf(unit, metric).value_or(0));
  return losses;
}

std::optional<double> unitSpread(std::span<const SampleScore> samples, LossMetric metric) {
  if (unitCount(samples) < 2 || !lossOf(sumOf(samples), metric))
    return std::nullopt;
  const std::vector<double> losses = unitLosses(samples, metric);
  const double count = static_cast<double>(losses.size());
  double mean = 0;
  for (double loss : losses)
    mean += loss / count;
  double squares = 0;
  for (double loss : losses)
    squares += (loss - mean) * (loss - mean);
  return std::sqrt(squares / (count - 1));
}

} // namespace moert
