// Planning as a problem: what is known (a trace, what its routers' predictions were, the experts'
// sizes, a device's times, a pool of pages) and what is sought (how the cache is shared and run,
// what is prefetched when). Solvers: the presets (Presets.h) and the search (PlanSearch.h), which
// holds settings against each other in the timed replay (TimedReplay.h).
#pragma once

#include "compiler/plan/CacheReplay.h"
#include "compiler/plan/OperationTimes.h"
#include "compiler/plan/RoutingTrace.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheAllotment.h"
#include "runtime/policy/Plan.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

class AccuracyModel;

/// What one predictor said of one MoE layer, token after token of the trace. Where it named fewer
/// experts than perToken, the last one stands there again.
struct LayerPredictions {
  moert::Predictor predictor = moert::Predictor::kOff; // Or kGate for kAdaptiveGate, too.
  uint32_t layer = 0;                                  // The one that is prefetched.
  uint32_t ahead = 1;                                  // MoE layers from the one that prefetches.
  uint32_t perToken = 0;
  /// [tokens][perToken], likeliest first. Of more tokens than the trace has: it is the beginning of
  /// a longer one.
  std::vector<moert::PrefetchCandidate> candidates;
};

/// What computing and reading cost each other.
struct Contention {
  double readingWhileComputing =
      1; // The fraction of the disk's rate that is left; above 0, at most 1.
  double computingWhileReading = 1; // The same for the processor.
  double submitNsPerByte = 0;       // The computing thread's time to begin a read.
  double wakeNs = 0;                // The first read of a disk that rested.
};

/// What steps cost beside reading.
struct StepCosts {
  struct Layer {
    TokenCost before;   // From the end of the MoE layer before, or of the step's beginning, to the
                        // end of this one's router: attention, norms, dense layers.
    TokenCost beside{}; // Behind the router, while the experts are read: a shared expert.
    TokenCost expert;   // Computing one expert for the tokens that want it.
    CheckCost checks{}; // For experts that were read.
    /// One prefetch of this layer by gate where it is made: [gates that are prefetched with there -
    /// 1], which are stacked into one product.
    std::array<double, moert::kMostAhead> predictNs{};
    /// `expert` with its first slices only, [slices - 1]; as with all of them beyond its end.
    std::vector<TokenCost> firstSlices{};
  };
  std::vector<Layer> layers; // Per MoE layer.
  TokenCost after;           // Behind the last MoE layer: head and sampling.
  Contention contention;
  Origin origin = Origin::kDerived;
};

/// Borrows the trace, predictions and tables for the time of a call.
struct PlanProblem {
  const RoutingTrace *trace = nullptr;
  std::span<const LayerPredictions> predictions{}; // Each (predictor, layer, ahead) at most once.
  std::span<const std::vector<uint64_t>> recordBytes; // [MoE layer][expert], at full precision
  /// [MoE layer][expert]: where the slices of its record end, and how many of them are a low copy
  /// (empty: none are); and per MoE layer the scores of all tokens of the trace, or of a longer one
  /// that begins with it. Only for miss rules; may be empty.
  std::span<const std::vector<std::vector<uint64_t>>> sliceEnds{};
  std::span<const std::vector<uint16_t>> lowCopySlices{};
  std::span<const LayerScores> scores{};
  std::span<const uint32_t> topK;                          // Per MoE layer.
  std::span<const std::vector<uint32_t>> expertNorms = {}; // As Plan::expertNorms.
  const AccuracyModel *accuracy = nullptr;                 // For virtual experts; may be null.
  uint64_t pageBytes = 0;
  uint64_t poolPages = 0;           // Quotas and staging together.
  const ReadTable *reads = nullptr; // plannedReads() of the device.
  const StepCosts *costs = nullptr;
};

/// What is sought; the decisions of moert::Plan for one budget.
struct PlanSettings {
  moert::CacheAllotment allotment;
  moert::CacheRules rules = {.eviction = moert::EvictionPolicy::kReuseDistance};
  std::vector<std::vector<uint32_t>> pinned; // Per MoE layer; empty: none.
  std::vector<std::vector<uint32_t>> start, startUses;
  uint32_t startTokens = 1;
  std::vector<moert::PrefetchRule> prefetches; // Per MoE layer; empty: none.
  moert::MissRule miss = {};
  friend bool operator==(const PlanSettings &, const PlanSettings &) = default;
};

/// Gives settings or a plan a rule for misses, with the rules of the cache that go with it.
template <typename Settings> void setMiss(const moert::MissRule &rule, Settings &settings) {
  settings.miss = rule;
  settings.rules.baseSlices = rule.baseSlices();
}

/// What a solver finds.
struct PlannedSettings {
  PlanSettings settings;
  std::vector<moert::PlanReason> decisions;
};

/// Whether there are records of more than one slice.
bool hasSlices(const PlanProblem &problem);
/// Whether there are such records without a low copy.
bool hasNestedSlices(const PlanProblem &problem);

/// What the problem's layers have to hold.
moert::CacheShape shapeOf(const PlanProblem &problem);

/// The policies that such a search tries, by their numbers.
std::vector<moert::EvictionPolicy> searchedPolicies(moert::ScoreSearch search);

/// "one expert of each layer in 4 tokens, ..."; "none".
std::string exchangeText(const moert::ExchangeRule &exchange);

/// "gate, 1 ahead, 2 of 8 likeliest of 6.2% or more", "adaptive-gate, 1 to 3 ahead, ..."; "none".
std::string prefetchText(const moert::PrefetchRule &rule);

/// Tokens of all steps.
uint64_t tokenCount(const RoutingTrace &trace);

/// What is known of a rule's predictions of a layer from so many MoE layers before; null: nothing.
const LayerPredictions *findPredictions(const PlanProblem &problem, const moert::PrefetchRule &rule,
                                        uint32_t layer, uint32_t ahead);

/// Candidates per token that are known of all predictions of a layer that a rule makes.
uint32_t knownCandidates(const PlanProblem &problem, const moert::PrefetchRule &rule,
                         uint32_t layer);

/// Lets the records of a layer be read in part.
void setSlices(const PlanProblem &problem, size_t moeLayer, ReplayLayer &layer);

/// The cache of verified settings.
ReplayCache replayCacheOf(const PlanProblem &problem, const PlanSettings &settings);

/// Refuses problems that contradict themselves, with the numbers.
moert::Status check(const PlanProblem &problem);

/// Refuses settings that the pool does not hold or that a rule of the runtime forbids.
moert::Status verify(const PlanProblem &problem, const PlanSettings &settings);

} // namespace moec
