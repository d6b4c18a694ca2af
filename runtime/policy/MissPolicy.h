// What happens when an expert that a token was routed to is not in memory at its planned precision.
// A pure function of the router's scores, of what counts as resident, and of the plan's rule; the
// same inputs give the same answer on every machine. Whether a read has arrived is no input.
#pragma once

#include "runtime/policy/Prefetches.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// The numbers are the artifact's, which has more (StoredMissAction in runtime/format/Manifest.h).
enum class MissAction : uint8_t {
  kWait = 0,       // Read it and wait: exact.
  kLower = 1,      // Fewer slices of the less important ones, and none of the least important.
  kSkip = 2,       // The less important ones are left out.
  kSubstitute = 3, // A resident expert that is almost as likely takes its place.
  kMask = 4,       // Only resident experts take part.
  /// Fewer slices of the experts that few tokens of a prompt's chunk use; decoding waits.
  kLowerPrompts = 5,
};
/// Importance is counted from the best rank on: the score of a rank is the part that the better
/// ranks have of the weights that the router gave (HOBBIT, arXiv 2411.01433, equation 2), so the
/// best rank has 0 and is always computed as planned. In prompts, for kLowerPrompts, the score of
/// an expert is the part of the chunk's experts up to and including it, the most popular first.
/// Fractions are in units of kFixedPointOne.
struct MissRule {
  MissAction action = MissAction::kWait;
  uint8_t lowSlices = 1; // kLower, kLowerPrompts: slices of an expert of lower precision; not 0.
  uint32_t waitUpTo = 0; // Ranks with at most this score are waited for; not kMask.
  uint32_t skipBeyond = kFixedPointOne; // kLower: ranks with a larger score are left out.
  uint32_t substituteWithin = 0; // kSubstitute: how much less likely a substitute may be, relative
                                 // to the expert that it replaces.

  template <typename Self, typename Visit> static void describe(Self &rule, Visit &&visit) {
    visit("action"_field, rule.action);
    visit("low_slices"_field, rule.lowSlices, within(1, UINT8_MAX));
    visit("wait_up_to"_field, rule.waitUpTo, kFixedPoint);
    visit("skip_beyond"_field, rule.skipBeyond, kFixedPoint);
    visit("substitute_within"_field, rule.substituteWithin, kFixedPoint);
  }
  bool operator==(const MissRule &) const = default;

  bool isLossy() const { return action != MissAction::kWait; }
  bool changesPrompts() const { return action == MissAction::kLowerPrompts; }
  /// CacheRules::baseSlices of a plan with this rule.
  uint8_t baseSlices() const {
    return action == MissAction::kLower || changesPrompts() ? lowSlices : uint8_t(0);
  }
  /// Whether it changes what is computed for decoded tokens, not only for their prompt.
  bool changesDecoding() const { return isLossy() && !changesPrompts(); }
};

/// How many of the experts that a prompt's chunk uses, the most popular ones, are computed as
/// planned; at least one (Fate, arXiv 2502.12224, section 4.5: a part p of the experts is
/// transferred in INT2).
uint32_t exactInPrompt(const MissRule &rule, uint32_t experts);

/// The slices with which candidates of a prefetch are read for a token, the likeliest first, of
/// which the router will choose topK: those that kLower would ask for at their rank, by their
/// probabilities (HOBBIT, section 3.3). For other rules, and where nothing is likely, kAllSlices.
void lowerPrefetch(const MissRule &rule, uint32_t topK,
                   std::span<const PrefetchCandidate> candidates, std::span<uint16_t> slices);

/// The slices that a prompt's chunk demands of its experts, the most popular first, instead of the
/// planned ones.
void lowerUnpopular(const MissRule &rule, std::span<uint16_t> slices);

/// "lower:0.6:0.9", "skip:0.9", "substitute:0.5:0.2", "mask", "prompts:0.75", "wait": the action,
/// then its fractions, then the slices if they are not one: "lower:0.6:0.9:2".
std::string missRuleText(const MissRule &rule);

/// Experts and ranks of one token. Slices are counted from the first of a record.
struct MissInputs {
  std::span<const int32_t> chosen;    // By the router: distinct, best first, at least one.
  std::span<const float> weights;     // The router's, one for each of them.
  std::span<const float> likelihoods; // Per expert, for kSubstitute and kMask: higher is better.
  std::span<const uint16_t> planned;  // Per expert: slices of its record.
  std::span<const uint16_t> resident; // Per expert: slices that count as in memory.
};

/// The experts that take part in a token, best first; at least one, at most as many as were chosen.
/// Borrows the arrays.
struct TakenExperts {
  std::span<int32_t> experts;
  std::span<uint16_t> slices; // Each is computed with so many.
  uint32_t count = 0;
  uint32_t lowered = 0, skipped = 0, substituted = 0; // Chosen ones.

  void add(int32_t expert, uint16_t withSlices) {
    experts[count] = expert;
    slices[count++] = withSlices;
  }
};

/// Adds what takes the place of an expert that is missing at its planned precision and is not
/// important; `score`: of its rank.
using ReplaceMissing = void(int32_t expert, float score, const MissRule &rule,
                            const MissInputs &inputs, TakenExperts &taken);
ReplaceMissing lowerMissing, substituteMissing;

/// What belongs to an action: everything but the decision follows from its row.
struct MissActionRow {
  std::string_view name; // As in rules, JSON and attributes.
  /// For reports; {0} and {1} stand for the fractions, {slices} for the slices.
  std::string_view sentence;
  std::array<uint32_t MissRule::*, 2> fractions = {}; // In the order of a rule's text.
  bool takesSlices = false;
  bool usesLikelihoods = false;
  ReplaceMissing *replaceMissing = nullptr; // While decoding; null: none is replaced.
};

inline constexpr auto kMissActionRows = std::to_array<MissActionRow>({
    {.name = "wait", .sentence = "wait"},
    {.name = "lower",
     .sentence =
         "lower: ranks whose better ones have more than {0} of the weight are computed with "
         "{slices}, with more than {1} left out",
     .fractions = {&MissRule::waitUpTo, &MissRule::skipBeyond},
     .takesSlices = true,
     .replaceMissing = lowerMissing},
    {.name = "skip",
     .sentence = "skip: ranks whose better ones have more than {0} of the weight are left out",
     .fractions = {&MissRule::waitUpTo},
     .replaceMissing = lowerMissing},
    {.name = "substitute",
     .sentence =
         "substitute: ranks whose better ones have more than {0} of the weight are replaced "
         "by a resident expert at most {1} less likely",
     .fractions = {&MissRule::waitUpTo, &MissRule::substituteWithin},
     .usesLikelihoods = true,
     .replaceMissing = substituteMissing},
    {.name = "mask", .sentence = "mask: only resident experts take part", .usesLikelihoods = true},
    {.name = "prompts",
     .sentence = "prompts: experts of a chunk, but for the {0} that most of its tokens use, are "
                 "computed with {slices}",
     .fractions = {&MissRule::waitUpTo},
     .takesSlices = true},
});
template <>
inline constexpr EnumNames<kMissActionRows.size()> kNames<MissAction> = namesOf(kMissActionRows);

constexpr const MissActionRow &rowOf(MissAction action) {
  return kMissActionRows[static_cast<size_t>(action)];
}

/// Adds the experts that take part. `taken` has room for all chosen ones.
void decideMisses(const MissRule &rule, const MissInputs &inputs, TakenExperts &taken);

} // namespace moert
