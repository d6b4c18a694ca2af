// The choice of one of an artifact's plans.
#include "tests/unit/engine/EngineFixture.h"

#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

static Plan planOf(const std::string &name, const std::string &preset, uint64_t budgetBytes,
                   uint32_t quota) {
  Plan plan = smallPlan();
  plan.name = name;
  plan.preset = preset;
  plan.budgetBytes = budgetBytes;
  plan.quotaPages.assign(kLayers, quota);
  return plan;
}

TEST_CASE("the largest plan that fits is chosen, of the requested preset or of the first plan's") {
  // 42, 30 and 21 pages including the staging pages.
  TemporaryArtifact artifact(modelWith({
      planOf("8MiB auto", "auto", 8 << 20, 10),
      planOf("8MiB lru", "lru", 8 << 20, 10),
      planOf("4MiB auto", "auto", 4 << 20, 6),
      planOf("4MiB lru", "lru", 4 << 20, 6),
      planOf("2MiB auto", "auto", 2 << 20, 3),
  }));
  auto model = Model::open(artifact.path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  auto chosen = [&](std::optional<BudgetSize> memory, std::optional<std::string> preset = {}) {
    EngineOptions options = baseOptions();
    options.memory = memory;
    options.preset = preset;
    auto account = accountMemory(**model, options);
    REQUIRE_MESSAGE(account.isOk(), account.status().message());
    return (*model)->artifact().plans[account->plan].name;
  };
  double payload = static_cast<double>(footprintOf(**model).expertPayloadBytes);
  auto fractionOf = [&](double pages) { return BudgetSize{0, (pages + 0.5) * 4096 / payload}; };
  CHECK(chosen(BudgetSize{uint64_t(1) << 30, {}}) == "8MiB auto");
  CHECK(chosen({}) == "8MiB auto");
  CHECK(chosen(BudgetSize{uint64_t(1) << 30, {}}, "lru") == "8MiB lru");
  CHECK(chosen(fractionOf(42)) == "8MiB auto");
  CHECK(chosen(fractionOf(41)) == "4MiB auto");
  CHECK(chosen(fractionOf(29)) == "2MiB auto");
  CHECK(chosen(fractionOf(29), "lru") == "4MiB lru"); // None fits: the smallest.
  CHECK(chosen(fractionOf(20)) == "2MiB auto");
  CHECK(chosen(fractionOf(20), "8MiB lru") == "8MiB lru");
}

TEST_CASE("a plan whose budget is within the given one is chosen, even if it has more pages") {
  TemporaryArtifact small(modelWith({planOf("small", "lru", 0, 6)}));
  auto model = Model::open(small.path);
  REQUIRE(model.isOk());
  EngineOptions options = optionsOf(**model, smallPlan());
  options.prefillChunk = 16; // Otherwise a smaller budget takes smaller chunks first.
  uint64_t bytes = accountMemory(**model, options).value().totalBytes();
  // This budget leaves 30 pages to the run. The first plan has more: it is for a shorter context.
  TemporaryArtifact both(
      modelWith({planOf("within", "lru", bytes, 9), planOf("less", "lru", bytes - 4096, 3)}));
  auto planned = Model::open(both.path);
  REQUIRE(planned.isOk());
  options.memory = BudgetSize{bytes + 16384, {}};
  CHECK(accountMemory(**planned, options).value().plan == 0);
  options.memory = BudgetSize{bytes - 1, {}};
  CHECK(accountMemory(**planned, options).value().plan == 1);
}

TEST_CASE("a plan's chunk has no more rows than the context has tokens") {
  Plan plan = smallPlan();
  plan.prefillChunk = 512;
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = baseOptions();
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  options.contextTokens = 33; // Kept in blocks of 32.
  CHECK(accountMemory(**model, options).value().prefillChunk == 33);
}

TEST_CASE("with any number of threads a plan runs within the budget that it was planned for") {
  for (MissAction action : {MissAction::kWait, MissAction::kSkip}) {
    Plan plan = smallPlan();
    plan.miss = {.action = action, .waitUpTo = kFixedPointOne / 2};
    TemporaryArtifact artifact(modelWith({plan}));
    auto model = Model::open(artifact.path);
    REQUIRE(model.isOk());
    EngineOptions options = baseOptions();
    options.prefillChunk = 1;
    options.threads = kPlannedThreads;
    const uint64_t planned = smallestBudget(**model, options).value();
    for (uint32_t threads : {1u, 2u, kPlannedThreads, 64u, 1024u}) {
      options.threads = threads;
      for (uint32_t extra : {0u, 1u, 4u}) {
        options.memory = BudgetSize{planned + extra * (1 << 20), {}};
        auto account = accountMemory(**model, options);
        REQUIRE_MESSAGE(account.isOk(), account.status().message());
        CHECK(account->totalBytes() <= planned + extra * (1 << 20));
        CHECK(account->threads >= std::min(threads, kPlannedThreads));
        CHECK(account->threads <= threads);
      }
      CHECK(smallestBudget(**model, options).value() <= planned);
    }
    options.memory = BudgetSize{planned - 1, {}};
    CHECK_FALSE(accountMemory(**model, options).isOk());
    options.threads = 64;
    options.memory = BudgetSize{planned, {}};
    Loaded loaded = load(artifact.path, options);
    CHECK(loaded.engine->account().threads < 64);
  }
}

TEST_CASE("a preset that the artifact does not hold is refused with those that it holds") {
  TemporaryArtifact artifact(
      modelWith({planOf("8MiB auto", "auto", 8 << 20, 8), planOf("8MiB lru", "lru", 8 << 20, 8),
                 planOf("4MiB auto", "auto", 4 << 20, 4)}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = baseOptions();
  options.preset = "fate";
  Status refused = accountMemory(**model, options).status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message() == artifact.path + " holds no plan of 'fate', expected one of its own: "
                                             "'auto', 'lru'; moec replan makes an artifact with "
                                             "another");
}

TEST_CASE("a plan that the artifact does not have is refused") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = baseOptions();
  options.plan = static_cast<uint32_t>((*model)->artifact().plans.size());
  auto refused = accountMemory(**model, options);
  CHECK(refused.status().code() == StatusCode::kInvalidInput);
  CHECK(refused.status().message().find("plan 1, expected one of its 1") != std::string::npos);
}
