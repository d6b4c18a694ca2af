// The eviction scores: what keeping an expert is worth when there is no room for all. Each is one
// row of kEvictionScores; docs/adding-an-eviction-score.md lists the steps of a new one. No clock,
// no page in sight; all numbers are integers, so that every machine chooses alike. What only
// published systems count is in PublishedScores.h.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/EnumNames.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Frequencies and probabilities are fixed-point numbers.
constexpr uint32_t kFixedPointBits = 24;
constexpr uint32_t kFixedPointOne = uint32_t(1) << kFixedPointBits;
inline constexpr FieldRule kFixedPoint = {
    .least = 0, .most = kFixedPointOne, .form = FieldForm::kPart};

/// The numbers are the artifact's, and the places in kEvictionScores.
enum class EvictionPolicy : uint8_t {
  kLru = 0,           // Least recently used first.
  kLfu = 1,           // Least often used first; uses count while an expert is not in memory, too.
  kEdgeMoe = 2,       // EdgeMoE: uses, divided by the layers until the expert's own comes round.
  kArc = 3,           // Adaptive replacement: AdaptiveReplacement.h.
  kLeastStale = 4,    // Unused for the most turns of its layer first, then the layer furthest away.
  kReuseDistance = 5, // The longest expected time until the next use first.
  kWeighted = 6,      // HOBBIT: a weighted sum of recency, frequencies and the layers to come.
  kImportance = 7,    // SwapMoE: the least important first.
};

/// What is remembered of an expert, whether or not it is in memory.
struct ExpertHistory {
  uint64_t lastUse = 0;  // The layer pass that wanted it last; 0: none yet.
  uint32_t rank = 0;     // Its place in that layer pass's demand; 0: the most popular.
  uint32_t lastTurn = 0; // The same layer pass, counted in executes of its layer.
  uint32_t tokens = 0;   // Tokens that wanted it, up to the largest number there is.
  /// The fraction of the last two or so tokens that wanted it; kFixedPointOne: all.
  uint32_t recentFrequency = 0;
  uint32_t longFrequency = 0; // Likewise for the last sixty or so.
  uint32_t lastToken = 0;     // LayerDistance::tokens after the layer pass that wanted it last.
  uint32_t fullTokens = 0;    // Tokens that wanted it with all of its slices.
  uint64_t importance = 0;    // ImportanceStep's sum.
};

/// Where a layer stands in the cycle in which layers are executed.
struct LayerDistance {
  uint32_t layersAhead = 1;     // Until its next turn; `layers` for the one that is executed now.
  uint32_t layers = 1;          // In a cycle.
  uint32_t turn = 0;            // Layer passes of the layer so far, an open one included.
  bool repeatsEveryStep = true; // Not so an encoder's: scores that look ahead let it go first.
  uint32_t tokens = 0;          // Computed by the layer since the records began.
};

/// What each part of a weighted score counts, in units of kFixedPointOne; together at most 1. The
/// parts are fractions of the tokens since the records began (HOBBIT, arXiv 2411.01433, equation
/// 3).
struct EvictionWeights {
  uint32_t recency = 0;       // LRU: the token that used it last.
  uint32_t frequency = 0;     // LFU: the tokens that used it.
  uint32_t fullFrequency = 0; // LHU: those that used all of its slices.
  uint32_t nearness = 0;      // FLD: 1 - the part of the layers until its own comes.

  template <typename Self, typename Visit> static void describe(Self &weights, Visit &&visit) {
    visit("recency"_field, weights.recency, kFixedPoint);
    visit("frequency"_field, weights.frequency, kFixedPoint);
    visit("full_frequency"_field, weights.fullFrequency, kFixedPoint);
    visit("nearness"_field, weights.nearness, kFixedPoint);
  }
  bool operator==(const EvictionWeights &) const = default;
};

/// What a plan holds for a score, beyond its number.
enum class ScoreData : uint8_t {
  kNothing,
  kWeights,   // CacheRules::weights.
  kExchanges, // CacheRules::exchange and Plan::expertNorms, with quotas per layer only.
};

/// Which searches of `auto` try a score.
enum class ScoreSearch : uint8_t {
  kNever,
  kPlans,         // The search of plans.
  kPlansAndRules, // The search of plans and the tuning for a miss rule.
};

struct EvictionScore {
  std::string_view name; // In attributes with '_' for '-'.
  ScoreSearch search = ScoreSearch::kNever;
  ScoreData data = ScoreData::kNothing;
  bool needsFrequencies = false; // The frequencies of ExpertHistory are kept.
  bool usesDistance = false;     // Where a layer has no turn in every step, the value is 0.
  /// The least valuable expert leaves first; 0 for all leaves the choice to the last use.
  uint64_t (*value)(const ExpertHistory &, const LayerDistance &, const EvictionWeights &);
};

/// The expected time until the next use, in cycles of the layers: the turns of its layer that pass
/// without it, and the way to the first of them, which is known exactly. A long frequency alone
/// takes an expert that has just become popular for a rare one, a recent frequency alone forgets
/// too soon.
constexpr uint64_t expectedWait(const ExpertHistory &history, const LayerDistance &distance) {
  constexpr uint64_t kOneCycle = 1 << 12;
  const uint64_t frequency = (history.recentFrequency + 8 * uint64_t(history.longFrequency)) / 9;
  return kOneCycle * kFixedPointOne / std::max<uint64_t>(frequency, 1) +
         kOneCycle * distance.layersAhead / distance.layers;
}

uint64_t edgeMoeValue(const ExpertHistory &, const LayerDistance &, const EvictionWeights &);
uint64_t weightedValue(const ExpertHistory &, const LayerDistance &, const EvictionWeights &);

inline constexpr auto kEvictionScores = std::to_array<EvictionScore>({
    {.name = "lru",
     .search = ScoreSearch::kPlansAndRules,
     .value = [](const auto &...) -> uint64_t { return 0; }},
    {.name = "lfu",
     .search = ScoreSearch::kPlansAndRules,
     .value = [](const ExpertHistory &history, const auto &...) -> uint64_t {
       return history.tokens;
     }},
    {.name = "edgemoe", .search = ScoreSearch::kPlans, .usesDistance = true, .value = edgeMoeValue},
    {.name = "arc",
     .search = ScoreSearch::kPlansAndRules,
     .value = [](const auto &...) -> uint64_t { return 0; }},
    {.name = "least-stale",
     .search = ScoreSearch::kPlansAndRules,
     .usesDistance = true,
     .value = [](const ExpertHistory &history, const LayerDistance &distance,
                 const EvictionWeights &) -> uint64_t {
       const uint64_t missedTurns = distance.turn - history.lastTurn;
       return (UINT32_MAX - missedTurns) << 32 | (UINT32_MAX - distance.layersAhead);
     }},
    {.name = "reuse-distance",
     .search = ScoreSearch::kPlansAndRules,
     .needsFrequencies = true,
     .usesDistance = true,
     .value = [](const ExpertHistory &history, const LayerDistance &distance,
                 const EvictionWeights &) -> uint64_t {
       return UINT64_MAX - expectedWait(history, distance);
     }},
    {.name = "weighted", .data = ScoreData::kWeights, .usesDistance = true, .value = weightedValue},
    {.name = "importance",
     .data = ScoreData::kExchanges,
     .value = [](const ExpertHistory &history, const auto &...) -> uint64_t {
       return history.importance;
     }},
});
template <>
inline constexpr EnumNames<kEvictionScores.size()>
    kNames<EvictionPolicy> = namesOf(kEvictionScores);

constexpr const EvictionScore &scoreOf(EvictionPolicy policy) {
  return kEvictionScores[static_cast<size_t>(policy)];
}

constexpr bool needs(EvictionPolicy policy, ScoreData data) {
  return scoreOf(policy).data == data;
}

/// What keeping the expert is worth.
inline uint64_t keepingValue(EvictionPolicy policy, const ExpertHistory &history,
                             const LayerDistance &distance, const EvictionWeights &weights = {}) {
  const EvictionScore &score = scoreOf(policy);
  return score.usesDistance && !distance.repeatsEveryStep ? 0
                                                          : score.value(history, distance, weights);
}

} // namespace moert
