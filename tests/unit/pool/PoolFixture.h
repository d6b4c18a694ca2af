// The inputs for filling a pool: the tiny artifact's experts as a checkpoint of random numbers, a
// profile of random tokens for them, and a directory.
#pragma once

#include "compiler/pool/ExpertPool.h"
#include "compiler/profile/CalibrationProfile.h"
#include "tests/unit/emit/TinyPlan.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Every test has its own directory, which is removed at the end.
struct PoolFixture {
  PoolFixture();

  moert::Result<std::unique_ptr<moec::ExpertPool>> fill() const;
  /// Fails the test on an error.
  std::unique_ptr<moec::ExpertPool> filled() const;
  /// Interrupts after so many experts; expects that some were left.
  void fillAndInterruptAfter(size_t experts);
  /// Replaces the weights and the tokens.
  void writeWeights(uint32_t seed) const;
  using ChangeLayer = std::function<void(std::vector<float> &rows, moec::LayerTrace &trace)>;
  void writeProfile(uint32_t seed, uint32_t topK = 2, const ChangeLayer &change = {}) const;

  std::string poolFile(const std::string &name) const { return options.directory + "/" + name; }

  TemporaryDirectory directory;
  std::string checkpointPath = directory.path("checkpoint");
  std::string profilePath = directory.path("profile");
  moec::EmitPlan plan = tinyPlan();
  moec::PoolOptions options; // 8, 6, 4, 3 and 2 bits by error feedback, nested, one thread.
};

/// All records in the order [layer][expert][grid].
std::vector<std::byte> recordsOf(const moec::ExpertPool &pool);
std::vector<std::byte> recordOf(const moec::ExpertPool &pool, size_t layer, size_t expert,
                                size_t grid);

/// Sums up what was done and what was restored.
class CountingProgress final : public moec::Progress {
public:
  void begin(std::string_view, uint64_t, uint64_t) override {}
  void advanceTo(uint64_t now) override { doneBytes += now - std::exchange(last, now); }
  void restoreTo(uint64_t now) override { restoredBytes += now - std::exchange(last, now); }
  void end() override {}

  uint64_t doneBytes = 0, restoredBytes = 0;

private:
  uint64_t last = 0;
};

/// Sets a stop flag at a given progress.
class StoppingProgress final : public moec::Progress {
public:
  explicit StoppingProgress(uint64_t after) : limit(after) {}
  void begin(std::string_view, uint64_t, uint64_t) override {}
  void advanceTo(uint64_t done) override { stop = stop || done >= limit; }
  void end() override {}

  std::atomic<bool> stop = false;

private:
  uint64_t limit;
};
