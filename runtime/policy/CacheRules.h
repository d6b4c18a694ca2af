// The rules of an expert cache, as a plan has them.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/EnumNames.h"
#include "runtime/policy/EvictionScores.h"
#include "runtime/policy/ExchangeRule.h"

#include <cstdint>

namespace moert {

/// Artifacts store these numbers, as all numbers of rules, and one more for two pools
/// (StoredSharing in runtime/format/Manifest.h).
enum class CacheSharing : uint8_t {
  kLayerQuotas = 0, // Each layer keeps within its own quota.
  kOnePool = 1,     // All layers compete for the sum of the quotas.
};
template <> inline constexpr EnumNames<2> kNames<CacheSharing> = {"layer quotas", "one pool"};

/// What stays in the cache for a new prompt.
enum class PromptSurvival : uint8_t {
  kEverything = 0, // Experts in memory and their use; frequencies fade (fadeForPrompt).
  kContents = 1,   // The experts; their use is forgotten.
  kPins = 2,       // Only pinned experts.
};
template <>
inline constexpr EnumNames<3> kNames<PromptSurvival> = {"everything", "contents", "pins"};

struct CacheRules {
  EvictionPolicy eviction = EvictionPolicy::kLru;
  CacheSharing sharing = CacheSharing::kLayerQuotas;
  PromptSurvival survival = PromptSurvival::kEverything;
  EvictionWeights weights = {}; // For ScoreData::kWeights.
  ExchangeRule exchange = {};   // For ScoreData::kExchanges.
  /// First slices of a record that may be held without the others, its upper slices, which then
  /// leave by themselves. 0: an expert has pages for its whole record, however little of it is
  /// read. Separate copies are held apart in any case.
  uint8_t baseSlices = 0;
  /// The part of a quota that is for upper slices and for separate copies of high precision, in
  /// units of kFixedPointOne; the rest is for base slices and low copies. 0, or without base
  /// slices: there is one pool for both.
  uint32_t upperPart = 0;

  template <typename Self, typename Visit> static void describe(Self &rules, Visit &&visit) {
    visit("eviction"_field, rules.eviction);
    visit("eviction_weights"_field, rules.weights, kAny.sparse());
    visit("exchange"_field, rules.exchange, kAny.sparse());
    visit("sharing"_field, rules.sharing);
    visit("survival"_field, rules.survival);
    visit("base_slices"_derived, rules.baseSlices);
    visit("upper_part"_field, rules.upperPart, kFixedPoint);
  }
  bool operator==(const CacheRules &) const = default;
};

} // namespace moert
