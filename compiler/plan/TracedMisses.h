// Miss rules on a trace: what the runtime's own MissPolicy decides for a token, given what the
// trace keeps of its routers' scores and what a replayed cache counts as in memory.
//
// The routes are those of the trace. Where they were recorded under the same rule and cache, the
// replay counts what the engine counts. Where they were recorded waiting, a rule changes what later
// layers and tokens would have chosen, and the replay is an estimate. Likelihoods are known of the
// likeliest experts only: a substitute is found among those, and `mask` takes them before others.
// The norms of routers' inputs are not known, so importances count them as 1.
#pragma once

#include "compiler/plan/RoutingTrace.h"
#include "runtime/policy/CacheMachine.h"
#include "runtime/policy/MissPolicy.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// What one layer's router gave each token of a trace.
struct LayerScores {
  uint32_t topK = 0;
  std::vector<uint16_t> chosen; // [tokens][topK], best first.
  std::vector<float> weights;   // [tokens][topK]
  uint32_t perToken = 0;
  std::vector<uint16_t> likeliest; // [tokens][perToken], likeliest first.
  std::vector<float> likelihoods;  // [tokens][perToken]

  uint64_t tokens() const { return topK == 0 ? 0 : chosen.size() / topK; }
};

/// Experts that routers chose and that a miss rule changed.
struct MissCounts {
  uint64_t lowered = 0, skipped = 0, substituted = 0;

  MissCounts &operator+=(const MissCounts &other) {
    lowered += other.lowered;
    skipped += other.skipped;
    substituted += other.substituted;
    return *this;
  }
  friend bool operator==(const MissCounts &, const MissCounts &) = default;
};

/// The weight that counts as lost with a lowered expert, relative to one that is left out: fewer
/// bits lose a smaller part of its output. Assumed, not measured; it only orders the rules of a
/// ladder, each of which is measured before it is taken.
constexpr double kLoweredPart = 0.2;

/// Decides the demands of layer passes. Borrows the scores and norms. For one thread.
class TracedMisses {
public:
  /// The rule of a plan and the scores of each layer, which may be empty if decoding waits. With
  /// eviction by importance demands have importances, with the experts' norms
  /// (Plan::expertNorms).
  TracedMisses(const moert::MissRule &missRule, std::span<const LayerScores> traced,
               moert::EvictionPolicy eviction = moert::EvictionPolicy::kLru,
               std::span<const std::vector<uint32_t>> expertNorms = {});

  /// The experts that a layer pass demands under the rule, in the engine's order. layer: the
  /// machine's. token: the first one of the pass, counted from the beginning of the trace. Valid
  /// until the next call. Call it before naming the prefetches of the layer pass.
  moert::PassDemand demandOf(const moert::CacheMachine &machine, const RoutingTrace &trace,
                             const RoutingPass &pass, uint32_t layer, uint64_t token);
  const moert::MissRule &missRule() const { return rule; }
  /// What the last decision changed.
  const MissCounts &counts() const { return changed; }
  /// The part of the chosen experts' weight that the last decision took from them: all of those
  /// that do not take part, kLoweredPart of lowered ones. 0 to 1. Orders rules by what they lose;
  /// no loss follows from it.
  double displacedWeight() const { return displaced; }

private:
  moert::PassDemand decide(const moert::CacheMachine &machine, uint32_t layer, uint64_t token);
  moert::PassDemand lowerPrompt(const moert::CacheMachine &machine, uint32_t layer,
                                const moert::PassDemand &traced);
  void countDisplaced(const moert::MissInputs &inputs, const moert::TakenExperts &result);
  void addImportances(const LayerScores &known, uint32_t layer, uint64_t token);

  moert::MissRule rule;
  std::span<const LayerScores> scores;
  bool weighsExperts;
  std::span<const std::vector<uint32_t>> norms;
  MissCounts changed;
  double displaced = 0;
  // Room for one decision.
  std::vector<float> likelihoods;
  std::vector<uint16_t> planned, resident, slices, wantedSlices;
  std::vector<int32_t> chosen, taken;
  std::vector<uint32_t> wanted, uses;
  std::vector<uint64_t> importances; // Empty: experts are not weighed.
};

} // namespace moec
