#include "compiler/plan/AcceptanceTests.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <span>

using namespace moert;

namespace moec {

// A tenth for the reserve chain of the first compile: it is needed rarely, and costs it little.
constexpr AcceptanceLevels kFirstCompile = {0.036, 0.004};
constexpr AcceptanceLevels kLaterCompile = {0.00015, kLeastError};

static_assert(kFirstCompile.main + kFirstCompile.reserve +
                  (kMaxCompilesOfText - 1) * kChoicesOfLaterCompile *
                      (kLaterCompile.main + kLaterCompile.reserve) <=
              kAcceptanceError + 1e-12);

std::optional<AcceptanceLevels> acceptanceLevels(uint32_t compile) {
  if (compile == 0 || compile > kMaxCompilesOfText)
    return std::nullopt;
  return compile == 1 ? kFirstCompile : kLaterCompile;
}

// In standard errors of the prediction. The first test fails once in 28 times if both texts are
// drawn alike. Steps of 0.8 are about 1% of the bytes. The last ones are for texts that are kinder.
constexpr double kMainSteps[] = {-1.8, -0.8, 0, 0.8, 1.6, 2.6, 4, 6.5};
// Texts differ by more than their sampling errors, and by less than this.
constexpr double kLeastSpread = 0.05, kMostSpread = 0.3;
// Relative to the center. The acceptance text may lose several times as much as the search's.
constexpr double kReserveFactors[] = {0.15, 0.28, 0.42, 0.56, 0.7, 0.82};

// The points that a divergence costs differ by more than an order of magnitude.
constexpr double kMainItemFactors[] = {0.25, 0.4, 0.63, 1, 1.6, 2.5, 4, 6.3, 10, 16, 25};
constexpr double kReserveItemFactors[] = {1. / 64, 1. / 32, 1. / 16, 0.1, 0.16};

std::vector<double> chainThresholds(AcceptanceChain chain, double center,
                                    std::optional<double> spread) {
  const bool isMain = chain == AcceptanceChain::kMain;
  std::vector<double> thresholds;
  if (isMain && spread) {
    const double width = std::clamp(*spread, kLeastSpread, kMostSpread);
    for (double step : kMainSteps)
      thresholds.push_back(center * deterministicExp(step * width));
    return thresholds;
  }
  std::span<const double> factors = kReserveFactors;
  if (!spread)
    factors = isMain ? std::span<const double>(kMainItemFactors) : kReserveItemFactors;
  for (double factor : factors)
    thresholds.push_back(center * factor);
  return thresholds;
}

} // namespace moec
