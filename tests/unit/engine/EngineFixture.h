// A synthetic model as a file, engines loaded from it, and recorded results.
#pragma once

#include "tests/unit/engine/SyntheticModel.h"

#include "runtime/engine/Engine.h"
#include "runtime/engine/Footprint.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace moert::test {

inline const std::vector<int32_t> kPrompt = {5,  17, 90, 3,  3,  41, 60, 2,  88,
                                             12, 7,  31, 55, 20, 1,  95, 64, 9};

/// Records everything that a run computes, byte by byte.
struct Recorder : StepObserver {
  std::vector<float> logits;
  std::vector<int32_t> experts;
  std::vector<float> weights;

  Status onLogits(Session &, uint32_t, std::span<const float> values) override {
    logits.insert(logits.end(), values.begin(), values.end());
    return {};
  }
};

struct Silent : StepObserver {
  int32_t best = 0;
  Status onLogits(Session &, uint32_t, std::span<const float> values) override {
    best = static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
    return {};
  }
};

struct TemporaryArtifact {
  std::string path;
  explicit TemporaryArtifact(const SyntheticOptions &options = {}) {
    static int count = 0;
    std::string name =
        "engine_test_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".moe";
    // Not in /tmp: it may be tmpfs, where older kernels refuse O_DIRECT.
    path = std::filesystem::current_path() / name;
    Result<Artifact> written = writeSyntheticModel(path, options);
    REQUIRE_MESSAGE(written.isOk(), written.status().message());
  }
  ~TemporaryArtifact() { std::remove(path.c_str()); }
};

struct Loaded {
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

inline Loaded load(const std::string &path, const EngineOptions &options) {
  Loaded loaded;
  auto model = Model::open(path);
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  loaded.model = std::move(model).value();
  auto account = accountMemory(*loaded.model, options);
  REQUIRE_MESSAGE(account.isOk(), account.status().message());
  auto engine = Engine::load(*loaded.model, options, *account);
  REQUIRE_MESSAGE(engine.isOk(), engine.status().message());
  loaded.engine = std::move(engine).value();
  auto session = loaded.engine->createSession();
  REQUIRE_MESSAGE(session.isOk(), session.status().message());
  loaded.session = std::move(session).value();
  return loaded;
}

inline uint64_t smallestBudget(const std::string &path, EngineOptions options) {
  auto model = Model::open(path);
  REQUIRE(model.isOk());
  options.memory = BudgetSize{1, {}};
  auto refused = accountMemory(**model, options);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().code() == StatusCode::kInvalidInput);
  const std::string &message = refused.status().message();
  return std::strtoull(message.c_str() + message.find("works is ") + 9, nullptr, 10);
}

inline EngineOptions baseOptions() {
  EngineOptions options;
  options.contextTokens = 64;
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  options.io = IoBackend::kThreads;
  return options;
}

inline bool sameBytes(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Pages of a record of the synthetic model.
constexpr uint32_t kRecordPages = 3;

/// Two records of each layer stay, four fit the staging pages; no prefetching.
inline Plan smallPlan() {
  Plan plan = {
      "small", 0, 16, 512, 4 * kRecordPages, std::vector<uint32_t>(kLayers, 2 * kRecordPages)};
  plan.preset = "lru";
  return plan;
}

inline SyntheticOptions modelWith(std::vector<Plan> plans) {
  SyntheticOptions options;
  options.plans = std::move(plans);
  return options;
}

/// A pool as large as the plan's.
inline EngineOptions optionsOf(const Model &model, const Plan &plan) {
  EngineOptions options = baseOptions();
  uint64_t pages = plan.stagingPages;
  for (uint32_t quota : plan.quotaPages)
    pages += quota;
  double payload = static_cast<double>(footprintOf(model).expertPayloadBytes);
  options.memory = BudgetSize{0, (static_cast<double>(pages) + 0.5) * 4096 / payload};
  return options;
}

} // namespace moert::test
