#include "compiler/plan/ProxyBar.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

// A bound of nothing says that there is room, not how much.
constexpr double kMostRise = 4;
// From 2 bits to 8 divergence falls by a factor of some hundred: two falls reach across.
constexpr double kMostFall = 16;
// Few looks are left, and to meet the target with too many bytes is better than not to meet it.
constexpr double kLeastFall = 0.7;
// What one look says of the bar for another assignment is right to within a few hundredths.
constexpr double kMargin = 0.97;
// Below this, divergence is rounding.
constexpr double kLeastMeasured = 1e-9;

// Of the bound as it grows with what is measured. Bounds of few answers may grow even less than the
// root: half of the answers that turn are half as many, but their bound is not half as wide.
double ProxyBar::powerBetween(const Failure &before, const Failure &now) {
  constexpr double kUsual = 0.5, kLeast = 0.25, kMost = 1;
  if (before.measured == 0 || !std::isfinite(now.bound / before.bound))
    return kUsual;
  const double power =
      deterministicLog(now.bound / before.bound) / deterministicLog(now.measured / before.measured);
  return std::isfinite(power) ? std::clamp(power, kLeast, kMost) : kUsual;
}

double ProxyBar::after(double measured, double bound) {
  measured = std::max(measured, kLeastMeasured);
  const double ratio = bound > 0 ? target / bound : kMostRise;
  double bar = 0;
  if (bound <= target) {
    good = std::max(good, measured);
    bar = measured * std::min(ratio, kMostRise);
  } else {
    const double power = powerBetween(failed, {measured, bound});
    failed = {measured, bound};
    bad = std::min(bad, measured);
    const double fall = ratio > 0 ? deterministicPow(ratio, 1 / power) : 0;
    bar = measured * std::clamp(fall, 1 / kMostFall, kLeastFall);
  }
  if (good > 0 && good < bad) // Between the two.
    bar = std::clamp(bar, good, std::max(std::sqrt(good * bad), good));
  else
    bar = std::min(bar, bad);
  return bar * kMargin;
}

} // namespace moec
