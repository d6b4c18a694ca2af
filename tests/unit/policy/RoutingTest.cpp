#include "runtime/policy/Routing.h"

#include <array>
#include <doctest/doctest.h>
#include <limits>

using namespace moert;

TEST_CASE("experts come best first and ties go to the lowest index") {
  std::array<float, 6> scores = {0.1f, 0.3f, 0.2f, 0.3f, 0.05f, 0.05f};
  std::array<int32_t, 4> experts;
  std::array<float, 4> weights;
  chooseExperts(scores, {4, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 4>{1, 3, 2, 0});
  CHECK(weights == std::array<float, 4>{0.3f, 0.3f, 0.2f, 0.1f});
}

TEST_CASE("renormalized weights are divided by the sum over the chosen, then scaled") {
  std::array<float, 3> scores = {0.25f, 0.125f, 0.625f};
  std::array<int32_t, 2> experts;
  std::array<float, 2> weights;
  chooseExperts(scores, {2, true, 2}, experts, weights);
  CHECK(weights[0] == 0.625f / 0.875f * 2);
  CHECK(weights[1] == 0.25f / 0.875f * 2);
}

TEST_CASE("NaN is chosen only when nothing else is left, and every index stays valid") {
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::array<float, 4> scores = {nan, 0.5f, nan, 0.1f};
  std::array<int32_t, 3> experts;
  std::array<float, 3> weights;
  chooseExperts(scores, {3, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 3>{1, 3, 0});
}

TEST_CASE("all experts can be chosen") {
  std::array<float, 3> scores = {0.2f, 0.5f, 0.3f};
  std::array<int32_t, 3> experts;
  std::array<float, 3> weights;
  chooseExperts(scores, {3, false, 1}, experts, weights);
  CHECK(experts == std::array<int32_t, 3>{1, 2, 0});
}
