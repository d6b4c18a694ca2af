#include "runtime/serving/Generation.h"

#include "tests/unit/engine/SyntheticModel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

using namespace moert;

namespace {

/// A loaded synthetic model with an empty session.
class Loaded {
public:
  explicit Loaded(const test::SyntheticOptions &synthetic = {}) {
    REQUIRE(test::writeSyntheticModel(kPath, synthetic).isOk());
    auto opened = Model::open(kPath);
    REQUIRE(opened.isOk());
    model = std::move(*opened);
    EngineOptions options;
    options.contextTokens = 64;
    options.prefillChunk = 4;
    options.io = IoBackend::kThreads;
    auto account = accountMemory(*model, options);
    REQUIRE(account.isOk());
    auto loaded = Engine::load(*model, options, *account);
    REQUIRE(loaded.isOk());
    engine = std::move(*loaded);
    session = engine->createSession().value();
  }
  ~Loaded() { std::remove(kPath); }

  struct Outcome {
    Result<GenerationEnd> end = GenerationEnd::kLength;
    std::vector<int32_t> tokens;
    std::vector<RunStep> steps;
    GenerationNumbers numbers;
  };

  Outcome run(uint32_t maxTokens, std::vector<int32_t> endTokens = {}, size_t takeAtMost = SIZE_MAX,
              size_t stopAfter = SIZE_MAX, std::vector<int32_t> given = {},
              const SamplingOptions &sampling = {}, NgramStopOptions ngramStop = {}) {
    session->reset();
    Outcome outcome;
    std::atomic<bool> stop = stopAfter == 0;
    auto sampler = Sampler::create(sampling, test::kVocabulary);
    Generation generation(
        *engine, *session, *sampler,
        [&](const RunStep &step, std::span<const LayerProfile>) { outcome.steps.push_back(step); },
        stop);
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6};
    outcome.end = generation.run({.prompt = prompt,
                                  .maxTokens = maxTokens,
                                  .endTokens = endTokens,
                                  .given = given,
                                  .ngramStop = ngramStop},
                                 [&](int32_t token) -> Result<bool> {
                                   outcome.tokens.push_back(token);
                                   stop = outcome.tokens.size() >= stopAfter;
                                   return outcome.tokens.size() < takeAtMost;
                                 });
    outcome.numbers = generation.numbers();
    return outcome;
  }

  static constexpr const char *kPath = "generation_test.moe";
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

} // namespace

TEST_CASE("a run has as many tokens as requested, the first from the prompt's last chunk") {
  Loaded loaded;
  auto outcome = loaded.run(5);
  CHECK(*outcome.end == GenerationEnd::kLength);
  CHECK(outcome.tokens.size() == 5);
  CHECK(outcome.numbers.promptTokens == 6);
  CHECK(outcome.numbers.generatedTokens == 5);
  CHECK(outcome.numbers.decodeSteps == 4);
  REQUIRE(outcome.steps.size() == 6); // Chunks of 4 and 2, then four tokens.
  CHECK(outcome.steps[1].phase == RunPhase::kPrefill);
  CHECK(outcome.steps[1].firstToken == 4);
  CHECK(outcome.steps[1].tokens == 2);
  CHECK(outcome.steps[5].phase == RunPhase::kDecode);
  CHECK(outcome.steps[5].firstToken == 9);
}

TEST_CASE("a request for no tokens computes the prompt alone") {
  Loaded loaded;
  auto outcome = loaded.run(0);
  CHECK(*outcome.end == GenerationEnd::kLength);
  CHECK(outcome.tokens.empty());
  CHECK(outcome.numbers.promptTokens == 6);
}

TEST_CASE("an end token ends the run and is not passed on") {
  Loaded loaded;
  std::vector<int32_t> whole = loaded.run(8).tokens;
  auto outcome = loaded.run(8, {whole[3]});
  CHECK(*outcome.end == GenerationEnd::kEndToken);
  CHECK(outcome.tokens.size() <= 3);
  CHECK(std::equal(outcome.tokens.begin(), outcome.tokens.end(), whole.begin()));
}

TEST_CASE("the callback ends the run by returning false") {
  Loaded loaded;
  auto outcome = loaded.run(8, {}, 2);
  CHECK(*outcome.end == GenerationEnd::kStop);
  CHECK(outcome.numbers.generatedTokens == 2);
}

TEST_CASE("given tokens replace sampled ones") {
  Loaded loaded;
  const std::vector<int32_t> given = {9, 8, 7};
  auto outcome = loaded.run(3, {}, SIZE_MAX, SIZE_MAX, given);
  CHECK(*outcome.end == GenerationEnd::kLength);
  CHECK(outcome.tokens == given);
  CHECK(loaded.run(3).tokens != given);
}

TEST_CASE("weights that give no finite logit are refused with the artifact's name") {
  Loaded loaded({.logitScale = 3e38f});
  const Status status = loaded.run(4).end.status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().starts_with("generation_test.moe: after token 5: the logit of token "));
}

TEST_CASE("once the stop flag is set the run ends between steps and keeps its tokens") {
  Loaded loaded;
  auto atOnce = loaded.run(8, {}, SIZE_MAX, 0);
  CHECK(*atOnce.end == GenerationEnd::kInterrupted);
  CHECK(atOnce.steps.empty());
  auto later = loaded.run(8, {}, SIZE_MAX, 3);
  CHECK(*later.end == GenerationEnd::kInterrupted);
  CHECK(later.tokens.size() == 3);
}

TEST_CASE("penalties count the prompt and every token that was passed on") {
  Loaded loaded;
  // A large penalty on each generated token: no token comes twice.
  auto outcome = loaded.run(12, {}, SIZE_MAX, SIZE_MAX, {}, {.presencePenalty = 100});
  std::vector<int32_t> tokens = outcome.tokens;
  REQUIRE(tokens.size() == 12);
  std::sort(tokens.begin(), tokens.end());
  CHECK(std::adjacent_find(tokens.begin(), tokens.end()) == tokens.end());
  // Dividing by a number below 1 strongly favours the prompt's tokens, 1 to 6, where their logits
  // are positive, and multiplying favours them where they are negative.
  for (int32_t token :
       loaded.run(4, {}, SIZE_MAX, SIZE_MAX, {}, {.repetitionPenalty = 0.01f}).tokens)
    CHECK((token >= 1 && token <= 6));
}

TEST_CASE("a repeated n-gram ends the run after its last token") {
  Loaded loaded;
  const std::vector<int32_t> given = {9, 8, 7, 9, 8, 3, 9, 8, 5, 5};
  auto outcome = loaded.run(10, {}, SIZE_MAX, SIZE_MAX, given, {}, {2, 3});
  CHECK(*outcome.end == GenerationEnd::kRepetition);
  CHECK(outcome.tokens == std::vector<int32_t>{9, 8, 7, 9, 8, 3, 9, 8});
  CHECK(std::string(nameOf(*outcome.end)) == "repetition");
}

TEST_CASE("before each step its preparation is called, which may change the budget and the chunk") {
  Loaded loaded;
  const std::vector<int32_t> expected = loaded.run(5).tokens;
  loaded.session->reset();
  std::atomic<bool> stop = false;
  auto sampler = Sampler::create({}, test::kVocabulary);
  uint64_t now = 0;
  size_t steps = 0, preparations = 0;
  // Each reading of the clock is one later: a step's own time is 1, with its preparation 101.
  static uint64_t *clockNow;
  clockNow = &now;
  const Clock clock = [] { return ++*clockNow; };
  std::vector<uint32_t> prompts;
  Generation generation(
      *loaded.engine, *loaded.session, *sampler,
      [&](const RunStep &step, std::span<const LayerProfile>) {
        CHECK(step.wallNs == 101);
        CHECK(++steps == preparations);
        if (step.phase == RunPhase::kPrefill)
          prompts.push_back(step.tokens);
      },
      stop, clock,
      [&]() -> Status {
        ++preparations;
        now += 100;
        return preparations == 2 ? loaded.engine->setBudget({0, 0.2}) : Status();
      });
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> tokens;
  Result<GenerationEnd> end = generation.run({prompt, 5, {}}, [&](int32_t token) -> Result<bool> {
    tokens.push_back(token);
    return true;
  });
  REQUIRE_MESSAGE(end.isOk(), end.status().message());
  CHECK(tokens == expected);
  CHECK(prompts == std::vector<uint32_t>{4, 2});
}

TEST_CASE("a preparation's error ends the sequence") {
  Loaded loaded;
  std::atomic<bool> stop = false;
  auto sampler = Sampler::create({}, test::kVocabulary);
  Generation generation(*loaded.engine, *loaded.session, *sampler, {}, stop, monotonicNs,
                        [] { return failed("no further"); });
  const std::vector<int32_t> prompt = {1, 2};
  CHECK(generation.run({prompt, 5, {}}, [](int32_t) { return Result<bool>(true); })
            .status()
            .message() == "no further");
}
