// Budget changes for which memory is missing, at each place where some is allocated.
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/support/FailAllocations.h"

#include <doctest/doctest.h>
#include <set>

using namespace moert;
using namespace moert::test;

namespace {

/// The logits of the whole prompt, in a session of its own.
std::vector<float> prefilled(Loaded &loaded) {
  Recorder recorder;
  loaded.session->reset();
  const Status done =
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder);
  REQUIRE_MESSAGE(done.isOk(), done.message());
  return recorder.logits;
}

Plan planOf(uint32_t records, uint32_t chunk, bool usesPathTable) {
  Plan plan = smallPlan();
  plan.name = std::to_string(records) + " records";
  plan.quotaPages.assign(kLayers, records * kRecordPages);
  plan.prefillChunk = chunk;
  plan.pinned.assign(kLayers, {1});
  if (usesPathTable) {
    plan.prefetches.assign(kLayers, {Predictor::kPaths, 1, kExperts, kTopK, 0});
    plan.prefetches[0] = {};
  }
  return plan;
}

/// Changes from one plan to the other, each allocation failing once, and at last none.
std::set<AllocationKind> changeWithFailures(Loaded &loaded, size_t to,
                                            const std::vector<float> &expected) {
  const Plan &wanted = loaded.model->artifact().plans[to];
  const BudgetSize budget = *optionsOf(*loaded.model, wanted).memory;
  const MemoryAccount before = loaded.engine->account();
  REQUIRE(before.plan != to);
  std::set<AllocationKind> kinds;
  for (uint64_t successes = 0;; ++successes) {
    CAPTURE(successes);
    Status changed;
    AllocationKind kind;
    {
      const FailingAllocation failing(successes);
      changed = loaded.engine->setBudget(budget);
      kind = failing.failed();
    }
    CAPTURE(int(kind));
    kinds.insert(kind);
    // Registering a pool is given up without an error.
    const bool mayGoOn = kind == AllocationKind::kNoAllocation || kind == AllocationKind::kNew;
    REQUIRE((!changed.isOk() || mayGoOn));
    if (!changed.isOk()) {
      CAPTURE(changed.message());
      CHECK(changed.code() == StatusCode::kFailed);
      CHECK(changed.message().find("changing the memory budget") != std::string::npos);
      CHECK(changed.message().find("memory") != std::string::npos);
      CHECK(loaded.engine->account().plan == before.plan);
      CHECK(loaded.engine->account().totalBytes() == before.totalBytes());
      CHECK(loaded.engine->prefillChunk() == before.prefillChunk);
      REQUIRE(sameBytes(expected, prefilled(loaded)));
      continue;
    }
    CHECK(loaded.engine->account().plan == to);
    REQUIRE(sameBytes(expected, prefilled(loaded)));
    if (kind == AllocationKind::kNoAllocation)
      return kinds;
    REQUIRE(loaded.engine
                ->setBudget(
                    *optionsOf(*loaded.model, loaded.model->artifact().plans[before.plan]).memory)
                .isOk());
  }
}

} // namespace

TEST_CASE("a budget change that fails anywhere leaves the engine with the budget before") {
  // Pool and chunk grow and shrink together, or one of them grows while the other shrinks; the last
  // one also loads activation paths, or drops them.
  SyntheticOptions synthetic =
      modelWith({planOf(6, 16, false), planOf(1, 8, false), planOf(3, 48, true)});
  synthetic.paths = pathsOf({3, 1, 0, 2, 7, 6, 5, 4});
  TemporaryArtifact artifact(synthetic);
  for (IoBackend io : {IoBackend::kThreads, IoBackend::kUring}) {
    EngineOptions options = baseOptions();
    options.io = io;
    const auto model = Model::open(artifact.path);
    REQUIRE(model.isOk());
    options.memory = optionsOf(**model, synthetic.plans[0]).memory;
    const auto account = accountMemory(**model, options);
    REQUIRE(account.isOk());
    if (!Engine::load(**model, options, *account).isOk()) {
      MESSAGE("SKIPPED: no " << ioBackendName(io) << " here");
      continue;
    }
    Loaded loaded = load(artifact.path, options);
    const std::vector<float> expected = prefilled(loaded);
    std::set<AllocationKind> kinds;
    for (size_t to : {1u, 2u, 0u, 2u, 1u, 0u})
      kinds.merge(changeWithFailures(loaded, to, expected));
    // Not kMap: a loaded engine has all its regions, so they grow. HostMemoryTest.cpp has it.
    CHECK(kinds.contains(AllocationKind::kNew));
    CHECK(kinds.contains(AllocationKind::kRemap));
    CHECK(kinds.contains(AllocationKind::kPopulate));
  }
}
