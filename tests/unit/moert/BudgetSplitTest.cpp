#include "tools/moert/BudgetSplit.h"

#include "tests/unit/engine/SyntheticModel.h"

#include <doctest/doctest.h>

#include <cstdio>

using namespace moert;
using namespace moert::cli;

TEST_CASE("both get their smallest budget, and the rest in proportion to what they can use") {
  auto parts = splitBudget(200, {50, 150}, {30, 330});
  REQUIRE(parts);
  CHECK(parts->first == 50 + 30);
  CHECK(parts->second == 30 + 90);
}

TEST_CASE("neither gets more than it can use, nor both more than the total") {
  auto plenty = splitBudget(1000, {50, 150}, {30, 330});
  CHECK(plenty->first == 150);
  CHECK(plenty->second == 330);
  for (uint64_t total = 80; total < 600; total += 7) {
    auto parts = splitBudget(total, {50, 150}, {30, 330});
    REQUIRE(parts);
    CHECK(parts->first + parts->second <= total);
    CHECK(parts->first >= 50);
    CHECK(parts->second >= 30);
  }
}

TEST_CASE("less than both smallest budgets together cannot be divided") {
  CHECK(splitBudget(80, {50, 150}, {30, 330}));
  CHECK_FALSE(splitBudget(79, {50, 150}, {30, 330}));
  CHECK_FALSE(splitBudget(0, {UINT64_MAX, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}));
}

TEST_CASE("a model's range is from the smallest working budget to the largest useful one") {
  const std::string path = "budget_split_test.moe";
  REQUIRE(test::writeSyntheticModel(path, {}).isOk());
  auto model = Model::open(path);
  REQUIRE(model.isOk());
  EngineOptions options;
  options.contextTokens = 32;
  auto range = budgetRangeOf(**model, options);
  REQUIRE(range.isOk());
  options.memory = BudgetSize{range->smallestBytes, {}};
  CHECK(accountMemory(**model, options).isOk());
  options.memory = BudgetSize{range->smallestBytes - 4096, {}};
  CHECK_FALSE(accountMemory(**model, options).isOk());
  options.memory = BudgetSize{range->largestBytes * 2, {}};
  CHECK(accountMemory(**model, options)->totalBytes() == range->largestBytes);
  std::remove(path.c_str());
}
