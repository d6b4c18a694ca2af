// The work of every step of a run, by layer: recorded in preallocated memory, written as JSON at
// the end. docs/run-profile.md describes the file.
#pragma once

#include "moert/Engine.h"
#include "runtime/base/OutputFile.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

enum class RunPhase : uint8_t { kPrefill, kDecode };

struct RunStep {
  RunPhase phase = RunPhase::kDecode;
  uint32_t firstToken = 0; // Position of the step's first token.
  uint32_t tokens = 0;
  uint64_t wallNs = 0;
  PartNumbers partNs{}; // Engine::lastStepParts().
};

/// Sums of LayerProfile over several steps and all layers.
struct LayerTotals {
  uint64_t computeNs = 0, waitNs = 0, bytesRead = 0, prefetchBytes = 0;
  uint64_t hits = 0, misses = 0, useful = 0, ready = 0, stalled = 0, cancelled = 0;

  void add(const LayerProfile &layer);
  LayerTotals &operator+=(const LayerTotals &other);
  double hitRate() const { return rateOf(hits); }
  double readyRate() const { return rateOf(ready); }
  double stallRate() const { return hits + misses == 0 ? 0 : rateOf(stalled); }
  uint64_t prefetches() const { return useful + cancelled; }

private:
  double rateOf(uint64_t experts) const { // 1 if no experts were demanded.
    uint64_t asked = hits + misses;
    return asked == 0 ? 1 : static_cast<double>(experts) / static_cast<double>(asked);
  }
};

/// A change of the budget before a step.
struct RunBudget {
  uint32_t firstToken = 0; // Position of that step's first token.
  uint64_t budgetBytes = 0, accountedBytes = 0;
  std::string plan, reason;
  uint64_t wallNs = 0; // That the change took; part of that step's.
};

/// The file's contents besides the steps.
struct RunFacts {
  std::string artifact; // File name without its directory.
  std::string plan, preset;
  std::string io, isa;
  uint32_t threads = 0;
  uint32_t prefillChunkTokens = 0;
  uint32_t contextTokens = 0;
  uint64_t promptTokens = 0, generatedTokens = 0;
  std::string end; // Why the run ended: "length", "eos", "stop", "context", "interrupted".
  uint64_t budgetBytes = 0, accountedBytes = 0, peakMemoryBytes = 0;
  std::vector<RunBudget> budgets = {}; // Changes, in order.
  PartNumbers partWeightBytes{};
  uint64_t kvBytesPerToken = 0;
};

/// Owned by one run, used by its thread.
class RunProfile {
public:
  /// Bytes for `steps` steps of a model with `layers` layers.
  static uint64_t memoryBytes(uint64_t steps, uint32_t layers);

  /// Room for `steps` steps, each with `layers` entries and one for the rest. With zero steps,
  /// record() does nothing.
  RunProfile(uint64_t steps, uint32_t layers);

  /// layers: Engine::lastStep(). Steps beyond the room are dropped; allocates nothing.
  void record(const RunStep &step, std::span<const LayerProfile> layers);

  uint64_t stepCount() const { return steps.size(); }

  /// Writes step by step, so that the text is never in memory as a whole.
  Status write(OutputFile &file, const RunFacts &facts) const;

private:
  uint64_t entriesPerStep;
  uint64_t room;
  std::vector<RunStep> steps;
  std::vector<LayerProfile> entries;
};

} // namespace moert
