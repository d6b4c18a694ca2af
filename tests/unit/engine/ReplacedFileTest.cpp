// An artifact whose path is given to another file while it is in use.
#include "tests/unit/engine/EngineFixture.h"

#include <atomic>
#include <doctest/doctest.h>
#include <filesystem>
#include <thread>
#include <vector>

using namespace moert;
using namespace moert::test;

namespace {

SyntheticOptions modelOf(uint32_t seed) {
  SyntheticOptions options;
  options.seed = seed;
  return options;
}

/// Logits of an opened model, with the smallest memory that works, so that every step reads
/// records.
std::vector<float> logitsOf(const Model &model, IoBackend io) {
  EngineOptions options = baseOptions();
  options.io = io;
  options.memory = BudgetSize{0, 0.2};
  auto account = accountMemory(model, options);
  REQUIRE_MESSAGE(account.isOk(), account.status().message());
  auto engine = Engine::load(model, options, *account);
  REQUIRE_MESSAGE(engine.isOk(), engine.status().message());
  auto session = (*engine)->createSession();
  REQUIRE(session.isOk());
  Recorder recorder;
  Status done = (*engine)->prefill({session->get(), kPrompt, LogitsWanted::kAll}, recorder);
  REQUIRE_MESSAGE(done.isOk(), done.message());
  return recorder.logits;
}

std::vector<float> logitsOf(const std::string &path) {
  auto model = Model::open(path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  return logitsOf(**model, IoBackend::kAuto);
}

} // namespace

TEST_CASE("an opened model is the one that is read, whatever file gets its path") {
  for (IoBackend io : {IoBackend::kAuto, IoBackend::kThreads, IoBackend::kBuffered}) {
    TemporaryArtifact artifact(modelOf(1)), other(modelOf(2));
    const std::vector<float> first = logitsOf(artifact.path), second = logitsOf(other.path);
    REQUIRE_FALSE(sameBytes(first, second));
    auto model = Model::open(artifact.path);
    REQUIRE(model.isOk());
    std::filesystem::rename(other.path, artifact.path);
    CHECK(sameBytes(logitsOf(**model, io), first));
    CHECK(sameBytes(logitsOf(artifact.path), second));
  }
}

TEST_CASE("a path that is replaced all the time gives one of the files, never a mix") {
  TemporaryArtifact artifact(modelOf(1)), other(modelOf(2));
  const std::vector<float> first = logitsOf(artifact.path), second = logitsOf(other.path);
  const std::string name = artifact.path + ".link", next = artifact.path + ".next";
  std::filesystem::create_hard_link(artifact.path, name);
  std::atomic<bool> isOver = false;
  std::thread renamer([&] {
    for (bool isFirst = false; !isOver; isFirst = !isFirst) {
      std::filesystem::create_hard_link(isFirst ? artifact.path : other.path, next);
      std::filesystem::rename(next, name);
    }
  });
  int opened = 0, whole = 0;
  for (; opened < 150; ++opened) {
    auto model = Model::open(name);
    if (!model.isOk()) {
      MESSAGE(model.status().message());
      break;
    }
    EngineOptions options = baseOptions();
    auto account = accountMemory(**model, options);
    auto engine = Engine::load(**model, options, *account); // Checks the resident weights.
    if (!engine.isOk()) {
      MESSAGE(engine.status().message());
      continue;
    }
    auto session = (*engine)->createSession();
    Recorder recorder;
    if (!(*engine)->prefill({session->get(), kPrompt, LogitsWanted::kAll}, recorder).isOk())
      continue;
    whole += sameBytes(recorder.logits, first) || sameBytes(recorder.logits, second);
  }
  isOver = true;
  renamer.join();
  std::filesystem::remove(name);
  std::filesystem::remove(next);
  CHECK(opened == 150);
  CHECK(whole == 150);
}
