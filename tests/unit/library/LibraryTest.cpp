// The library as other programs see it: through moert.h and moert.hpp alone.
#include "moert/moert.hpp"

#include "tests/unit/engine/SyntheticModel.h"
#include "tests/unit/support/FloatModes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace {

constexpr const char *kPath = "library_test.moe";

struct ModelFile {
  ModelFile() { REQUIRE(moert::test::writeSyntheticModel(kPath, {}).isOk()); }
  ~ModelFile() { std::remove(kPath); }
};

const std::vector<int32_t> kPrompt = {5, 17, 90, 3, 3, 41, 60, 2};

/// The status and the text of a call.
struct Outcome {
  moert_status status;
  std::string text;
};

template <typename Function, typename... Arguments>
Outcome outcomeOf(Function function, Arguments... arguments) {
  char *text = nullptr;
  const moert_status status = function(arguments..., &text);
  Outcome outcome = {status, text ? text : ""};
  CHECK((text != nullptr) == (status != MOERT_OK));
  moert_free(text);
  return outcome;
}

std::vector<float> copyOf(std::span<const float> row) {
  return {row.begin(), row.end()};
}

/// Bit by bit.
bool isSame(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

TEST_CASE("a file that is no artifact is refused in words, with and without a place for them") {
  moert_model *model = nullptr;
  const Outcome refused = outcomeOf(moert_model_open, "no-such-file.moe", &model);
  CHECK(refused.status == MOERT_REFUSED);
  CHECK(refused.text == "no-such-file.moe: cannot be opened: No such file or directory");
  CHECK(moert_model_open("no-such-file.moe", &model, nullptr) == MOERT_REFUSED);
  CHECK(model == nullptr);
  CHECK_THROWS_AS(moert::Model("no-such-file.moe"), moert::Error);
}

TEST_CASE("a pointer that is NULL and may not be is refused by its name") {
  ModelFile file;
  moert_model *none = nullptr;
  CHECK(outcomeOf(moert_model_open, nullptr, &none).text == "path is NULL");
  CHECK(outcomeOf(moert_model_open, kPath, nullptr).text == "out is NULL");
  moert::Model model(kPath);
  moert::Engine engine(model, {});
  moert::Session session(engine);
  CHECK(outcomeOf(moert_compute, session.get(), nullptr, size_t(2), nullptr).text ==
        "tokens is NULL");
  CHECK(outcomeOf(moert_generate, session.get(), kPrompt.data(), kPrompt.size(), nullptr, nullptr,
                  nullptr, nullptr)
            .text == "take is NULL");
  moert_step step = {nullptr, 1, nullptr};
  CHECK(outcomeOf(moert_compute_batch, &step, size_t(1)).text == "a step's session is NULL");
  moert_model_close(nullptr);
  moert_engine_close(nullptr);
  moert_session_close(nullptr);
  moert_session_reset(nullptr);
  moert_stop(nullptr);
  moert_free(nullptr);
  CHECK(moert_session_length(nullptr) == 0);
}

TEST_CASE("a model is described") {
  ModelFile file;
  const moert_model_facts facts = moert::Model(kPath).facts();
  CHECK(facts.vocabulary_tokens == moert::test::kVocabulary);
  CHECK(facts.layers == moert::test::kLayers);
  CHECK(facts.has_tokenizer == 0);
  CHECK(facts.expert_bytes > 0);
  CHECK_THROWS_WITH_AS(moert::Model(kPath).encode("text"),
                       "library_test.moe has no tokenizer, expected token ids", moert::Error);
}

TEST_CASE("structs of an older program are filled as far as it knows them") {
  ModelFile file;
  moert::Model model(kPath);
  moert_model_facts facts;
  std::memset(&facts, 0x55, sizeof facts);
  facts.struct_bytes = offsetof(moert_model_facts, max_context_tokens);
  REQUIRE(outcomeOf(moert_model_describe, model.get(), &facts).status == MOERT_OK);
  CHECK(facts.layers == moert::test::kLayers);
  CHECK(facts.max_context_tokens == 0x55555555);
  CHECK(facts.struct_bytes == offsetof(moert_model_facts, max_context_tokens));
  facts.struct_bytes = 0;
  CHECK(outcomeOf(moert_model_describe, model.get(), &facts).status == MOERT_REFUSED);
}

TEST_CASE("options of a newer program work as long as what is unknown is not set") {
  ModelFile file;
  moert::Model model(kPath);
  struct Newer {
    moert_engine_options known = MOERT_ENGINE_OPTIONS_INIT;
    uint64_t unknown = 0;
  } newer;
  newer.known.struct_bytes = sizeof newer;
  uint64_t bytes = 0;
  CHECK(outcomeOf(moert_smallest_budget, model.get(), &newer.known, &bytes).status == MOERT_OK);
  newer.unknown = 1;
  const Outcome refused = outcomeOf(moert_smallest_budget, model.get(), &newer.known, &bytes);
  CHECK(refused.status == MOERT_REFUSED);
  CHECK(refused.text.find("a field that this library does not know is set") != std::string::npos);
  newer.known.struct_bytes = 3;
  CHECK(outcomeOf(moert_smallest_budget, model.get(), &newer.known, &bytes)
            .text.find("struct_bytes is 3") != std::string::npos);
}

TEST_CASE("options that cannot work are refused with what would") {
  ModelFile file;
  moert::Model model(kPath);
  const auto refusal = [&](const moert::EngineOptions &options) {
    moert_engine *engine = nullptr;
    const Outcome outcome = outcomeOf(moert_engine_load, model.get(), &options, &engine);
    CHECK(outcome.status == MOERT_REFUSED);
    CHECK(engine == nullptr);
    return outcome.text;
  };
  moert::EngineOptions io;
  io.io = "floppy";
  CHECK(refusal(io) == "io is 'floppy', expected auto, uring, threads or buffered");
  moert::EngineOptions isa;
  isa.isa = "mmx";
  CHECK(refusal(isa).find("isa is 'mmx', expected one of auto, reference") == 0);
  moert::EngineOptions fraction;
  fraction.memory.expert_fraction = -1;
  CHECK(refusal(fraction) == "expert_fraction is -1, expected 0 to 1");
  moert::EngineOptions little;
  little.memory.bytes = 1;
  const uint64_t smallest = model.smallestBudget(little);
  CHECK(refusal(little).find("a memory budget of 1 bytes") == 0); // No option of a program.
  CHECK(refusal(little).find("the smallest budget that works is " + std::to_string(smallest)) !=
        std::string::npos);
}

TEST_CASE("tokens one by one, in one call and in a batch of sessions give the same logits") {
  ModelFile file;
  moert::Model model(kPath);
  moert::EngineOptions options;
  options.sessions = 2;
  moert::Engine engine(model, options);
  moert::Session one(engine), other(engine);
  const std::vector<float> whole = copyOf(one.compute(kPrompt));
  CHECK(one.length() == kPrompt.size());
  CHECK_THROWS_AS(moert::Session{engine}, moert::Error); // Beyond two.
  one.reset();
  moert_step steps[2] = {{other.get(), 0, nullptr}, {one.get(), 0, nullptr}};
  for (size_t i = 0; i < kPrompt.size(); ++i) {
    steps[0].token = kPrompt[kPrompt.size() - 1 - i];
    steps[1].token = kPrompt[i];
    REQUIRE(outcomeOf(moert_compute_batch, steps, size_t(2)).status == MOERT_OK);
  }
  CHECK(isSame(whole, copyOf({steps[1].logits, moert::test::kVocabulary})));
  CHECK_FALSE(isSame(whole, copyOf({steps[0].logits, moert::test::kVocabulary})));
}

TEST_CASE("another budget changes no bit, and one that cannot work changes nothing") {
  ModelFile file;
  moert::Model model(kPath);
  moert::Engine engine(model, {});
  moert::Session session(engine);
  const std::vector<float> expected = copyOf(session.compute(kPrompt));
  session.reset();
  session.compute(std::span(kPrompt).first(3));
  const uint64_t before = engine.facts().accounted_bytes;
  CHECK_THROWS_AS(engine.setBudget({1, 0}), moert::Error);
  CHECK(engine.facts().accounted_bytes == before);
  engine.setBudget({0, 0.2});
  CHECK(engine.facts().accounted_bytes < before);
  CHECK(isSame(expected, copyOf(session.compute(std::span(kPrompt).subspan(3)))));
}

TEST_CASE("generating passes on the most likely tokens until the caller has enough") {
  ModelFile file;
  moert::Model model(kPath);
  moert::Engine engine(model, {});
  moert::Session session(engine);
  moert::Sampling sampling;
  sampling.max_tokens = 6;
  sampling.ignore_end_tokens = 1;
  std::vector<int32_t> tokens;
  const auto take = [&](int32_t token, std::string_view text) {
    CHECK(text.empty()); // No tokenizer.
    tokens.push_back(token);
    return tokens.size() % 4 != 0;
  };
  CHECK(session.generate(kPrompt, sampling, take) == MOERT_END_CALLER);
  REQUIRE(tokens.size() == 4);
  CHECK(session.length() == kPrompt.size() + 3); // The last one is not appended.
  session.reset();
  std::vector<int32_t> input = kPrompt;
  for (int32_t token : tokens) {
    const std::span<const float> row = session.compute(input);
    CHECK(std::max_element(row.begin(), row.end()) - row.begin() == token);
    input = {token};
  }
  CHECK(session.generate(input, sampling, [](int32_t, std::string_view) { return true; }) ==
        MOERT_END_LENGTH);
}

TEST_CASE("a full session ends the generation, and more than it holds is refused") {
  ModelFile file;
  moert::Model model(kPath);
  moert::EngineOptions options;
  options.context_tokens = 32;
  moert::Engine engine(model, options);
  moert::Session session(engine);
  moert::Sampling sampling;
  sampling.ignore_end_tokens = 1;
  size_t taken = 0;
  const auto count = [&](int32_t, std::string_view) { return ++taken > 0; };
  CHECK(session.generate(kPrompt, sampling, count) == MOERT_END_CONTEXT);
  CHECK(taken == 32 - kPrompt.size() + 1);
  CHECK_THROWS_WITH_AS(session.generate(kPrompt, sampling, count),
                       "the sequence would have 40 tokens, expected at most the context of 32",
                       moert::Error);
  CHECK_THROWS_AS(session.compute(kPrompt), moert::Error);
}

TEST_CASE("a stop ends one call, and an exception of the caller's function comes out") {
  ModelFile file;
  moert::Model model(kPath);
  moert::Engine engine(model, {});
  moert::Session session(engine);
  size_t taken = 0;
  const auto stop = [&](int32_t, std::string_view) {
    engine.stop();
    return ++taken > 0;
  };
  try {
    session.generate(kPrompt, {}, stop);
    CHECK(false);
  } catch (const moert::Error &error) {
    CHECK(error.code() == MOERT_INTERRUPTED);
  }
  CHECK(taken == 1);
  session.reset();
  CHECK(session.compute(kPrompt).size() == moert::test::kVocabulary); // The wish is forgotten.
  engine.stop();
  session.reset();
  CHECK_THROWS_AS(session.compute(kPrompt), moert::Error);
  session.reset();
  CHECK_THROWS_AS(
      session.generate(kPrompt, {},
                       [](int32_t, std::string_view) -> bool { throw std::logic_error("mine"); }),
      std::logic_error);
}

TEST_CASE("a caller that flushes subnormals or rounds in another way gets the same bits") {
  ModelFile file;
  const auto generate = [] {
    moert::Model model(kPath);
    moert::EngineOptions options;
    options.threads = 3;
    moert::Engine engine(model, options);
    moert::Session session(engine);
    std::vector<float> bits = copyOf(session.compute(kPrompt));
    session.reset();
    engine.setBudget({0, 0.3});
    moert::Sampling sampling;
    sampling.temperature = 1;
    sampling.max_tokens = 12;
    sampling.ignore_end_tokens = 1;
    session.generate(kPrompt, sampling, [&](int32_t token, std::string_view) {
      bits.push_back(static_cast<float>(token));
      return true;
    });
    return bits;
  };
  const std::vector<float> expected = generate();
  for (const auto &mode : moert::test::foreignFloatModes()) {
    std::vector<float> found;
    bool isRestored = false;
    moert::test::inFloatMode(mode, [&] {
      found = generate();
      isRestored = moert::test::isSameMode(moert::DefaultFloatMode::current(), mode);
    });
    CHECK(isSame(expected, found));
    CHECK(isRestored);
  }
}
