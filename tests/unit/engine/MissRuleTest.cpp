// What a plan's miss rule changes of a run, and that nothing else changes it: the same tokens for
// every number of threads, instruction set, I/O backend and timing of reads.
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"

#include "runtime/engine/Footprint.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/evaluation/EngineSource.h"
#include "tests/unit/policy/LossyRules.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>
#include <random>

using namespace moert;
using namespace moert::test;

namespace {

/// Experts of two and three slices; one to two of a layer stay.
SyntheticOptions slicedModel(const MissRule &miss, Predictor predictor,
                             const ExchangeRule &exchange = {}) {
  Plan plan = smallPlan();
  plan.quotaPages.assign(kLayers, 9);
  plan.miss = miss;
  plan.rules.baseSlices = miss.baseSlices();
  if (exchange.exchanges())
    plan.rules = {.eviction = EvictionPolicy::kImportance, .exchange = exchange};
  if (predictor != Predictor::kOff)
    plan.prefetches = {
        {}, {predictor, 1, kExperts, 2, 0}, {predictor, 2, kExperts, 2, kFixedPointOne / 100}};
  SyntheticOptions options = modelWith({plan});
  options.slices = {{WeightKind::kInt2, WeightKind::kInt2},
                    {WeightKind::kInt2, WeightKind::kInt2, WeightKind::kInt4}};
  return options;
}

/// Everything that a run computes, and what it counts.
struct Run : StepObserver {
  std::vector<float> logits, weights;
  std::vector<int32_t> experts;
  LayerProfile sum;

  Status onLogits(Session &, uint32_t, std::span<const float> values) override {
    logits.insert(logits.end(), values.begin(), values.end());
    return {};
  }
  void onRoute(Session &, uint32_t, uint32_t, std::span<const int32_t> chosen,
               std::span<const float> factors) override {
    experts.insert(experts.end(), chosen.begin(), chosen.end());
    weights.insert(weights.end(), factors.begin(), factors.end());
  }
  bool isSame(const Run &other) const {
    return sameBytes(logits, other.logits) && sameBytes(weights, other.weights) &&
           experts == other.experts && sum.lowered == other.sum.lowered &&
           sum.skipped == other.sum.skipped && sum.substituted == other.sum.substituted &&
           sum.hits == other.sum.hits && sum.misses == other.sum.misses &&
           sum.lowHits == other.sum.lowHits && sum.lowMisses == other.sum.lowMisses &&
           sum.promoted == other.sum.promoted;
  }
};

/// A prompt of six tokens, then the whole text token by token.
Run run(Loaded &loaded) {
  Run run;
  const std::span<const int32_t> prompt = std::span(kPrompt).first(6);
  Status done = loaded.engine->prefill({loaded.session.get(), prompt, LogitsWanted::kLast}, run);
  REQUIRE_MESSAGE(done.isOk(), done.message());
  for (const int32_t &token : kPrompt) {
    SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    done = loaded.engine->step({&one, 1}, run);
    REQUIRE_MESSAGE(done.isOk(), done.message());
    for (const LayerProfile &layer : loaded.engine->lastStep()) {
      run.sum.hits += layer.hits;
      run.sum.misses += layer.misses;
      run.sum.lowHits += layer.lowHits;
      run.sum.lowMisses += layer.lowMisses;
      run.sum.bytesRead += layer.bytesRead;
      run.sum.lowered += layer.lowered;
      run.sum.skipped += layer.skipped;
      run.sum.substituted += layer.substituted;
      run.sum.promoted += layer.promoted;
    }
  }
  return run;
}

struct MissFixture {
  explicit MissFixture(const MissRule &miss, Predictor predictor = Predictor::kOff,
                       const ExchangeRule &exchange = {})
      : synthetic(slicedModel(miss, predictor, exchange)), artifact(synthetic) {
    auto model = Model::open(artifact.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    options = optionsOf(**model, synthetic.plans.front());
  }
  Run runWith(const EngineOptions &changed) const {
    Loaded loaded = load(artifact.path, changed);
    return run(loaded);
  }

  SyntheticOptions synthetic;
  TemporaryArtifact artifact;
  EngineOptions options;
};

/// Reads complete in any order, and late, as random numbers have it.
class LateQueue final : public ReadQueue {
public:
  LateQueue(const ArtifactFile &file, const ReadQueueOptions &options, uint32_t seed)
      : ReadQueue(options), inner(file, options), random(seed) {}
  Status submit(uint64_t tag, uint64_t offset, std::span<const MemoryPiece> pieces) override {
    MOERT_RETURN_IF_ERROR(inner.submit(tag, offset, pieces));
    ReadCompletion completion;
    MOERT_ASSIGN_OR_RETURN(size_t count, inner.poll({&completion, 1}, true));
    REQUIRE(count == 1);
    late.push_back(completion.tag);
    return {};
  }
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override {
    size_t count = 0;
    while (count < out.size() && !late.empty() && ((wait && count == 0) || random() % 8 == 0)) {
      std::swap(late[random() % late.size()], late.back());
      out[count++] = {late.back(), Status()};
      late.pop_back();
    }
    return count;
  }
  size_t readsUnderWay() const override { return late.size(); }
  void registerRegions(std::span<const MemoryPiece>) override {}

private:
  SynchronousQueue inner;
  std::mt19937 random;
  std::vector<uint64_t> late;
};

ReadQueueMaker lateQueues(uint32_t seed) {
  return [seed](const ArtifactFile &file, const ReadQueueOptions &options) {
    return Result<std::unique_ptr<ReadQueue>>(std::make_unique<LateQueue>(file, options, seed));
  };
}

} // namespace

/// Runs with other threads, kernels, I/O backends and timings of reads; returns the expected run.
static Run checkSameEverywhere(const MissFixture &model) {
  EngineOptions options = model.options;
  options.readQueue = makeSynchronousQueue;
  const Run expected = model.runWith(options);
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    options.readQueue = lateQueues(seed);
    options.threads = seed;
    CHECK(model.runWith(options).isSame(expected));
  }
  options = model.options;
  for (IoBackend io : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
    options.io = io;
    const auto opened = Model::open(model.artifact.path);
    if (!Engine::load(**opened, options, accountMemory(**opened, options).value()).isOk()) {
      MESSAGE("SKIPPED: not on this system: ", ioBackendName(io));
      continue;
    }
    CHECK(model.runWith(options).isSame(expected));
  }
  options.io = IoBackend::kThreads;
  for (Isa isa : builtIsas()) {
    options.isa = isa;
    if (kernelsFor(isa).isOk())
      CHECK(model.runWith(options).isSame(expected));
  }
  return expected;
}

TEST_CASE("a lossy plan computes the same with every number of threads, kernel and I/O backend, "
          "and however late its reads complete") {
  for (Predictor predictor : {Predictor::kOff, Predictor::kGate, Predictor::kAdaptiveGate})
    for (const MissRule &rule : kLossyRules) {
      CAPTURE(missRuleText(rule));
      CAPTURE(int(predictor));
      checkSameEverywhere(MissFixture(rule, predictor));
    }
}

TEST_CASE("so does a plan that exchanges experts, and it reads for exchanges alone") {
  const Run fixed = checkSameEverywhere(MissFixture(kLossyRules.back()));
  CHECK(fixed.sum.promoted == 0);
  for (const ExchangeRule &exchange : {ExchangeRule{1, 1, 3}, ExchangeRule{2, 2, 5}})
    for (const MissRule &rule : {kLossyRules.back(), kLossyRules[2]}) {
      CAPTURE(missRuleText(rule));
      CAPTURE(exchange.everyTokens);
      const MissFixture model(rule, Predictor::kOff, exchange);
      const Run expected = checkSameEverywhere(model);
      if (rule.action == MissAction::kMask) {
        CHECK(expected.sum.promoted > 0);
        CHECK_FALSE(sameBytes(expected.logits, fixed.logits));
        CHECK(expected.sum.misses == 0);
      }
      EngineOptions options = model.options;
      options.isExact = true;
      const Run exact = model.runWith(options);
      CHECK(exact.sum.promoted == 0);
      CHECK(sameBytes(exact.logits, MissFixture({}).runWith(options).logits));
    }
}

TEST_CASE("each rule does what it is named for, reads less than waiting, and --exact undoes it") {
  const MissFixture waiting({});
  const Run exact = waiting.runWith(waiting.options);
  CHECK(exact.sum.lowered + exact.sum.skipped + exact.sum.substituted == 0);
  for (const MissRule &rule : kLossyRules) {
    CAPTURE(missRuleText(rule));
    const MissFixture model(rule);
    const Run lossy = model.runWith(model.options);
    CHECK_FALSE(sameBytes(lossy.logits, exact.logits));
    CHECK(lossy.sum.bytesRead < exact.sum.bytesRead);
    CHECK((lossy.sum.lowered > 0) == (rule.action == MissAction::kLower));
    // Decoding, each expert is demanded by one rank.
    CHECK(lossy.sum.lowHits + lossy.sum.lowMisses == lossy.sum.lowered);
    CHECK(lossy.sum.lowHits <= lossy.sum.hits);
    CHECK((lossy.sum.substituted > 0) ==
          (rule.action == MissAction::kSubstitute || rule.action == MissAction::kMask));
    EngineOptions options = model.options;
    options.isExact = true;
    CHECK(model.runWith(options).isSame(exact));
  }
}

TEST_CASE("a prompt is computed exactly, however it is divided") {
  const MissFixture waiting({}), model(kLossyRules.back());
  auto prompt = [](const MissFixture &fixture, uint32_t chunk) {
    EngineOptions options = fixture.options;
    options.prefillChunk = chunk;
    Loaded loaded = load(fixture.artifact.path, options);
    Run logits;
    REQUIRE(
        loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, logits).isOk());
    return logits;
  };
  const Run expected = prompt(waiting, 16);
  for (uint32_t chunk : {1, 7, 16})
    CHECK(sameBytes(prompt(model, chunk).logits, expected.logits));
}

TEST_CASE(
    "experts that few tokens of a prompt use are lowered, everywhere alike, and decoding waits") {
  const MissFixture waiting({});
  const Run exact = waiting.runWith(waiting.options);
  for (Predictor predictor : {Predictor::kOff, Predictor::kGate}) {
    const MissFixture model({.action = MissAction::kLowerPrompts, .waitUpTo = part(0.5)},
                            predictor);
    const Run lowered = checkSameEverywhere(model);
    CHECK_FALSE(sameBytes(lowered.logits, exact.logits));
    CHECK(lowered.sum.lowered + lowered.sum.skipped + lowered.sum.substituted == 0);
    EngineOptions options = model.options;
    options.isExact = true;
    CHECK(sameBytes(model.runWith(options).logits, exact.logits));
  }
  const MissFixture none({.action = MissAction::kLowerPrompts, .waitUpTo = kFixedPointOne});
  CHECK(sameBytes(none.runWith(none.options).logits, exact.logits));
}

TEST_CASE("a prompt beside other sequences is computed exactly, and so are they") {
  auto logitsOf = [](const MissRule &rule) {
    const MissFixture model(rule);
    EngineOptions options = model.options;
    options.sessions = 2;
    options.sessionTokens = 0;
    Loaded loaded = load(model.artifact.path, options);
    auto other = loaded.engine->createSession();
    REQUIRE(other.isOk());
    Run run;
    const SessionTokens both[] = {
        {loaded.session.get(), std::span(kPrompt).first(6), LogitsWanted::kAll, true},
        {other->get(), std::span(kPrompt).first(1), LogitsWanted::kAll}};
    const Status done = loaded.engine->step(both, run);
    REQUIRE_MESSAGE(done.isOk(), done.message());
    return run.logits;
  };
  CHECK(sameBytes(logitsOf({.action = MissAction::kLowerPrompts}), logitsOf({})));
}

TEST_CASE("a plan that lowers experts of prompts refuses other chunks than its own") {
  const MissFixture model({.action = MissAction::kLowerPrompts});
  const auto opened = Model::open(model.artifact.path);
  EngineOptions options = model.options;
  options.prefillChunk = 16; // The plan's.
  CHECK(accountMemory(**opened, options).isOk());
  options.prefillChunk = 7;
  const Status refused = accountMemory(**opened, options).status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("a prefill chunk of 7 tokens") != std::string::npos);
  CHECK(refused.message().find("by chunks of 16 tokens") != std::string::npos);
  options.isExact = true;
  CHECK(accountMemory(**opened, options).isOk());
}

TEST_CASE("an evaluation reads prompts as a run does") {
  const MissFixture model({.action = MissAction::kLowerPrompts});
  EngineOptions options = model.options;
  options.decodesInBatches = true;
  Loaded loaded = load(model.artifact.path, options);
  CHECK_FALSE(loaded.engine->decodesInBatches());
  loaded.session.reset(); // The source has its own.
  const auto source = EngineSource::create(*loaded.engine);
  REQUIRE(source.isOk());
  CHECK((*source)->wholeTokens() == loaded.engine->prefillChunk());
  std::vector<float> evaluated;
  REQUIRE((*source)
              ->append(kPrompt,
                       [&](uint32_t, std::span<const float> row) {
                         evaluated.insert(evaluated.end(), row.begin(), row.end());
                         return Status();
                       })
              .isOk());
  Loaded again = load(model.artifact.path, model.options);
  Run run;
  REQUIRE(again.engine->prefill({again.session.get(), kPrompt, LogitsWanted::kAll}, run).isOk());
  CHECK(sameBytes(evaluated, run.logits));
}

TEST_CASE("a prompt reads less with experts lowered, and counts them") {
  auto promptOf = [](const MissRule &rule) {
    const MissFixture model(rule);
    Loaded loaded = load(model.artifact.path, model.options);
    Run logits;
    REQUIRE(loaded.engine
                ->prefill({loaded.session.get(), std::span(kPrompt).first(6), LogitsWanted::kLast},
                          logits)
                .isOk());
    LayerProfile sum;
    for (const LayerProfile &layer : loaded.engine->lastStep()) {
      sum.bytesRead += layer.bytesRead;
      sum.lowered += layer.lowered;
    }
    return sum;
  };
  const LayerProfile exact = promptOf({});
  const LayerProfile lowered =
      promptOf({.action = MissAction::kLowerPrompts, .waitUpTo = part(0.5)});
  CHECK(exact.lowered == 0);
  CHECK(lowered.lowered > 0);
  CHECK(lowered.bytesRead < exact.bytesRead);
}

TEST_CASE("a lossy plan has its own cache whatever the budget, and refuses one that is too small") {
  const MissFixture model(kLossyRules.front());
  const auto opened = Model::open(model.artifact.path);
  const MemoryAccount planned = accountMemory(**opened, model.options).value();
  const Run expected = model.runWith(model.options);
  EngineOptions options = model.options;
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  const MemoryAccount large = accountMemory(**opened, options).value();
  CHECK(large.poolPages == planned.poolPages);
  CHECK(large.totalBytes() == planned.totalBytes());
  CHECK(model.runWith(options).isSame(expected));

  options.memory = BudgetSize{planned.totalBytes(), {}};
  CHECK(accountMemory(**opened, options).isOk());
  options.memory = BudgetSize{planned.totalBytes() - 1, {}};
  const Status refused = accountMemory(**opened, options).status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  for (uint64_t named : {planned.totalBytes() - 1, planned.totalBytes()})
    CHECK_MESSAGE(refused.message().find(std::to_string(named)) != std::string::npos,
                  refused.message());
  CHECK(refused.message().find("--exact") != std::string::npos);
  options.isExact = true;
  CHECK(accountMemory(**opened, options).isOk());

  options = model.options;
  options.memory->expertFraction = *options.memory->expertFraction / 2;
  CHECK(accountMemory(**opened, options).status().message().find("is less than plan 'small'") !=
        std::string::npos);
}

TEST_CASE("a miss rule allocates nothing while tokens are computed") {
  for (const MissRule &rule : kLossyRules)
    for (const ExchangeRule &exchange : {ExchangeRule{}, ExchangeRule{1, 1, 4}}) {
      const Predictor predictor = exchange.exchanges() ? Predictor::kOff : Predictor::kAdaptiveGate;
      const MissFixture model(rule, predictor, exchange);
      Loaded loaded = load(model.artifact.path, model.options);
      Silent observer;
      uint64_t before = 0;
      for (size_t i = 0; i < kPrompt.size(); ++i) {
        if (i == 4)
          before = allocationsSoFar();
        SessionTokens one = {loaded.session.get(), {&kPrompt[i], 1}, LogitsWanted::kLast};
        REQUIRE(loaded.engine->step({&one, 1}, observer).isOk());
      }
      CHECK(allocationsSoFar() == before);
    }
}

TEST_CASE("views of an expert's first slices leave out the planes and bits of the others") {
  const MissFixture model(kLossyRules.front());
  const auto opened = Model::open(model.artifact.path);
  const std::vector<MoeLayerTables> tables = makeLayerTables((*opened)->artifact(), true).value();
  const MoeLayerTables &layer = tables.front();
  const uint32_t missing[] = {6, 4, 0}; // Of 2, 2 and 4 bits.
  const std::vector<WeightView> &whole = layer.templateOf(1, 3).matrices;
  for (uint16_t slices = 1; slices <= 3; ++slices)
    for (size_t i = 0; i < whole.size(); ++i) {
      const WeightView &matrix = layer.templateOf(1, slices).matrices[i];
      CHECK(matrix.planeCount == slices - 1u);
      CHECK(matrix.missingBits == missing[slices - 1]);
      CHECK(matrix.bytes.offset == whole[i].bytes.offset);
    }
  CHECK(layer.templateOf(0, 1).matrices[0].missingBits == 2);
  CHECK(layer.templateOf(0, 2).matrices[0].planeCount == 1);
}
