// The genetic division of a cache: within its bounds, near the best, and the same each time.
#include "compiler/plan/GeneticAllotment.h"

#include <doctest/doctest.h>
#include <numeric>

using namespace moec;
using namespace moert;

namespace {

CacheShape shapeOf(std::vector<uint32_t> experts, uint64_t recordPages) {
  CacheShape shape;
  for (uint32_t each : experts)
    shape.layers.push_back({each, 2, recordPages, 2 * recordPages, each * recordPages});
  return shape;
}

using LossOf = std::function<double(std::span<const uint32_t>)>;

uint64_t pagesOfAll(const CacheShape &shape, const ExpertCounts &counts) {
  uint64_t pages = 0;
  for (size_t l = 0; l < counts.size(); ++l)
    pages += pagesOf(shape.layers[l], counts[l]);
  return pages;
}

} // namespace

TEST_CASE("the best of all configurations of three layers is found") {
  const CacheShape shape = shapeOf({8, 8, 8}, 3);
  const LossOf lossOf = [](std::span<const uint32_t> counts) {
    const double needs[] = {7, 2, 4};
    double loss = 0;
    for (size_t l = 0; l < 3; ++l)
      loss += needs[l] / counts[l] + (counts[0] > 4 && counts[2] > 4 ? -0.01 : 0);
    return loss;
  };
  double least = 1e9;
  for (uint32_t a = 1; a <= 8; ++a)
    for (uint32_t b = 1; b <= 8; ++b)
      for (uint32_t c = 1; c <= 8; ++c)
        if (a + b + c <= 13)
          least = std::min(least, lossOf(std::vector<uint32_t>{a, b, c}));
  const ExpertCounts found = evolveCounts({shape, 13 * 3 + 2, lossOf}, {.generations = 200});
  CHECK(lossOf(found) == least);
}

TEST_CASE("each layer has at least one expert and at most all, within the pages") {
  const CacheShape shape = shapeOf({2, 16, 5, 16, 1, 9}, 2);
  // Everything for the second layer.
  const LossOf lossOf = [](std::span<const uint32_t> counts) { return -double(counts[1]); };
  for (uint64_t pages : {12, 13, 20, 60, 98, 200}) {
    CAPTURE(pages);
    const ExpertCounts found = evolveCounts({shape, pages, lossOf}, {.generations = 100});
    CHECK(pagesOfAll(shape, found) <= pages);
    for (size_t l = 0; l < found.size(); ++l) {
      CHECK(found[l] >= 1);
      CHECK(found[l] <= shape.layers[l].experts);
    }
    CHECK(found[1] == std::min<uint64_t>(16, pages / 2 - 5));
  }
}

TEST_CASE("the same seed finds the same configuration") {
  const CacheShape shape = shapeOf(std::vector<uint32_t>(12, 16), 4);
  const LossOf lossOf = [](std::span<const uint32_t> counts) {
    double loss = 0;
    for (size_t l = 0; l < counts.size(); ++l)
      loss += double((l * 7) % 5 + 1) / counts[l];
    return loss;
  };
  const GeneticOptions few = {.generations = 50};
  CHECK(evolveCounts({shape, 300, lossOf}, few) == evolveCounts({shape, 300, lossOf}, few));
}
