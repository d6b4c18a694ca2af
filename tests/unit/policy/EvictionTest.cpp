#include "runtime/policy/Eviction.h"

#include <doctest/doctest.h>
#include <vector>

using namespace moert;

static uint32_t victimOf(std::vector<EvictionCandidate> candidates) {
  return candidates[chooseVictim(EvictionPolicy::kLru, candidates)].expert;
}

TEST_CASE("the expert that was not used for longest is evicted first") {
  CHECK(victimOf({{0, 30, 0}, {1, 10, 0}, {2, 20, 0}}) == 1);
  CHECK(victimOf({{5, 7, 0}}) == 5);
}

TEST_CASE("of experts used by the same play the least popular is evicted first") {
  CHECK(victimOf({{0, 10, 0}, {1, 10, 2}, {2, 10, 1}}) == 1);
  CHECK(victimOf({{0, 9, 0}, {1, 10, 2}, {2, 10, 1}}) == 0);
}

TEST_CASE("among equals the lowest expert is evicted, in whatever order they stand") {
  CHECK(victimOf({{4, 10, 1}, {2, 10, 1}, {3, 10, 1}}) == 2);
  CHECK(victimOf({{2, 10, 1}, {3, 10, 1}, {4, 10, 1}}) == 2);
}
