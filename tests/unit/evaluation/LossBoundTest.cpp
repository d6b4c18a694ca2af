#include "runtime/evaluation/LossBound.h"

#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace moert;

/// One window of a document: what both models lose on its 10 tokens.
static SampleScore windowOf(uint32_t text, uint32_t document, double loss, double reference,
                            double kl, uint64_t agreeing) {
  return {text, document, 10, loss, reference, kl, agreeing};
}

static SampleScore itemOf(uint32_t item, double points, double referencePoints) {
  SampleScore score;
  score.unit = item;
  score.items = 1;
  score.points = points;
  score.referencePoints = referencePoints;
  return score;
}

TEST_CASE("each metric is bounded from its own sums") {
  // 1,000 documents that are all alike: the bound is the loss, but for one document in a thousand.
  std::vector<SampleScore> windows;
  for (uint32_t i = 0; i < 1000; ++i)
    windows.push_back(windowOf(0, i, 22, 20, 1, 9));
  CHECK(*lossUpperBound(windows, LossMetric::kPerplexity) ==
        doctest::Approx(std::exp(0.2) - 1).epsilon(1e-6));
  CHECK(*lossUpperBound(windows, LossMetric::kKl) == doctest::Approx(0.1).epsilon(1e-6));
  CHECK(*lossUpperBound(windows, LossMetric::kTop1) == doctest::Approx(0.1).epsilon(1e-6));
}

TEST_CASE("the perplexity's bound is that of the nats, as a relative perplexity") {
  std::vector<SampleScore> windows;
  for (uint32_t i = 0; i < 50; ++i)
    windows.push_back(windowOf(0, i, 22 + i % 5, 20, 2 + i % 5, 9));
  CHECK(*lossUpperBound(windows, LossMetric::kPerplexity) ==
        doctest::Approx(std::exp(*lossUpperBound(windows, LossMetric::kKl)) - 1).epsilon(1e-12));
}

TEST_CASE("the windows of a document are one unit") {
  // 40 documents of 10 windows have the bound of 40 windows, not of 400.
  std::vector<SampleScore> documents, windows;
  for (uint32_t i = 0; i < 40; ++i) {
    const SampleScore score = windowOf(0, i, 21 + i % 3, 20, 1, 9);
    windows.push_back(score);
    documents.insert(documents.end(), 10, score);
  }
  const double bound = *lossUpperBound(windows, LossMetric::kPerplexity);
  CHECK(*lossUpperBound(documents, LossMetric::kPerplexity) ==
        doctest::Approx(bound).epsilon(1e-9));
  for (uint32_t i = 0; i < documents.size(); ++i)
    documents[i].unit = i;
  CHECK(*lossUpperBound(documents, LossMetric::kPerplexity) < bound - 0.02);
}

TEST_CASE("windows of fewer than 20 documents have no bound") {
  std::vector<SampleScore> windows;
  for (uint32_t i = 0; i < 190; ++i)
    windows.push_back(windowOf(0, i / 10, 22, 20, 1, 9));
  CHECK_FALSE(lossUpperBound(windows, LossMetric::kKl));
  // The same number in another text is another document.
  windows.push_back(windowOf(1, 18, 22, 20, 1, 9));
  CHECK(lossUpperBound(windows, LossMetric::kKl));
}

TEST_CASE("a loss that is not defined has no bound") {
  CHECK_FALSE(lossUpperBound({}, LossMetric::kKl));
  std::vector<SampleScore> items;
  for (uint32_t i = 0; i < 30; ++i)
    items.push_back(itemOf(i, 1, 0));
  CHECK_FALSE(lossUpperBound(items, LossMetric::kExact));
}

TEST_CASE("items are bounded in pairs: an item that both models get wrong widens no bound") {
  std::vector<SampleScore> known, all;
  for (uint32_t i = 0; i < 60; ++i) {
    all.push_back(i % 3 ? itemOf(i, i % 2, 1) : itemOf(i, 0, 0));
    if (i % 3)
      known.push_back(all.back());
  }
  CHECK(*lossUpperBound(all, LossMetric::kExact) ==
        doctest::Approx(*lossUpperBound(known, LossMetric::kExact)).epsilon(0.02));
}

TEST_CASE("items of which none lost anything bound the loss by how many they are") {
  // With 59 items of which one in twenty were lost, all are kept 4.8% of the time.
  std::vector<SampleScore> items;
  for (uint32_t i = 0; i < 59; ++i)
    items.push_back(itemOf(i, 1, 1));
  CHECK(leastBound(items) == doctest::Approx(0.0495).epsilon(0.01));
  CHECK(*lossUpperBound(items, LossMetric::kChoice) ==
        doctest::Approx(leastBound(items)).epsilon(0.01));
  for (double confidence : {0.95, 0.9833, 0.9999}) {
    CHECK(leastBound(items, confidence) ==
          doctest::Approx(1 - std::pow(1 - confidence, 1.0 / 59)).epsilon(1e-9));
    CHECK(*lossUpperBound(items, LossMetric::kExact, confidence) >= leastBound(items, confidence));
  }
  // An item that the reference gets wrong can lose nothing, and proves nothing.
  for (uint32_t i = 59; i < 200; ++i)
    items.push_back(itemOf(i, 0, 0));
  CHECK(leastBound(items) == leastBound(std::span(items).first(59)));
  CHECK(leastBound(std::span(items).last(100)) == 1);
}

TEST_CASE("a reference with points in one item of many gives a very wide bound") {
  std::vector<SampleScore> items;
  for (uint32_t i = 0; i < 30; ++i)
    items.push_back(itemOf(i, i == 7, i == 7));
  CHECK(*lossOf(sumOf(items), LossMetric::kChoice) == 0);
  CHECK(*lossUpperBound(items, LossMetric::kChoice) >= 0.95);
}

TEST_CASE("no bound of a fraction is above 1") {
  std::vector<SampleScore> windows, items;
  for (uint32_t i = 0; i < 20; ++i) {
    windows.push_back(windowOf(0, i, 22, 20, 1, i % 2 ? 0 : 5));
    items.push_back(itemOf(i, 0, 1));
  }
  CHECK(*lossUpperBound(windows, LossMetric::kTop1) == 1);
  CHECK(*lossUpperBound(items, LossMetric::kExact) == 1);
}

TEST_CASE("the document that decides the bound is named by its text, number, loss and part") {
  // Document 5 of the second text loses 100 times the mean of the others, which differ fourfold.
  std::vector<SampleScore> windows;
  for (uint32_t text = 0; text < 2; ++text)
    for (uint32_t i = 0; i < 30; ++i)
      for (uint32_t window = 0; window < 3; ++window)
        windows.push_back(
            windowOf(text, i, 22, 20, text == 1 && i == 4 ? 100 : std::exp(0.7 * (i % 6)) / 4, 9));
  const std::optional<HeavyUnit> heavy = heavyUnitOf(windows, LossMetric::kKl);
  REQUIRE(heavy);
  CHECK(heavy->text == 1);
  CHECK(heavy->unit == 4);
  CHECK(heavy->loss == doctest::Approx(10));
  CHECK(heavy->part > 0.9);
  CHECK(heavyUnitText(*heavy, "b.jsonl", "10 nats").find("unit 5 of b.jsonl loses 10 nats") !=
        std::string::npos);
  CHECK_FALSE(heavyUnitOf(windows, LossMetric::kTop1));                    // All agree alike.
  CHECK_FALSE(heavyUnitOf(std::span(windows).first(57), LossMetric::kKl)); // 19 documents.
}

TEST_CASE("the bound of a loss allocates exactly the stated bytes") {
  std::vector<SampleScore> windows;
  for (uint32_t i = 0; i < 500; ++i)
    windows.push_back(windowOf(i, i, 22, 20, 1 + i % 3, 9));
  const uint64_t before = allocatedBytesSoFar();
  lossUpperBound(windows, LossMetric::kKl);
  CHECK(allocatedBytesSoFar() - before == lossBoundMemoryBytes(windows.size()));
}
