// Sessions and batches that an engine refuses before it writes anything; run with the address
// sanitizer too (the asan-ubsan preset).
#include "tests/unit/engine/EngineFixture.h"

#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace moert;
using namespace moert::test;

namespace {

constexpr int32_t kToken = 5;
constexpr std::span<const int32_t> kOneToken(&kToken, 1);

/// Fails at the first logits that it receives, while it is set to.
struct Refuser : Recorder {
  bool fails = true;
  Status onLogits(Session &session, uint32_t position, std::span<const float> values) override {
    if (fails)
      return failed("no more logits, please");
    return Recorder::onLogits(session, position, values);
  }
};

std::vector<float> logitsOfPrompt(const std::string &path) {
  Loaded loaded = load(path, baseOptions());
  Recorder recorder;
  REQUIRE(
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, recorder).isOk());
  return recorder.logits;
}

void checkRefused(const Status &status, const std::string &message) {
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message() == message);
}

} // namespace

TEST_CASE("a session that is twice in a batch is refused, and nothing was computed") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  Recorder recorder;
  SessionTokens twice[] = {{loaded.session.get(), kOneToken}, {loaded.session.get(), kOneToken}};
  checkRefused(loaded.engine->step(twice, recorder),
               "a session is in the batch twice, expected once with all its tokens");
  CHECK(loaded.session->length() == 0);
  CHECK(recorder.logits.empty());
}

TEST_CASE("a session listed twice cannot exceed its context") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  Recorder recorder;
  // Each half fits alone, both together do not.
  std::vector<int32_t> half(33, kToken);
  SessionTokens twice[] = {{loaded.session.get(), half}, {loaded.session.get(), half}};
  CHECK_FALSE(loaded.engine->step(twice, recorder).isOk());
  CHECK(loaded.session->length() == 0);
}

TEST_CASE("a session that is null, foreign or ended is refused") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.sessions = 2;
  Loaded loaded = load(artifact.path, options), other = load(artifact.path, options);
  Recorder recorder;
  const std::string foreign = "a session that is not one of this engine, or has ended";
  auto ended = loaded.engine->createSession();
  REQUIRE(ended.isOk());
  Session *pointer = ended->get();
  ended->reset();
  for (Session *wrong : {static_cast<Session *>(nullptr), other.session.get(), pointer}) {
    const std::string message =
        wrong ? foreign : "a session that is null, expected one of this engine";
    SessionTokens batch[] = {{loaded.session.get(), kOneToken}, {wrong, kOneToken}};
    checkRefused(loaded.engine->step(batch, recorder), message);
    checkRefused(loaded.engine->prefill({wrong, kPrompt}, recorder), message);
    checkRefused(loaded.engine->prefill({wrong, {}}, recorder), message);
  }
  CHECK(recorder.logits.empty());
  CHECK(loaded.session->length() == 0);
  CHECK(other.session->length() == 0);
}

TEST_CASE("an empty batch and a session without tokens are refused") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.sessions = 2;
  Loaded loaded = load(artifact.path, options);
  auto second = loaded.engine->createSession();
  REQUIRE(second.isOk());
  Recorder recorder;
  checkRefused(loaded.engine->step({}, recorder), "a batch of 0 tokens, expected 1 to 16");
  SessionTokens batch[] = {{loaded.session.get(), kOneToken}, {second->get(), {}}};
  const std::string none = "a session with 0 tokens to compute, expected at least 1";
  checkRefused(loaded.engine->step(batch, recorder), none);
  checkRefused(loaded.engine->prefill({loaded.session.get(), {}}, recorder), none);
  CHECK(loaded.session->length() == 0);
}

TEST_CASE("a prompt is refused as a whole, before its first chunk is computed") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.prefillChunk = 8;
  Loaded loaded = load(artifact.path, options);
  Recorder recorder;
  std::vector<int32_t> tooLong(65, kToken), wrong(20, kToken);
  wrong.back() = -1;
  checkRefused(loaded.engine->prefill({loaded.session.get(), tooLong}, recorder),
               "the sequence would have 65 tokens, expected at most the context of 64");
  checkRefused(loaded.engine->prefill({loaded.session.get(), wrong}, recorder),
               "token id -1, expected 0 to 95");
  CHECK(loaded.session->length() == 0);
  tooLong.resize(64);
  REQUIRE(loaded.engine->prefill({loaded.session.get(), tooLong}, recorder).isOk());
  SessionTokens one = {loaded.session.get(), kOneToken};
  checkRefused(loaded.engine->step({&one, 1}, recorder),
               "the sequence would have 65 tokens, expected at most the context of 64");
  CHECK(loaded.session->length() == 64);
}

TEST_CASE("sessions beyond those of the account are refused until one ends") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  Loaded one = load(artifact.path, options);
  checkRefused(one.engine->createSession().status(),
               "a session beyond the 1 that the memory account covers; raise "
               "EngineOptions::sessions");
  options.sessions = 3;
  Loaded three = load(artifact.path, options);
  auto second = three.engine->createSession(), third = three.engine->createSession();
  REQUIRE(second.isOk());
  REQUIRE(third.isOk());
  CHECK_FALSE(three.engine->createSession().isOk());
  second->reset();
  CHECK(three.engine->createSession().isOk());
}

TEST_CASE("sessions of different lengths share the tokens of the account") {
  TemporaryArtifact artifact;
  EngineOptions options = baseOptions();
  options.sessions = 3;
  options.sessionTokens = 96;
  Loaded loaded;
  loaded.model = Model::open(artifact.path).value();
  const MemoryAccount account = accountMemory(*loaded.model, options).value();
  loaded.engine = Engine::load(*loaded.model, options, account).value();
  auto first = loaded.engine->createSession(64), second = loaded.engine->createSession(1);
  REQUIRE(first.isOk());
  REQUIRE(second.isOk());
  CHECK((*first)->capacity() == 64);
  CHECK((*second)->capacity() == 32); // A block.
  checkRefused(loaded.engine->createSession(1).status(),
               "a session of 32 tokens beside others of 96, expected at most 96 together; raise "
               "EngineOptions::sessionTokens");
  checkRefused(loaded.engine->createSession(65).status(),
               "a session of 65 tokens, expected 1 to the context of 64");
  checkRefused(loaded.engine->createSession(0).status(),
               "a session of 0 tokens, expected 1 to the context of 64");
  Recorder recorder;
  REQUIRE(loaded.engine->prefill({first->get(), kPrompt, LogitsWanted::kAll}, recorder).isOk());
  CHECK(sameBytes(recorder.logits, logitsOfPrompt(artifact.path)));
  first->reset();
  CHECK(loaded.engine->createSession(33).isOk());

  options.sessionTokens = 63;
  checkRefused(accountMemory(*loaded.model, options).status(),
               "sessions of 63 tokens together, expected at least one context of 64");
  options.sessionTokens = 128;
  CHECK(Engine::load(*loaded.model, options, account).status().code() == StatusCode::kInvalidInput);
  const MemoryAccount larger = accountMemory(*loaded.model, options).value();
  CHECK(larger.sessionTokens == 128);
  CHECK(larger.totalBytes() - larger.items.back().bytes >
        account.totalBytes() - account.items.back().bytes);
}

TEST_CASE("the account has a KV cache per session, and a batch has room for a token of each") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  auto kvBytes = [&](uint32_t sessions) {
    EngineOptions options = baseOptions();
    options.sessions = sessions;
    auto account = accountMemory(**model, options);
    REQUIRE(account.isOk());
    CHECK(account->sessions == sessions);
    CHECK(account->prefillChunk >= sessions);
    for (const MemoryItem &item : account->items)
      if (item.name == "KV cache")
        return item.bytes;
    return uint64_t(0);
  };
  CHECK(kvBytes(1) >= kvBytesOf((*model)->artifact(), 64));
  CHECK(kvBytes(5) == 5 * kvBytes(1));
  CHECK(kvBytes(200) == 200 * kvBytes(1));
  EngineOptions options = baseOptions();
  options.sessions = 20;
  uint64_t smallest = smallestBudget(artifact.path, options);
  CHECK(smallest > smallestBudget(artifact.path, baseOptions()) + 19 * kvBytes(1));
  options.memory = BudgetSize{smallest, {}};
  Loaded loaded = load(artifact.path, options);
  CHECK(loaded.engine->prefillChunk() == 20);
}

//===-- Rotations of long sequences
//------------------------------------------------------------===//

namespace {

const Rope kShortRope = {
    RopeStyle::kHalf, 1, {1, 0.3f, 0.1f, 0.03f, 0.01f, 0.003f, 0.001f, 0.0003f}, 0, 0, {}};
const Rope kLongRope = {
    RopeStyle::kHalf, 1.25f, {0.5f, 0.2f, 0.05f, 0.02f, 0.01f, 0.002f, 0.001f, 0.0002f}, 0, 0, {}};

SyntheticOptions longRopeOptions(uint32_t originalPositions) {
  SyntheticOptions options;
  options.rope = kShortRope;
  options.rope->originalPositions = originalPositions;
  options.rope->longAttentionFactor = kLongRope.attentionFactor;
  options.rope->longInverseFrequencies = kLongRope.inverseFrequencies;
  return options;
}

SyntheticOptions plainOptions(const Rope &rope) {
  SyntheticOptions options;
  options.rope = rope;
  return options;
}

} // namespace

TEST_CASE("the requested context decides the rotation of all positions") {
  TemporaryArtifact shorter(plainOptions(kShortRope)), longer(plainOptions(kLongRope));
  // baseOptions() request 64 tokens.
  TemporaryArtifact within(longRopeOptions(64)), beyond(longRopeOptions(63));
  const std::vector<float> expectedWithin = logitsOfPrompt(shorter.path);
  const std::vector<float> expectedBeyond = logitsOfPrompt(longer.path);
  CHECK_FALSE(sameBytes(expectedWithin, expectedBeyond));
  CHECK(sameBytes(logitsOfPrompt(within.path), expectedWithin));
  CHECK(sameBytes(logitsOfPrompt(beyond.path), expectedBeyond));
}

TEST_CASE("a sequence does not grow past the length that its rotation is for") {
  TemporaryArtifact artifact(longRopeOptions(40));
  EngineOptions options = baseOptions();
  for (const auto &lengths : {std::pair{33u, 40u}, {40u, 40u}, {41u, 64u}}) {
    const uint32_t requested = lengths.first, capacity = lengths.second;
    CAPTURE(requested);
    options.contextTokens = requested;
    Loaded loaded = load(artifact.path, options);
    CHECK(loaded.session->capacity() == capacity);
    Recorder recorder;
    const std::vector<int32_t> tokens(capacity + 1, kToken);
    const Status status = loaded.engine->prefill({loaded.session.get(), tokens}, recorder);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message() == "the sequence would have " + std::to_string(capacity + 1) +
                                  " tokens, expected at most the context of " +
                                  std::to_string(capacity));
  }
}

TEST_CASE("values kept in keys take no memory beside them") {
  Artifact artifact;
  artifact.kvSlots = {{1, 576, 0}, {2, 16, 24}};
  CHECK(kvBytesPerToken(artifact) == (576 + 2 * (16 + 24)) * sizeof(float));
  artifact.kvSlots[0].kind = KvKind::kF16;
  artifact.kvSlots[1].kind = KvKind::kInt8; // Each row has one scale.
  CHECK(kvBytesPerToken(artifact) == 2 * 576 + 2 * (16 + 4 + 24 + 4));
}

TEST_CASE("numbers of sessions, logits rows and threads that no engine can have are refused") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  EngineOptions none = baseOptions(), many = baseOptions(), rows = baseOptions(),
                threads = baseOptions();
  none.sessions = 0;
  many.sessions = 4097;
  rows.logitsRows = 0;
  threads.threads = 0;
  checkRefused(accountMemory(**model, none).status(), "0 sessions, expected 1 to 4096");
  checkRefused(accountMemory(**model, many).status(), "4097 sessions, expected 1 to 4096");
  checkRefused(accountMemory(**model, rows).status(),
               "0 rows of logits and 1 threads, expected at least 1 of each");
  checkRefused(accountMemory(**model, threads).status(),
               "1 rows of logits and 0 threads, expected at least 1 of each");
}

TEST_CASE("an engine is loaded only with the account of its own options") {
  TemporaryArtifact artifact;
  auto model = Model::open(artifact.path);
  REQUIRE(model.isOk());
  const EngineOptions options = baseOptions();
  const MemoryAccount account = accountMemory(**model, options).value();
  auto isRefused = [&](const EngineOptions &other, const MemoryAccount &of) {
    return Engine::load(**model, other, of).status().code() == StatusCode::kInvalidInput;
  };
  CHECK(Engine::load(**model, options, account).isOk());
  EngineOptions longer = options, more = options, rows = options;
  longer.contextTokens = 128;
  more.sessions = 2;
  rows.logitsRows = 2;
  CHECK(isRefused(longer, account));
  CHECK(isRefused(more, account));
  CHECK(isRefused(rows, account));
  MemoryAccount plan = account, chunk = account;
  plan.plan = 1000;
  chunk.prefillChunk = 0;
  CHECK(isRefused(options, plan));
  CHECK(isRefused(options, chunk));
  CHECK(isRefused(options, MemoryAccount()));
}

TEST_CASE("after a step that failed the sessions are as before it, and it can be repeated") {
  TemporaryArtifact artifact;
  const std::vector<float> expected = logitsOfPrompt(artifact.path);
  EngineOptions options = baseOptions();
  options.prefillChunk = 32;
  Loaded loaded = load(artifact.path, options);
  Refuser refuser;
  SessionTokens all = {loaded.session.get(), kPrompt, LogitsWanted::kAll};
  CHECK(loaded.engine->step({&all, 1}, refuser).message() == "no more logits, please");
  CHECK(loaded.session->length() == 0);
  refuser.fails = false;
  REQUIRE(loaded.engine->step({&all, 1}, refuser).isOk());
  CHECK(sameBytes(expected, refuser.logits));
}

TEST_CASE("a step within a step is refused, and the outer step continues") {
  TemporaryArtifact artifact;
  const std::vector<float> expected = logitsOfPrompt(artifact.path);
  EngineOptions options = baseOptions();
  options.prefillChunk = 32;
  Loaded loaded = load(artifact.path, options);
  struct Nested : Recorder {
    Engine *engine = nullptr;
    size_t refused = 0;
    Status onLogits(Session &session, uint32_t position, std::span<const float> values) override {
      SessionTokens one = {&session, kOneToken};
      refused += engine->step({&one, 1}, *this).message().find("a step within a step") == 0;
      return Recorder::onLogits(session, position, values);
    }
  } nested;
  nested.engine = loaded.engine.get();
  SessionTokens all = {loaded.session.get(), kPrompt, LogitsWanted::kAll};
  REQUIRE(loaded.engine->step({&all, 1}, nested).isOk());
  CHECK(nested.refused == kPrompt.size());
  CHECK(sameBytes(expected, nested.logits));
}

TEST_CASE("a session that outlives its engine can be destroyed") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  loaded.engine.reset();
  CHECK(loaded.session->length() == 0);
  loaded.session.reset();
}

TEST_CASE("a session that goes back continues as if later tokens had never been computed") {
  TemporaryArtifact artifact;
  Loaded loaded = load(artifact.path, baseOptions());
  Session &session = *loaded.session;
  Recorder discarded, recorder;
  constexpr uint32_t kKept = 7;
  std::vector<int32_t> other(kPrompt.begin(), kPrompt.begin() + kKept);
  other.resize(kPrompt.size(), kToken);
  REQUIRE(loaded.engine->prefill({&session, other, LogitsWanted::kAll}, discarded).isOk());
  CHECK_FALSE(session.rewind(session.length() + 1));
  CHECK(session.length() == other.size());
  REQUIRE(session.rewind(kKept));
  CHECK(session.length() == kKept);
  const auto rest = std::span(kPrompt).subspan(kKept);
  REQUIRE(loaded.engine->prefill({&session, rest, LogitsWanted::kAll}, recorder).isOk());
  const std::vector<float> whole = logitsOfPrompt(artifact.path);
  const std::span<const float> expected =
      std::span(whole).last(rest.size() * (whole.size() / kPrompt.size()));
  CHECK(
      std::equal(recorder.logits.begin(), recorder.logits.end(), expected.begin(), expected.end()));
}
