#include "runtime/evaluation/NormalQuantile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

using namespace moert;

TEST_CASE("quantiles of the normal distribution are those of the tables") {
  const std::pair<double, double> known[] = {{0.5, 0},
                                             {0.9, 1.2815515655446004},
                                             {0.95, 1.6448536269514722},
                                             {0.99, 2.3263478740408408},
                                             {0.9999, 3.719016485455709}};
  for (const auto &[probability, quantile] : known)
    CHECK(upperNormalQuantile(probability) == doctest::Approx(quantile).epsilon(1e-13));
}

TEST_CASE("a quantile has its probability in all three regions") {
  // 1 - probability loses digits near 1: there the tolerance is that of its last one.
  for (double probability : {0.6, 0.9249, 0.9251, 0.98, 0.999, 1 - 1e-6, 1 - 1e-10, 1 - 1e-12})
    CHECK(std::erfc(upperNormalQuantile(probability) / std::sqrt(2)) / 2 ==
          doctest::Approx(1 - probability).epsilon(1e-11));
}
