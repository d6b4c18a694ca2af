// A statement about the losses of single documents that needs no assumption on their distribution,
// beside the bound of the mean (LossBound.h), which does: with this confidence, at least this
// fraction of the documents lose at most so much.
//
// The k-th smallest of n losses is above the population's quantile unless k or more of the n are
// below it, which has a binomial probability (a one-sided tolerance limit: Wilks, Annals of
// Mathematical Statistics 12, 1941). Units from several files are not of one distribution; by
// Hoeffding (Annals of Mathematical Statistics 27, 1956) the probability is then at most that.
#pragma once

#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <optional>
#include <span>

namespace moert {

/// The fraction of documents that is reported where none was asked for.
constexpr double kReportedFraction = 0.9;

/// "At least this fraction of the documents lose at most this much each."
struct QuantileLoss {
  double fraction = 0; // Above 0, below 1.
  double loss = 0;     // In the metric's unit.
  bool operator==(const QuantileLoss &) const = default;
};

/// The fewest units for such a statement: with 0.9 and 95%, 29; with 99.99%, 88.
uint64_t leastUnitsOfQuantile(double fraction, double confidence);

/// Which of so many units, in ascending order of their losses and from 1, bounds the quantile.
/// nullopt with fewer than leastUnitsOfQuantile(). Confidence: below 1.
std::optional<uint64_t> quantileRank(uint64_t units, double fraction, double confidence);

/// What at least this fraction of the documents lose at most. nullopt with too few units, and for
/// items, whose losses are limited by what an item is worth.
std::optional<double> lossQuantileBound(std::span<const SampleScore> samples, LossMetric metric,
                                        double fraction, double confidence);

} // namespace moert
