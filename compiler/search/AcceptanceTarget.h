// What acceptance tests hold a loss against.
#pragma once

#include "runtime/evaluation/LossQuantile.h"
#include "runtime/policy/Plan.h"

#include <optional>

namespace moec {

/// At least one of the two; a test passes if both that are given hold. Each is tested at the whole
/// level of the test: an artifact that violates one of them is accepted only if that one's test
/// errs (the intersection-union test: Berger, Technometrics 24, 1982).
struct AcceptanceTarget {
  std::optional<double> mean;                  // The largest mean loss, in the metric's unit.
  std::optional<moert::QuantileLoss> quantile; // At least this fraction lose at most this much.

  bool isGiven() const { return mean || quantile; }
  /// The fraction of units that is reported.
  double fraction() const { return quantile ? quantile->fraction : moert::kReportedFraction; }
  /// What the search's thresholds relate to: the allowed mean loss, or that of the quantile.
  double scale() const { return mean ? *mean : quantile ? quantile->loss : 0; }
  /// For the bounds of a test; absent: too few units for one of the quantile.
  bool isMetBy(double meanBound, const std::optional<double> &quantileBound) const {
    return isGiven() && (!mean || meanBound <= *mean) &&
           (!quantile || (quantileBound && *quantileBound <= quantile->loss));
  }
  /// What an artifact carries of a test's bound for fraction().
  std::optional<moert::QuantileBound> stated(const std::optional<double> &quantileBound) const {
    if (!quantileBound)
      return std::nullopt;
    return moert::QuantileBound{fraction(), *quantileBound,
                                quantile ? std::optional(quantile->loss) : std::nullopt};
  }
  friend bool operator==(const AcceptanceTarget &, const AcceptanceTarget &) = default;
};

} // namespace moec
