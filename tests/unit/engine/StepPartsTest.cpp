#include "runtime/engine/StepParts.h"

#include "tests/unit/engine/EngineFixture.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace moert;
using namespace moert::test;

static Program programOf(std::vector<Instruction> instructions, std::vector<int32_t> layers) {
  Program program;
  program.name = "decode";
  program.instructions = std::move(instructions);
  program.layers = std::move(layers);
  return program;
}

static LinearInstruction linear(int32_t dst, int32_t weight = 0) {
  return {0, dst, weight, kNone};
}

TEST_CASE("a product is classified by its role") {
  LinearInstruction product = linear(1);
  CHECK(partOf(product) == StepPart::kDense);
  product.role = ProductRole::kAttention;
  CHECK(partOf(product) == StepPart::kAttentionProducts);
  product.role = ProductRole::kRouter;
  CHECK(partOf(product) == StepPart::kRouter);
}

TEST_CASE("every other instruction is classified by its kind") {
  CHECK(partOf(StoreKvInstruction{1, 2, 0}) == StepPart::kAttention);
  CHECK(partOf(AttendInstruction{{1, 3, 0, 1, 1}, 0}) == StepPart::kAttention);
  CHECK(partOf(LinearHeadsInstruction{}) == StepPart::kAttentionProducts);
  CHECK(partOf(RouteInstruction{}) == StepPart::kRouter);
  CHECK(partOf(GateRowsInstruction{}) == StepPart::kDense);
  CHECK(partOf(ScaleInstruction{}) == StepPart::kSums);
  CHECK(partOf(HeadInstruction{0, 0, kNone, 1}) == StepPart::kHead);
}

TEST_CASE("a token needs one row of the embedding, all other matrices, no predict weights") {
  std::vector<ResidentWeight> residents(4);
  for (size_t i = 0; i < residents.size(); ++i) {
    residents[i].shape = {10, 4};
    residents[i].bytes = 1000 * (i + 1);
  }
  const Program program =
      programOf({EmbedInstruction{0, 0, 1}, linear(1, 1), LinearInstruction{0, 2, 1, 2},
                 PredictInstruction{0, 1, 3, kNone, 1, 1}, HeadInstruction{0, 0, kNone, 1}},
                {kNone, 0, 0, 0, kNone});
  PartNumbers expected{};
  expected[size_t(StepPart::kEmbedding)] = 100;
  expected[size_t(StepPart::kDense)] = 2000 + 2000 + 3000;
  expected[size_t(StepPart::kHead)] = 1000;
  CHECK(weightBytesOf(program, residents) == expected);
}

static uint64_t total(const PartNumbers &numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), uint64_t(0));
}

TEST_CASE("the parts of every step add up to its layers' compute time") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.threads = 2;
  options.prefillChunk = 2;
  options.memory = BudgetSize{smallestBudget(artifact.path, options) + 40000, {}};
  Loaded loaded = load(artifact.path, options);
  Silent observer;
  PartNumbers sums{};
  auto step = [&](std::span<const int32_t> tokens) {
    SessionTokens next = {loaded.session.get(), tokens, LogitsWanted::kLast};
    const uint64_t before = monotonicNs();
    REQUIRE(loaded.engine->step({&next, 1}, observer).isOk());
    const uint64_t wallNs = monotonicNs() - before;
    uint64_t computeNs = 0, waitNs = 0;
    for (const LayerProfile &layer : loaded.engine->lastStep()) {
      computeNs += layer.computeNs;
      waitNs += layer.waitNs;
    }
    const PartNumbers &parts = loaded.engine->lastStepParts();
    CHECK(total(parts) == computeNs);
    CHECK(computeNs + waitNs <= wallNs);
    for (StepPart part : {StepPart::kAttentionProducts, StepPart::kExperts, StepPart::kHead})
      CHECK(parts[size_t(part)] > 0);
    for (size_t i = 0; i < kStepParts; ++i)
      sums[i] += parts[i];
  };
  const size_t chunk = loaded.engine->prefillChunk();
  REQUIRE(chunk > 1);
  step(std::span(kPrompt).first(chunk)); // The other program.
  for (const int32_t &token : std::span(kPrompt).subspan(chunk))
    step({&token, 1});
  CHECK(sums[size_t(StepPart::kChecksums)] > 0);
  CHECK(sums[size_t(StepPart::kRequests)] > 0);
}

TEST_CASE("without reads no time counts as verification or requests") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  Silent observer;
  for (int round = 0; round < 2; ++round) {
    loaded.session->reset();
    for (const int32_t &token : kPrompt) {
      SessionTokens next = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
      REQUIRE(loaded.engine->step({&next, 1}, observer).isOk());
      const PartNumbers &parts = loaded.engine->lastStepParts();
      if (round > 0) {
        CHECK(parts[size_t(StepPart::kChecksums)] == 0);
        CHECK(parts[size_t(StepPart::kRequests)] == 0);
      }
    }
  }
}

TEST_CASE("all remaining weights get all of the time, however long and large") {
  for (uint64_t ns = 1'000'000'001; ns < 1'000'000'201; ns += 2)
    for (uint64_t bytes : {3u, 123'456'789u, 299'999'999u})
      CHECK(partOfTime(ns, bytes, bytes) == ns);
}

TEST_CASE("weights get time in proportion to their bytes") {
  CHECK(partOfTime(1000, 1, 4) == 250);
  CHECK(partOfTime(1000, 0, 4) == 0);
  CHECK(partOfTime(0, 1, 4) == 0);
}
