#include "runtime/evaluation/LossQuantile.h"
#include "runtime/base/DeterministicMath.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert;

/// A document of one window of 10 tokens that diverges by so many nats a token.
static SampleScore documentOf(uint32_t unit, double kl) {
  return {.unit = unit,
          .tokens = 10,
          .lossNats = 20 + 10 * kl,
          .referenceLossNats = 20,
          .klNats = 10 * kl,
          .agreeing = 9};
}

TEST_CASE("the fewest units are those whose largest exceeds the quantile with the confidence") {
  // 0.9^28 = 0.0523, 0.9^29 = 0.0471.
  CHECK(leastUnitsOfQuantile(0.9, 0.95) == 29);
  // log(0.036) / log(0.9) = 31.55; log(0.00015) / log(0.9) = 83.56; log(0.0001) / log(0.9) = 87.4.
  CHECK(leastUnitsOfQuantile(0.9, 0.964) == 32);
  CHECK(leastUnitsOfQuantile(0.9, 0.99985) == 84);
  CHECK(leastUnitsOfQuantile(0.9, 0.9999) == 88);
  CHECK(leastUnitsOfQuantile(0.95, 0.95) == 59);
  CHECK(leastUnitsOfQuantile(0.5, 0.95) == 5);
  CHECK(leastUnitsOfQuantile(0.01, 0.95) == 1);
}

TEST_CASE("one unit fewer than the fewest has no rank, and the fewest have the largest") {
  for (double confidence : {0.95, 0.964, 0.996, 0.99985, 0.9999})
    for (double fraction : {0.5, 0.8, 0.9, 0.99}) {
      const uint64_t least = leastUnitsOfQuantile(fraction, confidence);
      CHECK_FALSE(quantileRank(least - 1, fraction, confidence));
      CHECK(quantileRank(least, fraction, confidence) == least);
    }
}

TEST_CASE("ranks are those of the binomial distribution") {
  // scipy 1.17: binom.ppf(confidence, n, 0.9) + 1.
  CHECK(quantileRank(46, 0.9, 0.95) == 45);
  CHECK(quantileRank(100, 0.9, 0.95) == 96);
  CHECK(quantileRank(185, 0.9, 0.964) == 175);
  CHECK(quantileRank(1000, 0.9, 0.9999) == 934);
  // (0.9)^10000 is below the range of a double. Normal: 9000 + 1.645 * 30 + 0.5 to 1.
  CHECK(*quantileRank(10000, 0.9, 0.95) >= 9049);
  CHECK(*quantileRank(10000, 0.9, 0.95) <= 9051);
}

TEST_CASE("the bound is the loss of the unit with that rank, in the metric's unit") {
  std::vector<SampleScore> documents;
  for (uint32_t i = 0; i < 46; ++i)
    documents.push_back(documentOf(i, 0.01 * ((i * 7) % 46 + 1))); // 0.01 to 0.46, unordered.
  CHECK(*lossQuantileBound(documents, LossMetric::kKl, 0.9, 0.95) == doctest::Approx(0.45));
  CHECK(*lossQuantileBound(documents, LossMetric::kPerplexity, 0.9, 0.95) ==
        doctest::Approx(deterministicExp(0.45) - 1));
  CHECK(*lossQuantileBound(documents, LossMetric::kTop1, 0.9, 0.95) == doctest::Approx(0.1));
  // No assumption on the largest: however much it loses, the bound is the same.
  for (SampleScore &document : documents)
    if (document.klNats > 4.55)
      document.klNats = 1e6;
  CHECK(*lossQuantileBound(documents, LossMetric::kKl, 0.9, 0.95) == doctest::Approx(0.45));
}

TEST_CASE("all windows of a document are one unit of the quantile") {
  std::vector<SampleScore> windows;
  for (uint32_t i = 0; i < 280; ++i)
    windows.push_back(documentOf(i / 10, 0.01 * (i % 10)));
  CHECK_FALSE(lossQuantileBound(windows, LossMetric::kKl, 0.9, 0.95)); // 28 documents.
  windows.push_back(documentOf(28, 0.01));
  CHECK(*lossQuantileBound(windows, LossMetric::kKl, 0.9, 0.95) == doctest::Approx(0.045));
}

TEST_CASE("items have no quantile of losses") {
  std::vector<SampleScore> items(50);
  for (uint32_t i = 0; i < 50; ++i) {
    items[i].unit = i;
    items[i].items = 1;
    items[i].points = items[i].referencePoints = 1;
  }
  CHECK_FALSE(lossQuantileBound(items, LossMetric::kExact, 0.9, 0.95));
}
