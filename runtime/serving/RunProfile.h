// The work of every step of a run, by layer: recorded in preallocated memory, written as JSON at
// the end. docs/run-profile.md describes the file.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/OutputFile.h"
#include "runtime/engine/Engine.h"
#include "runtime/serving/RouteRecord.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace moert {

enum class RunPhase : uint8_t { kPrefill, kDecode };

struct RunStep {
  RunPhase phase = RunPhase::kDecode;
  uint32_t firstToken = 0; // Position of the step's first token.
  uint32_t tokens = 0;
  uint64_t beginNs = 0; // Since the run's first step began.
  uint64_t wallNs = 0;
  PartNumbers partNs{};       // Engine::lastStepParts().
  uint64_t residentBytes = 0; // The process, at or shortly before the step's end; 0: unknown.
  StepReads reads{};
};

/// Steps that a profile keeps at most; of longer runs it keeps every 2nd, 4th, ... step.
constexpr uint64_t kMostProfiledSteps = 4096;

/// Memory that the steps of a profile may take, but at least kLeastProfiledSteps of them.
constexpr uint64_t kMostStepBytes = uint64_t(16) << 20, kLeastProfiledSteps = 256;

/// Sums of LayerProfile over several steps and all layers.
struct LayerTotals {
  uint64_t computeNs = 0, waitNs = 0, bytesRead = 0, prefetchBytes = 0;
  uint64_t hits = 0, misses = 0, useful = 0, ready = 0, stalled = 0, cancelled = 0;
  uint64_t lowHits = 0, lowMisses = 0; // Experts demanded with fewer slices; in no file.
  uint64_t lowered = 0, skipped = 0, substituted = 0;
  uint64_t promoted = 0; // Experts that took the place of less important ones.

  void add(const LayerProfile &layer);
  LayerTotals &operator+=(const LayerTotals &other);
  double hitRate() const { return rateOf(hits); }
  double readyRate() const { return rateOf(ready); }
  double stallRate() const { return hits + misses == 0 ? 0 : rateOf(stalled); }
  /// Experts that the routers asked for and that a miss rule changed.
  uint64_t changed() const { return lowered + skipped + substituted; }
  uint64_t prefetches() const { return useful + cancelled; }

private:
  double rateOf(uint64_t experts) const { // 1 if no experts were demanded.
    uint64_t asked = hits + misses;
    return asked == 0 ? 1 : static_cast<double>(experts) / static_cast<double>(asked);
  }
};

/// The columns that a profile has for the layers of a step and of a phase, in the file's order:
/// calls visit(name, field of LayerProfile, field of LayerTotals).
template <typename Visit> void forEachColumn(const Visit &visit) {
  using Step = LayerProfile;
  using Sum = LayerTotals;
  visit("compute_ns", &Step::computeNs, &Sum::computeNs);
  visit("wait_ns", &Step::waitNs, &Sum::waitNs);
  visit("bytes_read", &Step::bytesRead, &Sum::bytesRead);
  visit("hits", &Step::hits, &Sum::hits);
  visit("misses", &Step::misses, &Sum::misses);
  visit("ready", &Step::ready, &Sum::ready);
  visit("stalled", &Step::stalled, &Sum::stalled);
  visit("useful", &Step::useful, &Sum::useful);
  visit("cancelled", &Step::cancelled, &Sum::cancelled);
  visit("prefetch_bytes", &Step::prefetchBytes, &Sum::prefetchBytes);
  visit("lowered", &Step::lowered, &Sum::lowered);
  visit("skipped", &Step::skipped, &Sum::skipped);
  visit("substituted", &Step::substituted, &Sum::substituted);
  visit("promoted", &Step::promoted, &Sum::promoted);
}

/// The field of the entries that a caller has: LayerProfile or LayerTotals.
template <typename Entry, typename OfStep, typename OfSum>
constexpr auto fieldOf(OfStep LayerProfile::*ofStep, OfSum LayerTotals::*ofSum) {
  if constexpr (std::is_same_v<Entry, LayerProfile>)
    return ofStep;
  else
    return ofSum;
}

/// A change of the budget before a step.
struct RunBudget {
  uint32_t firstToken = 0; // Position of that step's first token.
  uint64_t budgetBytes = 0, accountedBytes = 0;
  std::string plan, reason;
  uint64_t wallNs = 0; // That the change took; part of that step's.

  template <typename Self, typename Visit> static void describe(Self &change, Visit &&visit) {
    visit("first_token"_field, change.firstToken);
    visit("budget_bytes"_field, change.budgetBytes);
    visit("accounted_bytes"_field, change.accountedBytes, kAny.optional());
    visit("plan"_field, change.plan, kAny.optional());
    visit("reason"_field, change.reason, kAny.optional());
    visit("wall_ns"_field, change.wallNs, kAny.optional());
  }
  bool operator==(const RunBudget &) const = default;
};

/// The file's contents besides the steps. Profiles of older programs lack what is optional.
struct RunFacts {
  std::string program;  // Name and version of the program that ran it.
  std::string artifact; // File name without its directory.
  uint64_t weightsChecksum = 0;
  std::optional<uint64_t> promptChecksum;     // XXH3-64 of the prompt's text; absent for token ids.
  std::optional<std::string> promptFile = {}; // As it was named; absent for a prompt of words.
  std::string plan, preset;
  std::string io, isa;
  uint32_t threads = 0, cores = 0; // Cores: that the process could have used.
  uint32_t prefillChunkTokens = 0;
  uint32_t contextTokens = 0;
  uint64_t promptTokens = 0, generatedTokens = 0;
  /// Further options of the command, each a word of a command line.
  std::optional<std::vector<std::string>> options = {};
  std::string end; // Why the run ended: "length", "eos", "stop", "context", "interrupted".
  uint64_t budgetBytes = 0, accountedBytes = 0, peakMemoryBytes = 0;
  uint64_t availableBytes = 0;         // The memory that the run could have taken without a budget.
  uint64_t poolPages = 0;              // Pages of the expert cache.
  std::vector<RunBudget> budgets = {}; // Changes, in order.
  PartNumbers partWeightBytes{};
  uint64_t kvBytesPerToken = 0;

  template <typename Self, typename Visit> static void describe(Self &facts, Visit &&visit) {
    visit("program"_field, facts.program);
    visit("artifact"_field, facts.artifact);
    visit("weights"_field, facts.weightsChecksum, kHash);
    visit("prompt"_field, facts.promptChecksum, kHash);
    visit("prompt_file"_field, facts.promptFile);
    visit("plan"_field, facts.plan);
    visit("preset"_field, facts.preset);
    visit("io"_field, facts.io);
    visit("isa"_field, facts.isa);
    visit("threads"_field, facts.threads);
    visit("cores"_field, facts.cores);
    visit("prefill_chunk_tokens"_field, facts.prefillChunkTokens);
    visit("context_tokens"_field, facts.contextTokens);
    visit("prompt_tokens"_field, facts.promptTokens);
    visit("generated_tokens"_field, facts.generatedTokens);
    visit("options"_field, facts.options);
    visit("end"_field, facts.end);
    visit("budget_bytes"_field, facts.budgetBytes);
    visit("accounted_bytes"_field, facts.accountedBytes);
    visit("peak_memory_bytes"_field, facts.peakMemoryBytes);
    visit("available_bytes"_field, facts.availableBytes);
    visit("pool_pages"_field, facts.poolPages);
    visit("budget_changes"_field, facts.budgets, kAny.optional());
    visit("part_weight_bytes"_field, facts.partWeightBytes);
    visit("kv_bytes_per_token"_field, facts.kvBytesPerToken);
  }
};

/// Owned by one run, used by its thread. Invariant: the kept steps are those whose number is a
/// multiple of `stride`, in order; `sums` has all steps.
class RunProfile {
public:
  /// Bytes for `steps` steps of a model with `layers` layers, as far as they are kept.
  static uint64_t memoryBytes(uint64_t steps, uint32_t layers);

  /// For a run of `steps` steps, each with `layers` entries and one for the rest. With zero steps,
  /// record() does nothing.
  RunProfile(uint64_t steps, uint32_t layers);

  /// layers: Engine::lastStep(). Where the room is full, every second step that was kept is
  /// dropped. Allocates nothing.
  void record(const RunStep &step, std::span<const LayerProfile> layers);

  uint64_t stepCount() const { return steps.size(); }

  /// Writes step by step, so that the text is never in memory as a whole.
  Status write(OutputFile &file, const RunFacts &facts, const RouteRecord &routes = {}) const;

private:
  /// All steps of a phase, kept or not.
  struct Sums {
    uint64_t steps = 0, tokens = 0, wallNs = 0;
    PartNumbers partNs{};
    StepReads reads;
    std::vector<LayerTotals> layers;
  };
  static uint64_t roomFor(uint64_t steps, uint32_t layers);
  void addToSums(const RunStep &step, std::span<const LayerProfile> layers);
  void dropEverySecond();
  static void writeSums(JsonWriter &json, const char *phase, const Sums &sums);

  uint64_t entriesPerStep;
  uint64_t room;
  uint64_t recorded = 0, stride = 1;
  std::vector<RunStep> steps;
  std::vector<LayerProfile> entries;
  Sums prefill, decode;
};

} // namespace moert
