#include "compiler/plan/BudgetPlan.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

/// Two layers of 8 experts, a page of 4 KiB each, and 1 MiB of weights.
static ModelFootprint tinyModel() {
  ModelFootprint model;
  model.residentBytes = 1 << 20;
  model.kvBytesPerToken = 64;
  model.arenaBytesPerToken = 1024;
  model.logitsBytes = 4096;
  model.pageBytes = 4096;
  model.expertPayloadBytes = 16 * 4096;
  for (int layer = 0; layer < 2; ++layer)
    model.cache.layers.push_back({8, 2, 1, 2, 8});
  return model;
}

static const std::vector<std::string> kNone;

TEST_CASE("without budgets there is one plan, which holds every expert") {
  auto plans = planBudgets(tinyModel(), kNone, {});
  REQUIRE(plans.isOk());
  REQUIRE(plans->size() == 1);
  CHECK(plans->front().name == "default");
  CHECK(plans->front().budgetBytes == 0);
  CHECK(plans->front().contextTokens == kDefaultContext);
  CHECK(plans->front().prefillChunk == kDefaultPrefillChunk);
  CHECK(plans->front().allotment.totalPages() == 16);
}

TEST_CASE("a plan's account is within its budget, and a smaller budget holds fewer experts") {
  const std::vector<std::string> budgets = {"25%", "75%"};
  auto plans = planBudgets(tinyModel(), budgets, {});
  REQUIRE_MESSAGE(plans.isOk(), plans.status().message());
  REQUIRE(plans->size() == 2);
  CHECK((*plans)[0].name == "75%");
  CHECK((*plans)[1].name == "25%");
  for (const BudgetPlan &plan : *plans) {
    auto account = accountOf(tinyModel(), plan, {});
    REQUIRE_MESSAGE(account.isOk(), account.status().message());
    CHECK(account->totalBytes() <= plan.budgetBytes);
  }
  CHECK((*plans)[0].allotment.totalPages() == 12);
  CHECK((*plans)[1].allotment.totalPages() == 4);
}

TEST_CASE("a budget that is too small is refused with the smallest that works, which does") {
  auto plan = planBudget(tinyModel(), "2MiB", Preset::kAuto, {});
  REQUIRE(plan.isOk());
  Status status = accountOf(tinyModel(), *plan, {}).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  const std::string words = "the smallest budget that works is ";
  size_t at = status.message().find(words);
  REQUIRE(at != std::string::npos);
  const std::string smallest = status.message().substr(at + words.size());
  const std::string bytes = smallest.substr(0, smallest.find(' ')) + "B";
  auto works = planBudget(tinyModel(), bytes, Preset::kAuto, {});
  REQUIRE(works.isOk());
  CHECK(accountOf(tinyModel(), *works, {}).isOk());
}

TEST_CASE("budgets that say nothing are refused") {
  const std::vector<std::string> twice = {"25%", "25%"}, words = {"much"}, small = {"1%"};
  for (const auto &[budgets, mention] :
       {std::pair(&twice, "given twice"), {&words, "much"}, {&small, "largest record"}}) {
    Status status = planBudgets(tinyModel(), *budgets, {}).status();
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(status.message().find(mention) != std::string::npos, status.message());
  }
}

TEST_CASE("each preset has a plan for each budget and its own name") {
  const std::vector<std::string> budgets = {"25%", "75%"};
  PlannedUse use;
  use.presets = {Preset::kLru, Preset::kAuto};
  auto plans = planBudgets(tinyModel(), budgets, use);
  REQUIRE_MESSAGE(plans.isOk(), plans.status().message());
  std::vector<std::string> names;
  for (const BudgetPlan &plan : *plans) {
    names.push_back(plan.name);
    CHECK(plan.name.ends_with(presetName(plan.preset)));
  }
  CHECK(names == std::vector<std::string>{"75% lru", "75% auto", "25% lru", "25% auto"});
}

TEST_CASE("one preset does not change the names of plans") {
  PlannedUse use;
  use.presets = {Preset::kLoadOnDemand};
  auto plans = planBudgets(tinyModel(), kNone, use);
  REQUIRE(plans.isOk());
  REQUIRE(plans->size() == 1);
  CHECK(plans->front().name == "default");
  CHECK(plans->front().preset == Preset::kLoadOnDemand);
}

TEST_CASE("a budget that is given twice is refused, however it is written") {
  auto refusal = [](std::vector<std::string> budgets) {
    return planBudgets(tinyModel(), budgets, PlannedUse()).status().message();
  };
  CHECK(refusal({"25%", "25%"}) == "budget 25% is given twice; plan names must be unique");
  CHECK(refusal({"25%", "50%", "25.0%"}) ==
        "budget 25.0% is given twice, before as 25%; plan names must be unique");
  CHECK(refusal({"512MiB", "0.5GiB"}) ==
        "budget 0.5GiB is given twice, before as 512MiB; plan names must be unique");
  CHECK(refusal({"512MiB", "512MB", "51.2%", "51%"}) == "");
}

TEST_CASE("a preset that is given twice is refused") {
  PlannedUse use;
  use.presets = {Preset::kLru, Preset::kLru};
  Status status = planBudgets(tinyModel(), kNone, use).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("preset lru is given twice") != std::string::npos);
}
