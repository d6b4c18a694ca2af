// Engines whose budget changes while they are at work.
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"

#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>
#include <fstream>

using namespace moert;
using namespace moert::test;

namespace {

constexpr uint64_t kMiB = 1 << 20;

/// A ladder: six, three and one of the eight records of each layer, apart from the staging pages.
SyntheticOptions ladder(bool prefetches = false) {
  std::vector<Plan> plans;
  for (uint32_t records : {6, 3, 1}) {
    Plan plan = smallPlan();
    plan.name = std::to_string(records) + " records";
    plan.quotaPages.assign(kLayers, records * kRecordPages);
    if (prefetches)
      plan.prefetches = {
          {}, {Predictor::kGate, 1, kExperts, 4, 0}, {Predictor::kGate, 2, kExperts, 3, 0}};
    plans.push_back(plan);
  }
  return modelWith(plans);
}

BudgetSize budgetOf(const Model &model, const Plan &plan) {
  return *optionsOf(model, plan).memory;
}

const std::string &planName(const Engine &engine) {
  return engine.model().artifact().plans[engine.account().plan].name;
}

/// Logits of the prompt, token by token; before the given tokens the budget of a plan is set.
std::vector<float> decodeChanging(Loaded &loaded,
                                  const std::vector<std::pair<size_t, size_t>> &changes) {
  Recorder recorder;
  for (size_t i = 0; i < kPrompt.size(); ++i) {
    for (const auto &[token, plan] : changes)
      if (token == i) {
        const Plan &wanted = loaded.model->artifact().plans[plan];
        Status changed = loaded.engine->setBudget(budgetOf(*loaded.model, wanted));
        REQUIRE_MESSAGE(changed.isOk(), changed.message());
        CHECK(planName(*loaded.engine) == wanted.name);
      }
    SessionTokens one = {loaded.session.get(), {&kPrompt[i], 1}, LogitsWanted::kLast};
    Status done = loaded.engine->step({&one, 1}, recorder);
    REQUIRE_MESSAGE(done.isOk(), done.message());
  }
  return recorder.logits;
}

uint64_t privateBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;)
    if (uint64_t kibibytes = 0; name == "RssAnon:" && status >> kibibytes)
      return kibibytes * 1024;
  return 0;
}

} // namespace

TEST_CASE("budgets that go down and up change no bit, with each way of reading") {
  for (bool prefetches : {false, true}) {
    TemporaryArtifact artifact(ladder(prefetches));
    Loaded undisturbed = load(artifact.path, baseOptions());
    const std::vector<float> expected = decodeChanging(undisturbed, {});
    for (IoBackend io : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
      EngineOptions options = baseOptions();
      options.io = io;
      options.threads = 3;
      auto model = Model::open(artifact.path);
      REQUIRE(model.isOk());
      auto account = accountMemory(**model, options);
      REQUIRE(account.isOk());
      if (auto engine = Engine::load(**model, options, *account); !engine.isOk()) {
        MESSAGE("SKIPPED: " << engine.status().message());
        continue;
      }
      Loaded loaded = load(artifact.path, options);
      CAPTURE(loaded.engine->ioDescription());
      CHECK(sameBytes(expected,
                      decodeChanging(loaded, {{2, 2}, {5, 0}, {6, 1}, {9, 2}, {10, 1}, {14, 0}})));
    }
  }
}

TEST_CASE("a budget that changes from a plan that waits to one that lowers to low copies beside "
          "floats") {
  constexpr uint32_t kFloatPages = 5; // A record without its low copy.
  SyntheticOptions synthetic = ladder();
  synthetic.experts = WeightKind::kBF16;
  synthetic.lowCopy = {WeightKind::kInt2};
  synthetic.plans.pop_back();
  for (Plan &plan : synthetic.plans) {
    plan.stagingPages = 4 * kFloatPages;
    plan.quotaPages.assign(kLayers, (&plan == &synthetic.plans[0] ? 6 : 3) * kFloatPages);
  }
  synthetic.plans[1].miss = {.action = MissAction::kLowerPrompts, .lowSlices = 1};
  TemporaryArtifact artifact(synthetic);
  const auto prefillWith = [&](size_t loadedPlan, size_t plan) {
    EngineOptions options = baseOptions();
    options.threads = 3;
    options.memory = budgetOf(*Model::open(artifact.path).value(), synthetic.plans[loadedPlan]);
    Loaded loaded = load(artifact.path, options);
    CHECK(planName(*loaded.engine) == synthetic.plans[loadedPlan].name);
    REQUIRE(loaded.engine->setBudget(budgetOf(*loaded.model, synthetic.plans[plan])).isOk());
    CHECK(planName(*loaded.engine) == synthetic.plans[plan].name);
    Recorder recorder;
    REQUIRE(loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder)
                .isOk());
    return recorder.logits;
  };
  const std::vector<float> lowered = prefillWith(1, 1);
  CHECK(sameBytes(lowered, prefillWith(0, 1)));
  CHECK_FALSE(sameBytes(lowered, prefillWith(1, 0)));
}

TEST_CASE("experts that a smaller budget holds are not read again, and a larger one fills up") {
  TemporaryArtifact artifact(ladder());
  EngineOptions options = baseOptions();
  options.readQueue = makeSynchronousQueue;
  Loaded loaded = load(artifact.path, options);
  decodeChanging(loaded, {});
  loaded.session->reset();
  auto missesOf = [&](int32_t token) {
    Silent silent;
    SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    REQUIRE(loaded.engine->step({&one, 1}, silent).isOk());
    uint64_t misses = 0;
    for (const LayerProfile &layer : loaded.engine->lastStep())
      misses += layer.misses;
    return misses;
  };
  CHECK(missesOf(kPrompt[0]) == 0);
  const std::vector<Plan> &plans = loaded.model->artifact().plans;
  REQUIRE(loaded.engine->setBudget(budgetOf(*loaded.model, plans[1])).isOk());
  loaded.session->reset();
  CHECK(missesOf(kPrompt[0]) == 0); // Its experts were used last.
  REQUIRE(loaded.engine->setBudget(budgetOf(*loaded.model, plans[2])).isOk());
  loaded.session->reset();
  CHECK(missesOf(kPrompt[0]) == kLayers * (kTopK - 1));
  REQUIRE(loaded.engine->setBudget(*baseOptions().memory).isOk());
  for (int round = 0; round < 2; ++round) {
    loaded.session->reset();
    const uint64_t misses = missesOf(kPrompt[0]);
    CHECK(misses == (round == 0 ? kLayers * (kTopK - 1) : 0));
  }
}

TEST_CASE("the memory of a smaller budget is back with the system, in each way of reading") {
  // Records of 144 blocks: a pool of 24 of them is 13.5 MiB, half of it within huge pages.
  SyntheticOptions synthetic;
  synthetic.hidden = 4096;
  TemporaryArtifact artifact(synthetic);
  for (IoBackend io : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
    EngineOptions options = baseOptions();
    options.io = io;
    auto model = Model::open(artifact.path);
    REQUIRE(model.isOk());
    auto account = accountMemory(**model, options);
    if (!Engine::load(**model, options, *account).isOk()) {
      MESSAGE("SKIPPED: no " << ioBackendName(io) << " here");
      continue;
    }
    Loaded loaded = load(artifact.path, options);
    CAPTURE(loaded.engine->ioDescription());
    Recorder recorder;
    REQUIRE(loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder)
                .isOk());
    const uint64_t poolBefore = loaded.engine->account().poolPages * 4096, before = privateBytes();
    REQUIRE(loaded.engine->setBudget({0, 0.25}).isOk());
    const uint64_t poolAfter = loaded.engine->account().poolPages * 4096, after = privateBytes();
    REQUIRE(poolAfter < poolBefore / 2);
    if (before == 0) {
      MESSAGE("SKIPPED: no RssAnon here");
      continue;
    }
    // The heap may have taken some of it for the tables of the change.
    CHECK(before - after + kMiB / 2 > poolBefore - poolAfter);
    loaded.session->reset();
    Recorder again;
    REQUIRE(
        loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, again).isOk());
    CHECK(sameBytes(recorder.logits, again.logits));
  }
}

TEST_CASE("a budget below the smallest is refused with it, and the engine goes on as it was") {
  TemporaryArtifact artifact(ladder());
  const uint64_t smallest = smallestBudget(artifact.path, baseOptions());
  Loaded loaded = load(artifact.path, baseOptions());
  CHECK(smallestBudget(*loaded.model, baseOptions()).value() == smallest);
  Recorder before;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), std::span(kPrompt).first(6)}, before).isOk());
  const MemoryAccount account = loaded.engine->account();
  for (const BudgetSize &budget : {BudgetSize{smallest - 1, {}}, BudgetSize{0, 0.0001}}) {
    const Status refused = loaded.engine->setBudget(budget);
    CHECK(refused.code() == StatusCode::kInvalidInput);
    CHECK(refused.message().find("the smallest budget that works is " + std::to_string(smallest)) !=
          std::string::npos);
    CHECK(loaded.engine->account().totalBytes() == account.totalBytes());
    CHECK(loaded.engine->account().plan == account.plan);
  }
  REQUIRE(loaded.engine->setBudget({smallest, {}}).isOk());
  CHECK(loaded.engine->account().totalBytes() <= smallest);
  Recorder after, expected;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), std::span(kPrompt).subspan(6)}, after).isOk());
  Loaded undisturbed = load(artifact.path, baseOptions());
  REQUIRE(undisturbed.engine->prefill({undisturbed.session.get(), kPrompt}, expected).isOk());
  CHECK(sameBytes(expected.logits, after.logits));
}

TEST_CASE("a budget beyond the machine is refused, and nothing has changed") {
  TemporaryArtifact artifact(ladder());
  Loaded loaded = load(artifact.path, baseOptions());
  const Status refused = loaded.engine->setBudget({UINT64_MAX / 2, {}});
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("has ") != std::string::npos);
  CHECK(loaded.engine->account().budgetBytes == *&baseOptions().memory->bytes);
}

TEST_CASE("the prefill chunk follows the budget, and so do batches of several sessions") {
  Plan plan = smallPlan();
  plan.prefillChunk = 48;
  SyntheticOptions synthetic = modelWith({plan});
  TemporaryArtifact artifact(synthetic);
  EngineOptions options = baseOptions();
  options.sessions = 3;
  Loaded loaded = load(artifact.path, options);
  REQUIRE(loaded.engine->prefillChunk() == 48);
  std::vector<std::unique_ptr<Session>> others;
  for (int i = 0; i < 2; ++i)
    others.push_back(loaded.engine->createSession().value());
  auto decodeAll = [&] {
    loaded.session->reset();
    for (auto &session : others)
      session->reset();
    Recorder recorder;
    for (const int32_t &token : kPrompt) {
      SessionTokens batch[] = {{loaded.session.get(), {&token, 1}, LogitsWanted::kLast},
                               {others[0].get(), {&token, 1}, LogitsWanted::kLast},
                               {others[1].get(), {&token, 1}, LogitsWanted::kLast}};
      REQUIRE(loaded.engine->step(batch, recorder).isOk());
    }
    return recorder.logits;
  };
  const std::vector<float> expected = decodeAll();
  REQUIRE(loaded.engine->setBudget({smallestBudget(artifact.path, options), {}}).isOk());
  CHECK(loaded.engine->prefillChunk() == 3); // One token of each session.
  CHECK(sameBytes(expected, decodeAll()));
  loaded.session->reset();
  Silent silent;
  SessionTokens four = {loaded.session.get(), std::span(kPrompt).first(4), LogitsWanted::kLast};
  CHECK(loaded.engine->step({&four, 1}, silent).message() ==
        "a batch of 4 tokens, expected 1 to 3");
  REQUIRE(loaded.engine->setBudget(*baseOptions().memory).isOk());
  CHECK(loaded.engine->prefillChunk() == 48);
  Recorder whole;
  SessionTokens all = {loaded.session.get(), kPrompt, LogitsWanted::kAll};
  REQUIRE(loaded.engine->step({&all, 1}, whole).isOk());
  loaded.session->reset();
  CHECK(sameBytes(expected, decodeAll()));
}

TEST_CASE("activation paths come and go with the plans that use them") {
  Plan plain = smallPlan(), paths = smallPlan();
  paths.name = "paths";
  paths.preset = plain.preset = "lru";
  plain.name = "plain";
  plain.quotaPages.assign(kLayers, 6 * kRecordPages);
  paths.prefetches.assign(kLayers, {Predictor::kPaths, 1, kExperts, kTopK, 0});
  paths.prefetches[0] = {};
  SyntheticOptions synthetic = modelWith({plain, paths});
  synthetic.paths = pathsOf({3, 1, 0, 2, 7, 6, 5, 4});
  TemporaryArtifact artifact(synthetic);
  Loaded undisturbed = load(artifact.path, baseOptions());
  const std::vector<float> expected = decodeChanging(undisturbed, {});
  Loaded loaded = load(artifact.path, baseOptions());
  CHECK(sameBytes(expected, decodeChanging(loaded, {{3, 1}, {7, 0}, {12, 1}})));
  {
    std::fstream file(artifact.path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(loaded.model->artifact().pathsOffset) + 40);
    file.write("damage", 6);
  }
  // An error after memory was given back: the engine works on without prefetching.
  const Plan &wanted = loaded.model->artifact().plans[1];
  Loaded damaged = load(artifact.path, baseOptions());
  const Status failed = damaged.engine->setBudget(budgetOf(*damaged.model, wanted));
  CHECK(failed.message().find("checksum") != std::string::npos);
  CHECK(sameBytes(expected, decodeChanging(damaged, {})));
}

TEST_CASE("an observer cannot change the budget of a step") {
  TemporaryArtifact artifact(ladder());
  Loaded loaded = load(artifact.path, baseOptions());
  struct Changer : StepObserver {
    Engine *engine = nullptr;
    Status onLogits(Session &, uint32_t, std::span<const float>) override {
      return engine->setBudget({0, 0.5});
    }
  } changer;
  changer.engine = loaded.engine.get();
  SessionTokens one = {loaded.session.get(), std::span(kPrompt).first(1), LogitsWanted::kLast};
  CHECK(loaded.engine->step({&one, 1}, changer).message() ==
        "a budget within a step: an observer must not call the engine");
}

TEST_CASE("steps allocate nothing after the budget has changed either") {
  TemporaryArtifact artifact(ladder(true));
  Loaded loaded = load(artifact.path, baseOptions());
  for (size_t plan : {2, 0, 1}) {
    const Plan &wanted = loaded.model->artifact().plans[plan];
    REQUIRE(loaded.engine->setBudget(budgetOf(*loaded.model, wanted)).isOk());
    loaded.session->reset();
    Silent observer;
    const uint64_t before = allocationsSoFar();
    bool isOk = true;
    for (const int32_t &token : kPrompt) {
      SessionTokens next = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
      isOk = isOk && loaded.engine->step({&next, 1}, observer).isOk();
    }
    CHECK(isOk);
    CHECK(allocationsSoFar() == before);
  }
}
