// Which experts become prefetch candidates of a prediction.
#include "runtime/experts/Candidates.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace moert;

static std::vector<uint32_t> listed(std::vector<uint32_t> probabilities, uint32_t most) {
  std::vector<PrefetchCandidate> likeliest = {{99, 99}}; // Earlier content is replaced.
  listLikeliest(probabilities, most, likeliest);
  std::vector<uint32_t> experts;
  for (const PrefetchCandidate &candidate : likeliest) {
    CHECK(candidate.probability == probabilities[candidate.expert]);
    experts.push_back(candidate.expert);
  }
  return experts;
}

TEST_CASE("the likeliest experts are listed first, ties by the lowest index") {
  CHECK(listed({3, 9, 1, 9, 5}, 3) == std::vector<uint32_t>{1, 3, 4});
  CHECK(listed({7, 7, 7, 7}, 2) == std::vector<uint32_t>{0, 1});
  CHECK(listed({1, 2, 3, 3}, 4) == std::vector<uint32_t>{2, 3, 1, 0});
}

TEST_CASE("experts with probability 0 are not listed, nor more than exist") {
  CHECK(listed({0, 4, 0}, 3) == std::vector<uint32_t>{1});
  CHECK(listed({5, 4}, 9) == std::vector<uint32_t>{0, 1});
  CHECK(listed({5, 4}, 0).empty());
  CHECK(listed({}, 3).empty());
}

TEST_CASE("a list with room is not reallocated") {
  std::vector<PrefetchCandidate> likeliest;
  likeliest.reserve(2);
  const PrefetchCandidate *place = likeliest.data();
  listLikeliest(std::vector<uint32_t>{1, 2, 3, 4, 5, 6}, 2, likeliest);
  CHECK(likeliest.data() == place);
  CHECK(likeliest.size() == 2);
}

TEST_CASE("probabilities become fixed-point numbers, rounded down") {
  std::vector<uint32_t> sums(4);
  addProbabilities(std::vector<float>{1, 0.5f, 0x1p-24f, 0x1.8p-24f}, 1, sums);
  CHECK(sums == std::vector<uint32_t>{kFixedPointOne, kFixedPointOne / 2, 1, 1});
}

TEST_CASE("several tokens' probabilities are averaged") {
  std::vector<uint32_t> sums(2);
  addProbabilities(std::vector<float>{1, 0.25f}, 2, sums);
  addProbabilities(std::vector<float>{0, 0.75f}, 2, sums);
  CHECK(sums == std::vector<uint32_t>{kFixedPointOne / 2, kFixedPointOne / 2});
}

TEST_CASE("a value that is no probability counts as 0 or 1") {
  std::vector<uint32_t> sums(4);
  addProbabilities(std::vector<float>{NAN, -1, std::numeric_limits<float>::infinity(), 1.5f}, 1,
                   sums);
  CHECK(sums == std::vector<uint32_t>{0, 0, kFixedPointOne, kFixedPointOne});
}
