// Which expert leaves memory when there is no room for all. Pure functions: the runtime's cache and
// the compiler's simulation call the same ones. No clock, no page in sight; all numbers are
// integers, so that every machine chooses alike.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/EnumNames.h"

#include <cstdint>

namespace moert {

/// The numbers are the artifact's.
enum class EvictionPolicy : uint8_t {
  kLru = 0,           // Least recently used first.
  kLfu = 1,           // Least often used first; uses count while an expert is not in memory, too.
  kEdgeMoe = 2,       // EdgeMoE: uses, divided by the layers until the expert's own comes round.
  kArc = 3,           // Adaptive replacement: ArcBalance.h.
  kLeastStale = 4,    // Unused for the most turns of its layer first, then the layer furthest away.
  kReuseDistance = 5, // The longest expected time until the next use first.
  kWeighted = 6,      // HOBBIT: a weighted sum of recency, frequencies and the layers to come.
  kImportance = 7,    // SwapMoE: the least important first.
};
template <>
inline constexpr EnumNames<8> kNames<EvictionPolicy> = {
    "lru", "lfu", "edgemoe", "arc", "least-stale", "reuse-distance", "weighted", "importance"};

/// Frequencies and probabilities are fixed-point numbers.
constexpr uint32_t kFixedPointOne = uint32_t(1) << 24;
inline constexpr FieldRule kFixedPoint = {
    .least = 0, .most = kFixedPointOne, .form = FieldForm::kPart};

/// What each part of kWeighted counts, in units of kFixedPointOne; together at most 1. The parts
/// are fractions of the tokens since the records began (HOBBIT, arXiv 2411.01433, equation 3).
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
  friend bool operator==(const EvictionWeights &, const EvictionWeights &) = default;
};

/// What is remembered of an expert, whether or not it is in memory.
struct ExpertHistory {
  uint64_t lastUse = 0;  // The layer pass that wanted it last; 0: none yet.
  uint32_t rank = 0;     // Its place in that layer pass's demand; 0: the most popular.
  uint32_t lastTurn = 0; // That layer pass, counted in executes of its own layer.
  uint32_t tokens = 0;   // That wanted it, up to the largest number there is.
  /// The fraction of the last two or so tokens that wanted it; kFixedPointOne: all.
  uint32_t recentFrequency = 0;
  uint32_t longFrequency = 0; // The same for the last sixty or so.
  uint32_t lastToken = 0;     // LayerDistance::tokens after the layer pass that wanted it last.
  uint32_t fullTokens = 0;    // Tokens that wanted it with all of its slices.
  uint64_t importance = 0;    // ImportanceStep's sum, for kImportance.
};

/// How far a layer pass of some tokens (not 0) moves the frequencies: as far as the tokens one by
/// one would, had each wanted the same.
class FrequencyStep {
public:
  explicit FrequencyStep(uint32_t tokens);

  /// For every expert of the layer.
  void fade(ExpertHistory &history) const;
  /// Then for those that `uses` of the tokens wanted.
  void add(ExpertHistory &history, uint32_t uses) const;

private:
  uint32_t tokens;
  uint64_t recentKept, longKept; // In units of kFixedPointOne.
};

/// The unit of importances.
constexpr uint64_t kImportanceOne = uint64_t(1) << 16;

/// What a token adds to the importance of an expert that the router chose for it, whether or not it
/// is in memory: |x| * G * |E| (SwapMoE, arXiv 2308.15030, equation 2), with the norm of the
/// router's input, the router's weight, and the norm of the expert's weights in units of
/// kFixedPointOne. In units of kImportanceOne, at most 4096; 0 for a NaN.
uint64_t tokenImportance(float inputNorm, float weight, uint32_t expertNorm);

/// How far a layer pass of some tokens (not 0) moves importances: each token takes 1/2^fadeShift of
/// what was there and adds its own, as if each of them added the same. fadeShift is 1 to
/// kMostFadeShift (ExchangeRule.h).
class ImportanceStep {
public:
  ImportanceStep(uint32_t tokens, uint32_t fadeShift);
  /// `added`: by all tokens together.
  void apply(ExpertHistory &history, uint64_t added) const;

private:
  uint32_t tokens;
  uint64_t kept, moved; // In units of kFixedPointOne: of what was there; of one token's part.
};

/// A new prompt is likely to be another text: to the policies of reuse distance and importance what
/// was wanted before, or was said of the start, counts a quarter of what is wanted from now on.
void fadeForPrompt(ExpertHistory &history);

/// Where a layer stands in the cycle in which layers are executed.
struct LayerDistance {
  uint32_t layersAhead = 1;     // Until its next turn; `layers` for the one that is executed now.
  uint32_t layers = 1;          // In a cycle.
  uint32_t turn = 0;            // Layer passes of the layer so far, an open one included.
  bool repeatsEveryStep = true; // Not so an encoder's: policies that look ahead let it go first.
  uint32_t tokens = 0;          // That the layer computed since the records began.
};

/// What keeping the expert is worth; the least valuable one leaves first. 0 leaves the choice to
/// the last use.
uint64_t keepingValue(EvictionPolicy policy, const ExpertHistory &history,
                      const LayerDistance &distance, const EvictionWeights &weights = {});

/// An expert that may be evicted, or its upper slices alone (CacheRules::baseSlices), which count
/// the uses that needed them.
struct EvictionCandidate {
  uint32_t expert = 0;
  uint64_t lastUse = 0; // The logical time of its last use; the layer pass, not the wall clock.
  uint32_t rank = 0;    // In that layer pass.
  uint64_t value = 0;   // keepingValue()
  bool isUpper = false;
};

/// The less valuable one leaves; of equal values the one with the older last use, then the one of
/// higher rank (less popular), then the lower expert, then its upper slices, so that the choice
/// depends on nothing else. Upper slices are used no more often and no later than their expert, so
/// they leave before it.
bool leavesBefore(const EvictionCandidate &a, const EvictionCandidate &b);

} // namespace moert
