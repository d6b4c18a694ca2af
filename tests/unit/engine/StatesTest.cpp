// Sessions with states: what a sequence carries from token to token does not depend on how its
// tokens are divided, belongs to it alone, and is never taken back.
#include "runtime/base/CheckedMath.h"
#include "tests/unit/engine/EngineFixture.h"

#include <optional>

using namespace moert;
using namespace moert::test;

namespace {

SyntheticOptions withStates() {
  SyntheticOptions options;
  options.hasStates = true;
  return options;
}

std::vector<float> logitsOf(const std::string &path, const EngineOptions &options) {
  Loaded loaded = load(path, options);
  Recorder recorder;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder).isOk());
  return recorder.logits;
}

/// Fails at the logits of one position, while it is set to.
struct Refuser : Recorder {
  std::optional<uint32_t> refused;
  Status onLogits(Session &session, uint32_t position, std::span<const float> values) override {
    if (position == refused)
      return failed("no more logits, please");
    return Recorder::onLogits(session, position, values);
  }
};

} // namespace

TEST_CASE("states give the same logits for any chunk, thread count and instruction set") {
  TemporaryArtifact artifact(withStates()), without;
  const std::vector<float> expected = logitsOf(artifact.path, baseOptions());
  CHECK_FALSE(sameBytes(expected, logitsOf(without.path, baseOptions())));
  for (uint32_t chunk : {1u, 3u, 18u})
    for (uint32_t threads : {1u, 3u}) {
      EngineOptions options = baseOptions();
      options.prefillChunk = chunk;
      options.threads = threads;
      CHECK(sameBytes(logitsOf(artifact.path, options), expected));
      options.isa = Isa::kReference;
      CHECK(sameBytes(logitsOf(artifact.path, options), expected));
    }
}

TEST_CASE("the states of sessions in one batch do not affect each other") {
  TemporaryArtifact artifact(withStates());
  const std::vector<float> expected = logitsOf(artifact.path, baseOptions());
  EngineOptions options = baseOptions();
  options.sessions = 2;
  options.prefillChunk = 32;
  Loaded loaded = load(artifact.path, options);
  auto other = loaded.engine->createSession();
  REQUIRE(other.isOk());
  Recorder recorder;
  // The other session is ahead by 5 tokens, and its own are different.
  const std::vector<int32_t> before = {1, 2, 3, 4, 5};
  SessionTokens first = {other->get(), before, LogitsWanted::kNowhere};
  REQUIRE(loaded.engine->step({&first, 1}, recorder).isOk());
  for (size_t i = 0; i < kPrompt.size(); i += 3) {
    SessionTokens batch[] = {
        {other->get(), std::span(kPrompt).subspan(i / 3, 2), LogitsWanted::kNowhere},
        {loaded.session.get(), std::span(kPrompt).subspan(i, 3), LogitsWanted::kAll}};
    REQUIRE(loaded.engine->step(batch, recorder).isOk());
  }
  CHECK(sameBytes(recorder.logits, expected));
}

TEST_CASE("a session that was reset starts with states of zeros") {
  TemporaryArtifact artifact(withStates());
  Loaded loaded = load(artifact.path, baseOptions());
  Recorder first, second;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, first).isOk());
  loaded.session->reset();
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, second).isOk());
  CHECK(sameBytes(first.logits, second.logits));
}

TEST_CASE("a session whose step failed after its first token is refused until it is reset") {
  TemporaryArtifact artifact(withStates());
  const std::vector<float> expected = logitsOf(artifact.path, baseOptions());
  EngineOptions options = baseOptions();
  options.prefillChunk = 32;
  Loaded loaded = load(artifact.path, options);
  Refuser refuser;
  const auto tokens = std::span(kPrompt);
  SessionTokens first = {loaded.session.get(), tokens.first(4), LogitsWanted::kAll},
                rest = {loaded.session.get(), tokens.subspan(4), LogitsWanted::kAll};
  refuser.refused = 2; // The first step begins with zeros again when it is repeated.
  CHECK_FALSE(loaded.engine->step({&first, 1}, refuser).isOk());
  refuser = {};
  REQUIRE(loaded.engine->step({&first, 1}, refuser).isOk());
  refuser.refused = 6;
  CHECK(loaded.engine->step({&rest, 1}, refuser).message() == "no more logits, please");
  CHECK(loaded.session->length() == 4);
  refuser.refused.reset();
  const std::string lost = "a session whose last step failed after it had updated states, which "
                           "cannot be taken back; expected one that was reset since";
  CHECK(loaded.engine->step({&rest, 1}, refuser).message() == lost);
  CHECK(loaded.engine->prefill(rest, refuser).message() == lost);
  loaded.session->reset();
  refuser = {};
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, refuser).isOk());
  CHECK(sameBytes(refuser.logits, expected));
}

TEST_CASE("the account has the states of each session, whatever the context") {
  TemporaryArtifact artifact(withStates()), without;
  auto statesOf = [](const std::string &path, uint32_t sessions, uint32_t context) {
    auto model = Model::open(path);
    REQUIRE(model.isOk());
    EngineOptions options = baseOptions();
    options.sessions = sessions;
    options.contextTokens = context;
    auto account = accountMemory(**model, options);
    REQUIRE(account.isOk());
    for (const MemoryItem &item : account->items)
      if (item.name == "recurrent states")
        return item.bytes;
    return uint64_t(1);
  };
  // Three layers: 3 x 64 last inputs and 64 x 16 of memory, in 4 bytes.
  const uint64_t bytes = roundUp(3 * (3 * 64 + 64 * 16) * 4, 4096);
  CHECK(statesOf(artifact.path, 1, 32) == bytes);
  CHECK(statesOf(artifact.path, 1, 512) == bytes);
  CHECK(statesOf(artifact.path, 7, 32) == 7 * bytes);
  CHECK(statesOf(without.path, 1, 32) == 0);
}

TEST_CASE("states lie apart, or layer by layer where only one layer is executed at a time") {
  TemporaryArtifact artifact(withStates());
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  const StatePlaces all = placeStates((*model)->artifact(), false),
                    shared = placeStates((*model)->artifact(), true);
  CHECK(all.offsets == std::vector<uint64_t>{0, 768, 4864, 5632, 9728, 10496});
  CHECK(all.bytes == 14592);
  CHECK(shared.offsets == std::vector<uint64_t>{0, 768, 0, 768, 0, 768});
  CHECK(shared.bytes == 4864);
}

TEST_CASE("a session with states does not go back to some of its tokens") {
  TemporaryArtifact artifact(withStates());
  Loaded loaded = load(artifact.path, baseOptions());
  Recorder recorder;
  REQUIRE(loaded.engine->prefill({loaded.session.get(), kPrompt}, recorder).isOk());
  CHECK_FALSE(loaded.session->rewind(3));
  CHECK(loaded.session->rewind(loaded.session->length()));
  CHECK(loaded.session->length() == kPrompt.size());
}
