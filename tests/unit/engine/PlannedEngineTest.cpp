// What plans change of a run, which is never what it computes.
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"

#include "runtime/engine/Footprint.h"
#include "runtime/engine/PlannedCache.h"
#include "tests/unit/policy/AllCacheRules.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>
#include <fstream>

using namespace moert;
using namespace moert::test;

namespace {

/// Predicts four experts of each layer but the first; those of the last one two layers ahead.
Plan prefetchingPlan() {
  Plan plan = smallPlan();
  plan.prefetches = {{},
                     {Predictor::kGate, 1, kExperts, 4, 0},
                     {Predictor::kGate, 2, kExperts, 3, kFixedPointOne / 100}};
  return plan;
}

/// Logits and counts of the prompt, decoded token by token.
struct Decoded {
  std::vector<float> logits;
  std::vector<LayerProfile> layers; // All steps together.
  uint64_t sum(uint32_t LayerProfile::*field) const {
    uint64_t total = 0;
    for (const LayerProfile &layer : layers)
      total += layer.*field;
    return total;
  }
};

Decoded decode(Loaded &loaded) {
  Decoded decoded;
  Recorder recorder;
  for (const int32_t &token : kPrompt) {
    SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    Status done = loaded.engine->step({&one, 1}, recorder);
    REQUIRE_MESSAGE(done.isOk(), done.message());
    std::span<const LayerProfile> step = loaded.engine->lastStep();
    decoded.layers.insert(decoded.layers.end(), step.begin(), step.end());
  }
  decoded.logits = recorder.logits;
  return decoded;
}

Decoded decodeWith(const SyntheticOptions &synthetic, const ReadQueueMaker &readQueue) {
  const Plan &plan = synthetic.plans.front();
  TemporaryArtifact artifact(synthetic);
  auto model = Model::open(artifact.path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  EngineOptions options = optionsOf(**model, plan);
  options.readQueue = readQueue;
  Loaded loaded = load(artifact.path, options);
  return decode(loaded);
}

Decoded decodeWith(const Plan &plan, const ReadQueueMaker &readQueue = {}) {
  return decodeWith(modelWith({plan}), readQueue);
}

} // namespace

TEST_CASE(
    "whatever a plan decides and prefetches, logits are the same, and so are hits and misses") {
  TemporaryArtifact everything;
  Loaded whole = load(everything.path, baseOptions());
  const std::vector<float> expected = decode(whole).logits;
  for (const CacheRules &rules : allRules()) {
    CAPTURE(int(rules.eviction));
    CAPTURE(int(rules.sharing));
    Plan plain = smallPlan(), prefetching = prefetchingPlan();
    plain.rules = prefetching.rules = rules;
    Decoded without = decodeWith(plain);
    CHECK(sameBytes(expected, without.logits));
    CHECK(without.sum(&LayerProfile::useful) + without.sum(&LayerProfile::cancelled) == 0);
    for (bool isSynchronous : {false, true}) {
      Decoded with =
          decodeWith(prefetching, isSynchronous ? makeSynchronousQueue : ReadQueueMaker());
      CHECK(sameBytes(expected, with.logits));
      CHECK(with.sum(&LayerProfile::useful) > 0);
      for (size_t i = 0; i < with.layers.size(); ++i) {
        const LayerProfile &layer = with.layers[i];
        REQUIRE(layer.hits == without.layers[i].hits);
        REQUIRE(layer.misses == without.layers[i].misses);
        REQUIRE(layer.ready <= layer.hits + layer.useful);
        if (isSynchronous)
          REQUIRE(layer.ready == layer.hits + layer.useful);
      }
    }
  }
}

namespace {

/// Completes reads only for those who wait, and counts how often somebody looked before.
class PatientQueue final : public ReadQueue {
public:
  PatientQueue(const ArtifactFile &file, const ReadQueueOptions &options, std::vector<int> &counts)
      : ReadQueue(options), inner(file, options), looksBeforeWait(counts) {}
  Status submit(uint64_t tag, uint64_t offset, std::span<const MemoryPiece> pieces) override {
    if (inner.readsUnderWay() == 0)
      looks = 0;
    return inner.submit(tag, offset, pieces);
  }
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override {
    if (wait)
      looksBeforeWait.push_back(looks);
    else
      ++looks;
    return wait ? inner.poll(out, wait) : Result<size_t>(0);
  }
  size_t readsUnderWay() const override { return inner.readsUnderWay(); }
  void registerRegions(std::span<const MemoryPiece>) override {}

private:
  SynchronousQueue inner;
  std::vector<int> &looksBeforeWait;
  int looks = 0;
};

} // namespace

// The engine looks at its reads behind every instruction, and once more before it waits for them.
TEST_CASE("a layer's experts are begun with what its router chose, not when their turn comes") {
  std::vector<int> looksBeforeWait;
  auto makeQueue = [&](const ArtifactFile &file, const ReadQueueOptions &options) {
    return Result<std::unique_ptr<ReadQueue>>(
        std::make_unique<PatientQueue>(file, options, looksBeforeWait));
  };
  decodeWith(modelWith({smallPlan()}), makeQueue);
  REQUIRE(looksBeforeWait.size() > kPrompt.size());
  looksBeforeWait.erase(
      looksBeforeWait.begin()); // Resident weights, which nothing computes beside.
  for (int looks : looksBeforeWait)
    CHECK(looks >= 2);
}

TEST_CASE("no layer computes for less than nothing, wherever experts are begun") {
  SyntheticOptions options = modelWith({smallPlan()});
  options.routesOutside = true;
  for (const ReadQueueMaker &readQueue : {ReadQueueMaker(), ReadQueueMaker(makeSynchronousQueue)})
    for (const LayerProfile &layer : decodeWith(options, readQueue).layers)
      CHECK(layer.computeNs < uint64_t(1) << 40); // A quarter of an hour.
}

// Apart they are made by one product, in one place one after the other.
TEST_CASE("prefetches of several layers are the same wherever their gates' scores lie") {
  SyntheticOptions unbiased = modelWith({prefetchingPlan()}), apart = unbiased;
  apart.biasesPrefetches = true;
  SyntheticOptions together = apart;
  together.sharesScores = true;
  Decoded one = decodeWith(apart, makeSynchronousQueue),
          other = decodeWith(together, makeSynchronousQueue);
  CHECK(decodeWith(unbiased, makeSynchronousQueue).sum(&LayerProfile::cancelled) !=
        one.sum(&LayerProfile::cancelled));
  for (size_t i = 0; i < one.layers.size(); ++i) {
    CHECK(one.layers[i].useful == other.layers[i].useful);
    CHECK(one.layers[i].cancelled == other.layers[i].cancelled);
  }
  CHECK(one.sum(&LayerProfile::useful) > 0);
  CHECK(one.sum(&LayerProfile::cancelled) > 0);
}

TEST_CASE("with synchronous reads all counts repeat from run to run") {
  Decoded once = decodeWith(prefetchingPlan(), makeSynchronousQueue),
          again = decodeWith(prefetchingPlan(), makeSynchronousQueue);
  for (size_t i = 0; i < once.layers.size(); ++i) {
    CHECK(once.layers[i].useful == again.layers[i].useful);
    CHECK(once.layers[i].cancelled == again.layers[i].cancelled);
    CHECK(once.layers[i].prefetchBytes == again.layers[i].prefetchBytes);
    CHECK(once.layers[i].bytesRead == again.layers[i].bytesRead);
  }
}

TEST_CASE("a prefetched layer's prefetches are few, and made where the plan says") {
  Plan plan = prefetchingPlan();
  plan.prefetches[1] = {};
  Decoded decoded = decodeWith(plan, makeSynchronousQueue);
  for (size_t i = 0; i < decoded.layers.size(); i += kLayers + 1) {
    // Prefetches of the last layer are read before the second one's execute.
    CHECK(decoded.layers[i].prefetchBytes + decoded.layers[i + 1].prefetchBytes <=
          3 * kRecordPages * 4096);
    CHECK(decoded.layers[i + 1].useful == 0);
    CHECK(decoded.layers[i + 2].useful <= 3);
    CHECK(decoded.layers[i + 2].prefetchBytes == 0);
  }
  CHECK(decoded.sum(&LayerProfile::useful) > 0);
}

TEST_CASE("with activation paths what follows the layers before is prefetched, and nothing else") {
  Plan plan = smallPlan();
  plan.quotaPages.assign(kLayers, 0); // Every expert is a miss.
  plan.prefetches.assign(kLayers, {Predictor::kPaths, 1, kExperts, kTopK, 0});
  plan.prefetches[0] = {};
  std::vector<uint32_t> before = {3, 1, 0, 2, 7, 6, 5, 4};
  SyntheticOptions options = modelWith({plan});
  options.paths = pathsOf(before);
  TemporaryArtifact artifact(options);
  auto model = Model::open(artifact.path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  EngineOptions engine = optionsOf(**model, plan);
  engine.readQueue = makeSynchronousQueue;
  Loaded loaded = load(artifact.path, engine);
  /// Which experts were chosen, layer by layer.
  struct Routes : StepObserver {
    std::vector<std::vector<int32_t>> layers;
    Status onLogits(Session &, uint32_t, std::span<const float>) override { return {}; }
    void onRoute(Session &, uint32_t, uint32_t, std::span<const int32_t> experts,
                 std::span<const float>) override {
      layers.emplace_back(experts.begin(), experts.end());
    }
  } routes;
  for (const int32_t &token : kPrompt) {
    routes.layers.clear();
    SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    REQUIRE(loaded.engine->step({&one, 1}, routes).isOk());
    for (uint32_t layer = 1; layer < kLayers; ++layer) {
      auto wasChosen = [&](uint32_t of, uint32_t expert) {
        const std::vector<int32_t> &list = routes.layers[of];
        return std::count(list.begin(), list.end(), static_cast<int32_t>(expert)) > 0;
      };
      uint32_t expected = 0;
      for (uint32_t expert = 0; expert < kExperts; ++expert)
        expected += wasChosen(layer - 1, before[expert]) && wasChosen(layer, expert);
      CHECK(loaded.engine->lastStep()[layer].useful == expected);
      CHECK(loaded.engine->lastStep()[layer].cancelled == kTopK - expected);
    }
  }
}

TEST_CASE("activation paths count in the memory of the plans that use them, and damage is seen") {
  Plan plain = smallPlan(), plan = smallPlan();
  plan.name = "paths";
  plan.prefetches.assign(kLayers, {Predictor::kPaths, 1, kExperts, kTopK, 0});
  plan.prefetches[0] = {};
  SyntheticOptions options = modelWith({plain, plan});
  options.paths = pathsOf({0, 1, 2, 3, 4, 5, 6, 7});
  TemporaryArtifact artifact(options);
  auto model = Model::open(artifact.path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  EngineOptions engine = optionsOf(**model, plan);
  engine.plan = 0;
  MemoryAccount without = accountMemory(**model, engine).value();
  engine.plan = 1;
  MemoryAccount with = accountMemory(**model, engine).value();
  CHECK(with.totalBytes() - without.totalBytes() >= options.paths.size());
  engine.plan = 0;
  uint64_t smallest = smallestBudget(artifact.path, engine);
  engine.plan = 1;
  CHECK(smallestBudget(artifact.path, engine) >= smallest + options.paths.size());
  {
    std::fstream file(artifact.path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>((*model)->artifact().pathsOffset) + 40);
    file.write("damage", 6);
  }
  CHECK(Engine::load(**model, engine, without).isOk());
  Status refused = Engine::load(**model, engine, with).status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("checksum") != std::string::npos);
}

TEST_CASE("a chunk of a prompt is not prefetched for") {
  TemporaryArtifact artifact(modelWith({prefetchingPlan()}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  Loaded loaded = load(artifact.path, optionsOf(**model, prefetchingPlan()));
  Silent observer;
  SessionTokens tokens = {loaded.session.get(), std::span(kPrompt).first(4), LogitsWanted::kLast};
  REQUIRE(loaded.engine->step({&tokens, 1}, observer).isOk());
  for (const LayerProfile &layer : loaded.engine->lastStep())
    CHECK(layer.prefetchBytes == 0);
}

TEST_CASE("sessions in one batch do not see each other's prefetches") {
  Plan plan = prefetchingPlan();
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = optionsOf(**model, plan);
  options.sessions = 2;
  Loaded loaded = load(artifact.path, options);
  std::vector<float> expected = decode(loaded).logits;
  loaded.session->reset();
  auto other = loaded.engine->createSession();
  REQUIRE(other.isOk());
  struct First : StepObserver {
    Session *session;
    std::vector<float> logits;
    Status onLogits(Session &of, uint32_t, std::span<const float> values) override {
      if (&of == session)
        logits.insert(logits.end(), values.begin(), values.end());
      return {};
    }
  } first;
  first.session = loaded.session.get();
  uint64_t useful = 0;
  for (size_t i = 0; i < kPrompt.size(); ++i) {
    SessionTokens batch[] = {
        {loaded.session.get(), {&kPrompt[i], 1}, LogitsWanted::kLast},
        {other->get(), {&kPrompt[kPrompt.size() - 1 - i], 1}, LogitsWanted::kLast}};
    REQUIRE(loaded.engine->step(batch, first).isOk());
    for (const LayerProfile &layer : loaded.engine->lastStep())
      useful += layer.useful;
  }
  CHECK(sameBytes(expected, first.logits));
  CHECK(useful > 0);
}

TEST_CASE("prefetching allocates nothing in the token loop") {
  TemporaryArtifact artifact(modelWith({prefetchingPlan()}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  Loaded loaded = load(artifact.path, optionsOf(**model, prefetchingPlan()));
  Silent observer;
  uint64_t before = allocationsSoFar();
  bool isOk = true;
  for (const int32_t &token : kPrompt) {
    SessionTokens next = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    isOk = isOk && loaded.engine->step({&next, 1}, observer).isOk();
  }
  uint64_t after = allocationsSoFar();
  CHECK(isOk);
  CHECK(after == before);
}

TEST_CASE("the cache starts with what the plan names, which counts as read by nobody") {
  Plan plan = smallPlan();
  plan.start = {{{5, 6, 7}, {3, 2, 1}}, {}, {{0, 1}, {1, 1}}};
  plan.startTokens = 4;
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = optionsOf(**model, plan);
  auto account = accountMemory(**model, options);
  REQUIRE(account.isOk());
  uint64_t lastDone = 0, lastTotal = 0;
  auto engine = Engine::load(**model, options, *account, [&](uint64_t done, uint64_t total) {
    CHECK(done >= lastDone);
    CHECK(done <= total);
    lastDone = done;
    lastTotal = total;
  });
  REQUIRE_MESSAGE(engine.isOk(), engine.status().message());
  CHECK(lastTotal == (*model)->artifact().residentBytes + 5 * kRecordPages * 4096);
  CHECK(lastDone == lastTotal); // Though one of the three does not fit.
  auto session = (*engine)->createSession();
  REQUIRE(session.isOk());
  Silent observer;
  SessionTokens one = {session->get(), std::span(kPrompt).first(1), LogitsWanted::kLast};
  REQUIRE((*engine)->step({&one, 1}, observer).isOk());
  uint64_t hits = 0, bytes = 0, misses = 0;
  for (const LayerProfile &layer : (*engine)->lastStep()) {
    hits += layer.hits;
    misses += layer.misses;
    bytes += layer.bytesRead;
  }
  CHECK(hits > 0);
  CHECK(bytes == misses * kRecordPages * 4096);
}

TEST_CASE("an expert of the start that is damaged is an error that names it") {
  Plan plan = smallPlan();
  plan.start = {{}, {{4}, {1}}, {}};
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  {
    std::fstream file(artifact.path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(
        static_cast<std::streamoff>((*model)->artifact().moeLayers[1].experts[4].fileOffset));
    file.write("damage", 6);
  }
  EngineOptions options = optionsOf(**model, plan);
  auto engine = Engine::load(**model, options, accountMemory(**model, options).value());
  REQUIRE_FALSE(engine.isOk());
  CHECK(engine.status().message().find("the experts that the cache starts with") !=
        std::string::npos);
  CHECK(engine.status().message().find("layer 1 expert 4") != std::string::npos);
}

TEST_CASE("pins that do not fit into a smaller pool are left out from the end") {
  Plan plan = smallPlan();
  plan.quotaPages.assign(kLayers, 4 * kRecordPages);
  plan.pinned = {{3, 4, 5}, {}, {6, 7}};
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  auto tables = makeLayerTables((*model)->artifact());
  REQUIRE(tables.isOk());
  for (uint64_t pages : {48, 24}) {
    std::vector<CacheLayer> layers;
    CacheConfig config = makeCacheConfig(**model, *tables, plan, pages, layers);
    HostRegion pool = HostRegion::create(pages * 4096).value();
    config.pool = pool.span();
    auto file = ArtifactFile::open(artifact.path);
    REQUIRE(file.isOk());
    auto queue =
        createReadQueue(*file, readQueueOptions((*model)->artifact(), IoBackend::kThreads, {}));
    REQUIRE(queue.isOk());
    auto cache = ExpertCache::create(config, **queue);
    REQUIRE_MESSAGE(cache.isOk(), cache.status().message());
    const auto pin = [&](uint32_t layer, uint32_t expert) { return (*cache)->pin(layer, expert); };
    REQUIRE(pinAsPlanned((*model)->artifact().plans[0], pin).isOk());
    bool isSame = pages == 48;
    CHECK(layers[0].quotaPages == (isSame ? 12 : 6));
    CHECK((*cache)->unpin(0, 3).isOk());
    CHECK((*cache)->unpin(0, 4).isOk());
    CHECK((*cache)->unpin(0, 5).isOk() == isSame);
    CHECK((*cache)->unpin(2, 7).isOk());
  }
}

TEST_CASE("the cache is as the plan says") {
  Plan plan = prefetchingPlan();
  plan.rules = {EvictionPolicy::kArc, CacheSharing::kLayerQuotas, PromptSurvival::kContents};
  TemporaryArtifact artifact(modelWith({plan}));
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  auto tables = makeLayerTables((*model)->artifact());
  REQUIRE(tables.isOk());
  std::vector<CacheLayer> layers;
  CacheConfig config =
      makeCacheConfig(**model, *tables, (*model)->artifact().plans[0], 12 + 3 * 6, layers);
  CHECK(config.rules == plan.rules);
  CHECK(config.stagingPages == plan.stagingPages);
  CHECK(config.prefetchesUnderWay > 0);
  REQUIRE(layers.size() == kLayers);
  for (const CacheLayer &layer : layers)
    CHECK(layer.quotaPages == 6);
  CHECK(makeCacheConfig(**model, *tables, smallPlan(), 30, layers).prefetchesUnderWay == 0);
}

TEST_CASE("a whole record may be at the disk, however large") {
  Artifact artifact = test::writeSyntheticModel("planned_engine_test.moe", {}).value();
  std::remove("planned_engine_test.moe");
  const uint64_t plain = ReadQueueOptions().maxBytesUnderWay;
  CHECK(readQueueOptions(artifact, IoBackend::kAuto, {}).maxBytesUnderWay == plain);
  artifact.moeLayers[0].experts[1].slices[0].bytes = 2 * plain;
  CHECK(readQueueOptions(artifact, IoBackend::kAuto, {}).maxBytesUnderWay == 2 * plain);
}
