#include "runtime/policy/Capacity.h"

#include <array>
#include <doctest/doctest.h>
#include <vector>

using namespace moert;

namespace {

constexpr uint32_t kExperts = 3;

/// The choices of a call, one row per token.
struct Call {
  std::vector<int32_t> experts;
  std::vector<float> weights;
  uint32_t topK;
  std::vector<float> passed = std::vector<float>(experts.size() / topK);

  Call &apply(const CapacityRule &rule) {
    std::array<uint32_t, kExperts> places;
    const auto tokens = static_cast<uint32_t>(passed.size());
    std::vector<uint32_t> order(tokens);
    applyCapacity(rule, {tokens, topK, experts.data(), weights.data(), passed.data(), topK, 1},
                  places, order.data());
    return *this;
  }
};

using Experts = std::vector<int32_t>;
using Weights = std::vector<float>;

} // namespace

TEST_CASE("a capacity is a number of tokens, a fraction of them, or a multiple of an even share") {
  const auto of = [](CapacityKind kind, float capacity, uint32_t tokens, uint32_t topK) {
    return capacityOf({kind, capacity}, tokens, topK, kExperts);
  };
  CHECK(of(CapacityKind::kTokens, 64, 1000, 1) == 64);
  CHECK(of(CapacityKind::kTokenFraction, 0.35f, 24, 2) == 9);
  CHECK(of(CapacityKind::kTokenFraction, 0.35f, 20, 2) == 7); // 0.35f * 20 in f32 is 7.
  CHECK(of(CapacityKind::kTokenFraction, 1, 24, 2) == 24);
  // 2 * floor(1.25 * ceil(10 / 3)) = 2 * floor(5).
  CHECK(of(CapacityKind::kEvenSplit, 1.25f, 10, 2) == 10);
}

TEST_CASE("tokens beyond an expert's capacity are dropped in their order") {
  Call call = {{1, 1, 0, 1}, {0.5f, 0.6f, 0.7f, 0.8f}, 1};
  call.apply({.capacity = 2});
  CHECK(call.experts == Experts{1, 1, 0, -1});
  CHECK(call.weights == Weights{0.5f, 0.6f, 0.7f, 0});
  CHECK(call.passed == Weights{0, 0, 0, 0.8f});
}

TEST_CASE("by priority the tokens with the smallest weights are dropped, of equal ones the last") {
  Call call = {{1, 1, 1, 1}, {0.5f, 0.6f, 0.5f, 0.8f}, 1};
  call.apply({.capacity = 3, .byPriority = true});
  CHECK(call.experts == Experts{1, 1, -1, 1});
}

TEST_CASE("second choices take their places after all first ones, also after dropped ones") {
  // Expert 0: first choices of tokens 0, 1 and 2, of which the last is dropped, then the second
  // choice of token 3.
  Call call = {{0, 1, 0, 2, 0, 1, 1, 0}, {0.5f, 0.25f, 0.5f, 0.25f, 0.5f, 0.25f, 0.5f, 0.25f}, 2};
  call.apply({.capacity = 2});
  CHECK(call.experts == Experts{0, 1, 0, 2, -1, -1, 1, -1});
}

TEST_CASE("weights are divided by their sum before dropping or by that of the kept ones") {
  const Call routed = {{0, 1, 0, 1}, {0.5f, 0.25f, 0.5f, 0.25f}, 2};
  Call before = routed, after = routed;
  before.apply({.capacity = 1, .normalizesBefore = true, .weightScale = 0.75f});
  CHECK(before.weights == Weights{0.5f / 0.75f * 0.75f, 0.25f / 0.75f * 0.75f, 0, 0});
  CHECK(before.passed == Weights{0, 0.5f / 0.75f * 0.75f + 0.25f / 0.75f * 0.75f});
  Call half = {{0, 1, 0, 2}, {0.5f, 0.25f, 0.5f, 0.25f}, 2};
  half.apply({.capacity = 1, .normalizesAfter = true, .weightScale = 0.5f});
  CHECK(half.experts == Experts{0, 1, -1, 2});
  CHECK(half.weights == Weights{0.5f / 0.75f * 0.5f, 0.25f / 0.75f * 0.5f, 0, 0.5f});
}

TEST_CASE("a token without any kept choice has weights of 0") {
  Call call = {{0, 1, 0, 1}, {0.5f, 0.25f, 0.5f, 0.25f}, 2};
  call.apply({.capacity = 1, .normalizesAfter = true});
  CHECK(call.experts == Experts{0, 1, -1, -1});
  CHECK(call.weights[2] == 0);
  CHECK(call.weights[3] == 0);
}
