#include "runtime/generation/NgramStop.h"

#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>

using namespace moert;

/// The number of tokens after which the generation ends; 0: never.
static size_t endOf(const NgramStopOptions &options, const std::vector<int32_t> &tokens) {
  NgramStop stop(options, static_cast<uint32_t>(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i)
    if (stop.take(tokens[i]))
      return i + 1;
  return 0;
}

TEST_CASE("a generation ends once its last n-gram has occurred often enough") {
  const std::vector<int32_t> tokens = {1, 2, 9, 1, 2, 8, 1, 2, 7};
  CHECK(endOf({2, 2}, tokens) == 5);
  CHECK(endOf({2, 3}, tokens) == 8);
  CHECK(endOf({2, 4}, tokens) == 0);
  CHECK(endOf({3, 2}, tokens) == 0);
  CHECK(endOf({1, 2}, tokens) == 4);
}

TEST_CASE("occurrences of an n-gram may overlap") {
  CHECK(endOf({2, 3}, {5, 5, 5, 5, 5}) == 4);
  CHECK(endOf({3, 2}, {1, 2, 1, 2, 1, 2}) == 5);
}

TEST_CASE("an n-gram longer than the generation never ends it") {
  CHECK(endOf({4, 2}, {1, 1, 1}) == 0);
  CHECK(endOf({}, {1, 1, 1, 1, 1, 1}) == 0);
}

TEST_CASE("an n-gram stop needs at least two occurrences and a bounded length") {
  CHECK(check(NgramStopOptions{}).isOk());
  CHECK(check({20, 2}).isOk());
  CHECK(check({20, 1}).code() == StatusCode::kInvalidInput);
  CHECK(check({20, 0}).code() == StatusCode::kInvalidInput);
  CHECK(check({5000, 2}).code() == StatusCode::kInvalidInput);
}

TEST_CASE("counting n-grams allocates nothing up to the stated number of tokens") {
  NgramStop stop({3, 2}, 100);
  const uint64_t before = allocationsSoFar();
  bool isRepeated = false;
  for (int32_t token = 0; token < 100; ++token)
    isRepeated = stop.take(token) || isRepeated;
  CHECK(allocationsSoFar() == before);
  CHECK_FALSE(isRepeated);
}
