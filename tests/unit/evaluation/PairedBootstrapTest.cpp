#include "runtime/evaluation/PairedBootstrap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace moert;

static double meanOf(std::span<const uint32_t> samples) {
  double sum = 0;
  for (uint32_t sample : samples)
    sum += sample;
  return sum / static_cast<double>(samples.size());
}

TEST_CASE("a resample has as many samples of each stratum as there are, and of no other") {
  const std::vector<uint32_t> strata = {7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 7};
  size_t resamples = 0;
  upperBound95(strata, [&](std::span<const uint32_t> drawn) -> double {
    ++resamples;
    REQUIRE(drawn.size() == 11);
    for (size_t i = 0; i < drawn.size(); ++i)
      REQUIRE((i < 4 ? drawn[i] < 4 : i < 10 ? drawn[i] >= 4 && drawn[i] < 10 : drawn[i] == 10));
    return 0;
  });
  CHECK(resamples == 2000);
}

TEST_CASE("every look adds resamples, and a hundred stay above the bound") {
  const std::vector<uint32_t> strata(10);
  for (uint32_t looks : {1u, 3u, 20u}) {
    double resamples = 0;
    auto bound = upperBound95(
        strata, [&](std::span<const uint32_t>) { return ++resamples; }, looks);
    CHECK(resamples == 2000.0 * looks);
    CHECK(*bound == resamples - 100);
  }
}

TEST_CASE("the same samples give the same bound every time") {
  const std::vector<uint32_t> strata(50);
  CHECK(*upperBound95(strata, meanOf) == *upperBound95(strata, meanOf));
}

TEST_CASE("fewer than ten samples have no bound") {
  CHECK_FALSE(upperBound95(std::vector<uint32_t>(9), meanOf));
  CHECK(upperBound95(std::vector<uint32_t>(10), meanOf));
}

TEST_CASE("a loss that is undefined in more resamples than lie above the bound has none") {
  const std::vector<uint32_t> strata(10);
  for (size_t undefined : {100u, 101u}) {
    size_t resample = 0;
    auto bound = upperBound95(strata, [&](std::span<const uint32_t>) {
      return resample++ < undefined ? std::numeric_limits<double>::infinity() : 1.0;
    });
    CHECK(bound.has_value() == (undefined == 100));
  }
}
