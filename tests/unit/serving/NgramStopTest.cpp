#include "runtime/serving/NgramStop.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert;

/// The number of tokens after which the generation ends; 0: never.
static size_t endOf(const NgramStopOptions &options, const std::vector<int32_t> &tokens) {
  for (size_t count = 1; count <= tokens.size(); ++count)
    if (repeatsItself(options, std::span(tokens).first(count)))
      return count;
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
