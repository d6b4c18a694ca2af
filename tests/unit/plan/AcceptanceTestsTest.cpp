#include "compiler/plan/AcceptanceTests.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moec;

TEST_CASE("all compiles together may err with five percent") {
  double sum = 0;
  for (uint32_t compile = 1; compile <= kMaxCompilesOfText; ++compile) {
    const auto levels = acceptanceLevels(compile);
    REQUIRE(levels);
    sum += (compile == 1 ? 1 : kChoicesOfLaterCompile) * (levels->main + levels->reserve);
    for (AcceptanceChain chain : {AcceptanceChain::kMain, AcceptanceChain::kReserve}) {
      CHECK(levels->confidence(chain) >= 0.95);
      CHECK(levels->confidence(chain) <= 0.9999); // Bounds are computed up to there.
    }
  }
  CHECK(sum <= kAcceptanceError + 1e-12);
  CHECK_FALSE(acceptanceLevels(0));
  CHECK_FALSE(acceptanceLevels(kMaxCompilesOfText + 1));
}

TEST_CASE("a chain's thresholds rise, around the center where the spread is known") {
  for (AcceptanceChain chain : {AcceptanceChain::kMain, AcceptanceChain::kReserve})
    for (std::optional<double> spread : {std::optional<double>(), std::optional(0.1)}) {
      const std::vector<double> thresholds = chainThresholds(chain, 0.02, spread);
      CHECK(std::is_sorted(thresholds.begin(), thresholds.end(), std::less_equal<>()));
      CHECK(thresholds.front() < 0.02);
      CHECK((thresholds.back() > 0.02) == (chain == AcceptanceChain::kMain));
    }
  // No spread makes the chain so dense that it gets nowhere, or so wide that it starts at nothing.
  CHECK(chainThresholds(AcceptanceChain::kMain, 1, 0.0) ==
        chainThresholds(AcceptanceChain::kMain, 1, 0.05));
  CHECK(chainThresholds(AcceptanceChain::kMain, 1, 5.0) ==
        chainThresholds(AcceptanceChain::kMain, 1, 0.3));
}
