#include "tests/unit/engine/EngineFixture.h"

#include "runtime/engine/Footprint.h"
#include "tests/unit/support/CountAllocations.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <vector>

using namespace moert;
using namespace moert::test;

namespace {

std::vector<float> logitsOf(const std::string &path, const EngineOptions &options) {
  Loaded loaded = load(path, options);
  Recorder recorder;
  Status done =
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder);
  REQUIRE_MESSAGE(done.isOk(), done.message());
  CHECK(recorder.logits.size() == kPrompt.size() * kVocabulary);
  return recorder.logits;
}

} // namespace

TEST_CASE("logits do not depend on budget, threads, chunk, I/O, instruction set or logits rows") {
  for (WeightKind kind :
       {WeightKind::kBF16, WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2}) {
    WeightKind residents = kind == WeightKind::kBF16 ? WeightKind::kF32 : WeightKind::kInt8;
    TemporaryArtifact artifact({kind, residents, 7});
    EngineOptions options = baseOptions();
    options.isa = Isa::kReference;
    options.prefillChunk = 1;
    std::vector<float> expected = logitsOf(artifact.path, options);
    for (float value : expected)
      REQUIRE(value == value);
    options.memory = BudgetSize{smallestBudget(artifact.path, options), {}};
    CHECK(sameBytes(expected, logitsOf(artifact.path, options)));
    for (uint32_t chunk : {4u, 7u, 64u}) {
      for (uint32_t threads : {1u, 2u, 3u}) {
        EngineOptions varied = baseOptions();
        varied.prefillChunk = chunk;
        varied.threads = threads;
        varied.logitsRows = chunk == 7 ? 3 : 1;
        varied.io = chunk == 64 ? IoBackend::kBuffered : IoBackend::kAuto;
        varied.memory = BudgetSize{smallestBudget(artifact.path, varied) + 8192 * chunk, {}};
        CHECK(sameBytes(expected, logitsOf(artifact.path, varied)));
      }
    }
  }
}

namespace {

constexpr WeightKind k1 = WeightKind::kInt1, k2 = WeightKind::kInt2, k4 = WeightKind::kInt4,
                     k8 = WeightKind::kInt8, kNl2 = WeightKind::kNl2, kNl4 = WeightKind::kNl4,
                     k3 = WeightKind::kInt3, k5 = WeightKind::kInt5, k6 = WeightKind::kInt6,
                     kNl3 = WeightKind::kNl3;

SyntheticOptions withSlices(std::vector<std::vector<WeightKind>> slices) {
  REQUIRE(slices.size() <= kExperts); // Every list is some expert's.
  SyntheticOptions options;
  options.slices = std::move(slices);
  return options;
}

} // namespace

static void checkHoweverExecuted(const SyntheticOptions &model) {
  TemporaryArtifact artifact(model);
  EngineOptions options = baseOptions();
  options.isa = Isa::kReference;
  options.prefillChunk = 1;
  std::vector<float> expected = logitsOf(artifact.path, options);
  for (float value : expected)
    REQUIRE(value == value);
  for (uint32_t chunk : {1u, 4u, 64u})
    for (uint32_t threads : {1u, 3u}) {
      EngineOptions varied = baseOptions();
      varied.prefillChunk = chunk;
      varied.threads = threads;
      varied.io = chunk == 64 ? IoBackend::kBuffered : IoBackend::kAuto;
      uint64_t smallest = smallestBudget(artifact.path, varied);
      for (uint64_t more : {0u, 8192u, 100000u}) {
        varied.memory = BudgetSize{smallest + more, {}};
        CHECK(sameBytes(expected, logitsOf(artifact.path, varied)));
      }
      if (builtIsas().size() > 1 && isSupported(builtIsas()[1]))
        varied.isa = builtIsas()[1]; // Not the default on most machines.
      CHECK(sameBytes(expected, logitsOf(artifact.path, varied)));
    }
}

TEST_CASE("experts of different widths in a layer give the same logits however they are executed") {
  // 2, 3, 4, 5, 6 and 8 bits, nested and in one slice.
  SyntheticOptions nested =
      withSlices({{k2}, {k2, k1}, {k2, k2}, {k2, k2, k1}, {k2, k2, k2}, {k2, k2, k4}, {k4}, {k8}});
  checkHoweverExecuted(nested);
  SyntheticOptions whole =
      withSlices({{k3}, {k5}, {k6}, {kNl3}, {kNl4}, {kNl2, k1}, {kNl2, k2}, {kNl2}});
  checkHoweverExecuted(whole);
  // Down of another width, also of a narrower one.
  for (SyntheticOptions *model : {&nested, &whole}) {
    model->downSlices = {{k2, k2}, {k2, k2, k1}, {k2, k2, k2}, {k8}, {kNl4}, {k6}, {k2, k2, k4}};
    checkHoweverExecuted(*model);
  }
}

TEST_CASE("experts with the Hadamard transform give the same logits however they are executed") {
  SyntheticOptions model =
      withSlices({{k2}, {k2, k1}, {k2, k2}, {k2, k2, k4}, {k6}, {kNl3}, {kNl4}, {k8}});
  model.downSlices = {{k2, k2}, {k2, k2, k1}, {k2, k2}, {k8}, {kNl4}};
  model.hasHadamard = true;
  // Rows of 64 inputs are one block, those of 72 blocks of 8, those of down's 48 blocks of 16.
  for (uint32_t hidden : {64u, 72u}) {
    model.hidden = hidden;
    checkHoweverExecuted(model);
  }
}

TEST_CASE("gate, up and down are each computed at their own width") {
  auto logits = [](std::vector<WeightKind> gateUp, std::vector<WeightKind> down) {
    SyntheticOptions model = withSlices({std::move(gateUp)});
    model.downSlices = {std::move(down)};
    TemporaryArtifact artifact(model);
    return logitsOf(artifact.path, baseOptions());
  };
  const std::vector<float> mixed = logits({k4}, {k2, k2, k2});
  CHECK(sameBytes(mixed, logits({k2, k2}, {k2, k2, k2})));
  CHECK(sameBytes(logits({k4}, {k8}), logits({k2, k2}, {k2, k2, k4})));
  CHECK_FALSE(sameBytes(mixed, logits({k4}, {k4})));
  CHECK_FALSE(sameBytes(mixed, logits({k2, k2, k2}, {k2, k2, k2})));
}

/// The tables of the first layer, with the views of every number of slices.
static MoeLayerTables tablesOf(const SyntheticOptions &model) {
  TemporaryArtifact file(model);
  auto opened = Model::open(file.path);
  REQUIRE(opened.isOk());
  auto tables = makeLayerTables((*opened)->artifact(), true);
  REQUIRE(tables.isOk());
  return std::move(*tables)[0];
}

TEST_CASE("the first slices are each matrix at the width that it has in them") {
  SyntheticOptions model = withSlices({{k2, k2}});
  model.downSlices = {{k2, k2, k4}};
  const MoeLayerTables mixed = tablesOf(model);
  const auto view = [&](uint16_t slices, ExpertPart part) {
    return mixed.templateOf(3, slices).matrices[static_cast<size_t>(part)];
  };
  for (ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp}) {
    CHECK(view(1, part).missingBits == 2);
    CHECK(view(2, part).missingBits == 0);
    CHECK(view(2, part).planeCount == 1);
    CHECK(view(3, part).missingBits == 0);
    CHECK(view(3, part).planeCount == 1);
  }
  CHECK(view(1, ExpertPart::kDown).missingBits == 6);
  CHECK(view(2, ExpertPart::kDown).missingBits == 4);
  CHECK(view(3, ExpertPart::kDown).missingBits == 0);
  CHECK(view(3, ExpertPart::kDown).planeCount == 2);
  // The last slice holds down alone, from its beginning.
  const WeightView down = view(3, ExpertPart::kDown);
  CHECK(down.bytes.offset + down.planes[1].offset == mixed.slices[3][2].offset);
}

TEST_CASE("the account has the views of a layer's matrices in each width and number of slices") {
  TemporaryArtifact file(
      withSlices({{k2}, {k2, k1}, {k2, k2}, {k2, k2, k1}, {k2, k2, k2}, {k2, k2, k4}, {k4}, {k8}}));
  auto opened = Model::open(file.path);
  REQUIRE(opened.isOk());
  const Artifact &artifact = (*opened)->artifact();
  auto whole = makeLayerTables(artifact, false), inPart = makeLayerTables(artifact, true);
  REQUIRE(whole.isOk());
  REQUIRE(inPart.isOk());
  uint64_t more = 0;
  for (size_t l = 0; l < kLayers; ++l) {
    const std::vector<ExpertTemplate> &templates = (*inPart)[l].templates;
    REQUIRE((*whole)[l].templates.size() > kLayoutsOfLayer);
    REQUIRE(templates.size() > (*whole)[l].templates.size());
    more += templates.size() - (*whole)[l].templates.size();
    uint64_t bytes = templates.capacity() * sizeof(ExpertTemplate);
    for (const ExpertTemplate &views : templates)
      bytes += views.formats.capacity() * sizeof(ExpertFormat) +
               views.matrices.capacity() * sizeof(WeightView);
    CHECK(bytes <=
          tableBytes({.moeLayers = 1, .furtherLayouts = templates.size() - kLayoutsOfLayer}));
  }
  CHECK(footprintOf(artifact, true).metadataBytes - footprintOf(artifact, false).metadataBytes ==
        more * tableBytes({.furtherLayouts = 1}));
}

TEST_CASE("nested slices give the logits of the same codes in one slice") {
  auto logits = [](std::vector<WeightKind> slices) {
    TemporaryArtifact artifact(withSlices({std::move(slices)}));
    return logitsOf(artifact.path, baseOptions());
  };
  std::vector<float> four = logits({k4}), eight = logits({k8});
  CHECK(sameBytes(four, logits({k2, k2})));
  CHECK(sameBytes(eight, logits({k2, k2, k4})));
  CHECK(sameBytes(logits({kNl4}), logits({kNl2, k2})));
  CHECK(sameBytes(logits({k3}), logits({k2, k1})));
  CHECK(sameBytes(logits({k5}), logits({k2, k2, k1})));
  CHECK(sameBytes(logits({k6}), logits({k2, k2, k2})));
  CHECK(sameBytes(logits({kNl3}), logits({kNl2, k1})));
  CHECK_FALSE(sameBytes(four, eight));
}

namespace {

/// Computes all experts of a prompt's chunk but one with their low copies.
constexpr MissRule kLowPrompts = {.action = MissAction::kLowerPrompts, .lowSlices = 1};

SyntheticOptions withLowCopy(SyntheticOptions options, WeightKind lowCopy, MissRule miss = {}) {
  options.lowCopy = {lowCopy};
  options.miss = miss;
  return options;
}

/// The view of a matrix that begins at `start` in its record.
bool isSameView(const WeightView &view, uint64_t start, const WeightView &alone) {
  bool isSame = view.shape == alone.shape && view.format == alone.format &&
                view.bytes.offset == start + alone.bytes.offset &&
                view.planeCount == alone.planeCount && view.missingBits == alone.missingBits;
  for (uint32_t p = 0; isSame && p < view.planeCount; ++p)
    isSame = view.planes[p].kind == alone.planes[p].kind &&
             view.planes[p].offset == alone.planes[p].offset;
  return isSame;
}

} // namespace

TEST_CASE("a level is viewed in the low copy alone, or beyond it in the other copy alone") {
  const auto withCopies = [](std::vector<WeightKind> slices, std::vector<WeightKind> low) {
    SyntheticOptions model = withSlices({std::move(slices)});
    model.lowCopy = std::move(low);
    return tablesOf(model);
  };
  struct Copies {
    std::vector<WeightKind> low, high;
  };
  for (const Copies &copies :
       {Copies{{k2}, {k8}}, {{k4}, {k8}}, {{k2}, {k2, k1}}, {{k2, k2}, {k8}}}) {
    const MoeLayerTables both = withCopies(copies.high, copies.low),
                         low = withCopies(copies.low, {}), high = withCopies(copies.high, {});
    const uint64_t start = both.slices[3][copies.low.size()].offset;
    const size_t lowSlices = copies.low.size();
    for (size_t level = 1; level <= lowSlices + copies.high.size(); ++level)
      for (size_t m = 0; m < 3; ++m) {
        const WeightView &view = both.templateOf(3, uint16_t(level)).matrices[m];
        if (level <= lowSlices)
          CHECK(isSameView(view, 0, low.templateOf(3, uint16_t(level)).matrices[m]));
        else
          CHECK(
              isSameView(view, start, high.templateOf(3, uint16_t(level - lowSlices)).matrices[m]));
      }
  }
}

TEST_CASE("experts that wait are computed from the other copy alone") {
  auto logits = [](const SyntheticOptions &model, EngineOptions options = baseOptions()) {
    TemporaryArtifact artifact(model);
    return logitsOf(artifact.path, options);
  };
  const SyntheticOptions eight = withSlices({{k8}}), three = withSlices({{k2, k1}}),
                         floats = {.experts = WeightKind::kBF16};
  SyntheticOptions transformed = three;
  transformed.hasHadamard = true;
  for (const SyntheticOptions &model : {eight, three, floats, transformed}) {
    const std::vector<float> high = logits(model);
    CHECK(sameBytes(high, logits(withLowCopy(model, k2))));
    EngineOptions exact = baseOptions();
    exact.isExact = true;
    CHECK(sameBytes(high, logits(withLowCopy(model, k2, kLowPrompts), exact)));
    CHECK_FALSE(sameBytes(high, logits(withLowCopy(model, k2, kLowPrompts))));
  }
}

TEST_CASE("low copies beside floats compute what they do beside quantized experts") {
  // Experts of zeros contribute nothing, whether they are floats or codes.
  auto logits = [](WeightKind experts, WeightKind low, const MissRule &rule, uint32_t threads) {
    SyntheticOptions model = withLowCopy({.experts = experts}, low, rule);
    model.hasZeroExperts = true;
    TemporaryArtifact artifact(model);
    EngineOptions options = baseOptions();
    options.threads = threads;
    if (rule.changesPrompts())
      return logitsOf(artifact.path, options);
    Loaded loaded = load(artifact.path, options);
    Recorder recorder;
    for (const int32_t &token : kPrompt) {
      const SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
      REQUIRE(loaded.engine->step({&one, 1}, recorder).isOk());
    }
    return recorder.logits;
  };
  // Experts of one token share a row of inputs, and those that stayed are computed together.
  for (const MissRule &rule : {kLowPrompts, MissRule{.action = MissAction::kLower}}) {
    const std::vector<float> two = logits(k8, k2, rule, 1), four = logits(k8, k4, rule, 1);
    CHECK_FALSE(sameBytes(two, four));
    for (WeightKind floats : {WeightKind::kBF16, WeightKind::kF32})
      for (uint32_t threads : {1u, 3u}) {
        CHECK(sameBytes(two, logits(floats, k2, rule, threads)));
        CHECK(sameBytes(four, logits(floats, k4, rule, threads)));
      }
  }
}

TEST_CASE("inputs of low copies beside floats are accounted where experts may be lowered") {
  static constexpr uint32_t kTokens = 64;
  // A row of 64 codes, and 2 groups' scales and sums, each padded to 64 bytes.
  constexpr uint64_t kRowBytes = 64 + 64 + 64;
  struct Activations {
    uint64_t perToken, ofRun;
  };
  auto activationsOf = [](const SyntheticOptions &synthetic, bool isExact = false) {
    TemporaryArtifact file(synthetic);
    auto model = Model::open(file.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    EngineOptions options = baseOptions();
    options.prefillChunk = kTokens;
    options.isExact = isExact;
    auto account = accountMemory(**model, options);
    REQUIRE_MESSAGE(account.isOk(), account.status().message());
    auto item = std::ranges::find(account->items, "activations", &MemoryItem::name);
    REQUIRE(item != account->items.end());
    return Activations{footprintOf((*model)->artifact()).arenaBytesPerToken, item->bytes};
  };
  constexpr MissRule kLowers = {.action = MissAction::kLower};
  const SyntheticOptions floats = {.experts = WeightKind::kBF16};
  SyntheticOptions without = floats;
  without.miss = kLowers;
  const Activations alone = activationsOf(without);
  const Activations beside = activationsOf(withLowCopy(floats, k2, kLowers));
  CHECK(beside.perToken == alone.perToken + kRowBytes);
  static_assert(kRowBytes * kTokens % 4096 == 0, "the account rounds up to pages");
  CHECK(beside.ofRun == alone.ofRun + kRowBytes * kTokens);
  CHECK(activationsOf(withLowCopy(floats, k2)).ofRun == alone.ofRun);
  CHECK(activationsOf(withLowCopy(floats, k2, kLowers), true).ofRun == alone.ofRun);
  CHECK(activationsOf(withLowCopy(withSlices({{k8}}), k2, kLowers)).ofRun ==
        activationsOf(withSlices({{k8}})).ofRun);
}

TEST_CASE("inputs of low copies are aligned whatever arena a file states") {
  TemporaryArtifact file(withLowCopy({.experts = WeightKind::kBF16}, k2));
  auto model = Model::open(file.path);
  REQUIRE(model.isOk());
  Artifact artifact = (*model)->artifact();
  const uint64_t before = arenaBytesPerToken(artifact, true).buffers;
  CHECK(before % kBufferAlignment == 0);
  for (Program &program : artifact.programs)
    program.arenaBytesPerToken = before + 1;
  CHECK(arenaBytesPerToken(artifact, true).buffers == before + kBufferAlignment);
  CHECK(arenaBytesPerToken(artifact, true).lowCopyRows % kBufferAlignment == 0);
  CHECK(arenaBytesPerToken(artifact, false).lowCopyRows == 0);
}

TEST_CASE("slices that form no expert are refused") {
  TemporaryArtifact file;
  auto model = Model::open(file.path);
  REQUIRE(model.isOk());
  Artifact artifact = (*model)->artifact();
  CHECK(makeLayerTables(artifact).isOk());
  std::vector<Slice> &slices = artifact.moeLayers[1].experts[2].slices;
  slices.push_back(slices[0]);
  Status status = makeLayerTables(artifact).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message() ==
        "layer 1, expert 2: a low copy of int4, 4 bits, and a separate one of 4 bits, expected a "
        "quantized low copy of fewer bits");
}

TEST_CASE("a hidden size that is not a multiple of 16 gives the same logits in every batch") {
  SyntheticOptions odd;
  odd.hidden = 72;
  TemporaryArtifact artifact(odd);
  EngineOptions one = baseOptions(), many = baseOptions();
  one.isa = Isa::kReference;
  one.prefillChunk = 1;
  many.prefillChunk = 7;
  CHECK(sameBytes(logitsOf(artifact.path, one), logitsOf(artifact.path, many)));
}

TEST_CASE("a product that overlaps the result of the one before it overwrites that result") {
  SyntheticOptions twice;
  twice.repeatsQuery = true;
  TemporaryArtifact once, repeated(twice);
  CHECK(sameBytes(logitsOf(once.path, baseOptions()), logitsOf(repeated.path, baseOptions())));
}

TEST_CASE("tokens one by one give the logits of the whole prompt in one chunk") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  std::vector<float> expected = logitsOf(artifact.path, options);
  Loaded loaded = load(artifact.path, options);
  Recorder recorder;
  for (int32_t token : kPrompt) {
    SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    REQUIRE(loaded.engine->step({&one, 1}, recorder).isOk());
  }
  CHECK(sameBytes(expected, recorder.logits));
}

TEST_CASE("sessions in one batch do not affect each other") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  std::vector<float> expected = logitsOf(artifact.path, options);
  options.sessions = 2;
  Loaded loaded = load(artifact.path, options);
  auto other = loaded.engine->createSession();
  REQUIRE(other.isOk());
  Recorder first, second;
  struct Both : StepObserver {
    Session *firstSession;
    Recorder *first, *second;
    Status onLogits(Session &session, uint32_t position, std::span<const float> values) override {
      return (&session == firstSession ? first : second)->onLogits(session, position, values);
    }
  } both;
  both.firstSession = loaded.session.get();
  both.first = &first;
  both.second = &second;
  for (size_t i = 0; i < kPrompt.size(); ++i) {
    SessionTokens batch[] = {
        {loaded.session.get(), {&kPrompt[i], 1}, LogitsWanted::kLast},
        {other->get(), {&kPrompt[kPrompt.size() - 1 - i], 1}, LogitsWanted::kLast}};
    REQUIRE(loaded.engine->step(batch, both).isOk());
  }
  CHECK(sameBytes(expected, first.logits));
  CHECK_FALSE(sameBytes(expected, second.logits));
}

TEST_CASE("a session that was reset starts over") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  Recorder once, again;
  SessionTokens tokens = {loaded.session.get(), kPrompt, LogitsWanted::kLast};
  REQUIRE(loaded.engine->prefill(tokens, once).isOk());
  loaded.session->reset();
  REQUIRE(loaded.engine->prefill(tokens, again).isOk());
  CHECK(sameBytes(once.logits, again.logits));
}

TEST_CASE("the token loop allocates nothing") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.threads = 2;
  options.memory = BudgetSize{smallestBudget(artifact.path, options) + 30000, {}};
  Loaded loaded = load(artifact.path, options);
  Silent observer;
  REQUIRE(loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kLast}, observer)
              .isOk());
  uint64_t before = allocationsSoFar();
  for (int i = 0; i < 20; ++i) {
    int32_t token = observer.best;
    SessionTokens next = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    Status done = loaded.engine->step({&next, 1}, observer);
    if (!done.isOk())
      FAIL(done.message());
  }
  CHECK(allocationsSoFar() == before);
}

TEST_CASE("the profile of a step counts every routed expert once as a hit or a miss") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.memory = BudgetSize{smallestBudget(artifact.path, options) + 40000, {}};
  Loaded loaded = load(artifact.path, options);
  Silent observer;
  uint64_t hits = 0;
  for (int32_t token : kPrompt) {
    SessionTokens next = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
    REQUIRE(loaded.engine->step({&next, 1}, observer).isOk());
    std::span<const LayerProfile> profile = loaded.engine->lastStep();
    REQUIRE(profile.size() == kLayers + 1);
    for (uint32_t l = 0; l < kLayers; ++l) {
      CHECK(profile[l].hits + profile[l].misses == kTopK);
      CHECK(profile[l].bytesRead ==
            profile[l].misses * loaded.model->artifact().moeLayers[l].experts[0].bytes);
      hits += profile[l].hits;
    }
    CHECK(profile[kLayers].hits + profile[kLayers].misses == 0);
  }
  CHECK(hits > 0);
}

TEST_CASE("a step refuses bad input with the allowed range in the message") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.prefillChunk = 8;
  Loaded loaded = load(artifact.path, options);
  Silent observer;
  int32_t wrong = kVocabulary;
  SessionTokens tokens = {loaded.session.get(), {&wrong, 1}, LogitsWanted::kLast};
  CHECK(loaded.engine->step({&tokens, 1}, observer).message() == "token id 96, expected 0 to 95");
  tokens.tokens = kPrompt;
  CHECK(loaded.engine->step({&tokens, 1}, observer).message() ==
        "a batch of 18 tokens, expected 1 to 8");
  std::vector<int32_t> tooLong(65, 1);
  tokens.tokens = tooLong;
  CHECK(loaded.engine->step({&tokens, 1}, observer).message() ==
        "the sequence would have 65 tokens, expected at most the context of 64");
}

TEST_CASE("a context beyond the model's positions is refused with both numbers") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = baseOptions();
  options.contextTokens = 513;
  auto refused = accountMemory(**model, options);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().message().find("513 tokens, expected 1 to 512") != std::string::npos);
}

TEST_CASE("a second engine's account leaves out what exists once per process") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions options = baseOptions();
  auto first = accountMemory(**model, options);
  options.sharesProcess = true;
  auto second = accountMemory(**model, options);
  REQUIRE(first.isOk());
  REQUIRE(second.isOk());
  REQUIRE(first->items.size() == second->items.size());
  for (size_t i = 0; i < first->items.size(); ++i) {
    const std::string &name = first->items[i].name;
    INFO(name);
    if (name == "program and libraries" || name == "heap and main stack" || name == "reserve") {
      CHECK(first->items[i].bytes > 0);
      CHECK(second->items[i].bytes == 0);
    } else if (name != "page tables") { // Proportional to all other items.
      CHECK(first->items[i].bytes == second->items[i].bytes);
    }
  }
}

TEST_CASE("prefill ends between chunks when a stop is requested") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.prefillChunk = 4;
  Loaded loaded = load(artifact.path, options);
  std::atomic<bool> stop{false};
  struct Stopper : StepObserver {
    std::atomic<bool> *flag;
    Status onLogits(Session &, uint32_t, std::span<const float>) override {
      flag->store(true);
      return {};
    }
  } stopper;
  stopper.flag = &stop;
  Status done =
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, stopper, &stop);
  CHECK(done.code() == StatusCode::kInterrupted);
  CHECK(loaded.session->length() == 4);
}
