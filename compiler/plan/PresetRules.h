// The published systems as settings of the same parameters, as far as these follow from the model's
// shape and the pool alone; and `auto`, for where there is no trace to search with. What a trace
// adds (experts to begin with, prefetches held against it) is Presets.h's.
#pragma once

#include "runtime/base/Origin.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheAllotment.h"
#include "runtime/policy/CacheRules.h"
#include "runtime/policy/MissPolicy.h"
#include "runtime/policy/Prefetches.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

enum class Preset : uint8_t {
  kAuto,         // What the search finds; without a trace what is best on most models.
  kLoadOnDemand, // Nothing is kept: every routed expert is read when it is asked for.
  kLru,          // A cache for each layer, the least recently used expert leaves; no prefetch.
  kEdgeMoe,      // One pool, its score of use and distance; prefetches by activation paths.
  kFate,         // The first layers whole, ARC; prefetches by the next layer's gate.
  kHobbit,       // One pool, a weighted sum of four policies; gates; lowers and skips on misses.
  kSwapMoe,      // Only experts in memory are used; they are exchanged by importance.
  kPruning,      // Only experts in memory are used, always the same ones.
};

/// A value that a preset has for a decision, and why.
struct PresetChoice {
  std::string_view value, reason;
  moert::Origin origin = moert::Origin::kStated;
};

/// Everything that distinguishes a preset, except what is fitted to a trace or a device.
struct PresetRow {
  std::string_view name; // As --preset spells it.
  moert::CacheRules rules = {.eviction = moert::EvictionPolicy::kReuseDistance};
  std::string_view evictionReason = "by definition";
  /// Divides the pages that are not kept for prefetches.
  moert::CacheAllotment (*allot)(const moert::CacheShape &shape,
                                 uint64_t pages) = moert::allotCache;
  PresetChoice quotas = {"even", "the same number of experts in each layer",
                         moert::Origin::kAssumed};
  /// Predictor and distance; off with presets that prefetch nothing. HOBBIT's distance is fitted to
  /// a trace (HobbitCache.h); without one it is 1.
  moert::PrefetchRule predictor = {};
  std::string_view predictorReason = {};
  moert::MissRule miss = {}; // Waiting unless the preset loses accuracy.
  /// Whether tokens use experts in memory alone (VirtualExperts.h).
  bool usesVirtualExperts = false;
};

const PresetRow &presetRow(Preset preset);

inline std::string_view presetName(Preset preset) {
  return presetRow(preset).name;
}

/// Refuses other names.
moert::Result<Preset> presetOf(const std::string &name);

/// The same without presets that lose accuracy: their loss is measured on an artifact.
moert::Result<Preset> exactPresetOf(const std::string &name);

inline moert::CacheRules rulesOf(Preset preset) {
  return presetRow(preset).rules;
}
inline moert::MissRule missRuleOf(Preset preset) {
  return presetRow(preset).miss;
}
inline bool usesVirtualExperts(Preset preset) {
  return presetRow(preset).usesVirtualExperts;
}
inline moert::PrefetchRule predictorOf(Preset preset) {
  return presetRow(preset).predictor;
}

/// What a layer's prefetches are made from.
struct PrefetchScope {
  uint64_t experts = 0, topK = 0; // In the layer.
  uint64_t named = 0;             // Experts that the predictor names for a token, at most.
  uint64_t records = UINT64_MAX;  // That the staging pages hold.
};

/// The rule with its counts, as the predictor's paper has them; off where they come to nothing.
/// `inTime`: reads that fit into the time from the prefetch to its use; absent: not known, and the
/// paper's own number counts.
///
/// Gates (Fate): candidates are the experts "whose confidence scores exceed the 75th percentile"
/// (section 4.2), which is a quarter of them, as many as a rule can say; n = T / t_expert are read
/// (section 4.3), none where one takes longer than T. Adaptive gates (HOBBIT, section 3.3): the
/// top k are candidates, and those that are missing are read, whatever the time. Paths (EdgeMoE,
/// section III-C): all that are named are candidates, and "1-3 experts in each layer, depending on
/// the compute-I/O speed gap", are read: one where there is time for none, three where there is
/// time for more.
moert::PrefetchRule withCounts(const moert::PrefetchRule &rule, const PrefetchScope &scope,
                               std::optional<double> inTime);

/// Shares poolPages, at least smallestPoolPages(shape). Presets that prefetch keep staging pages
/// for what is prefetched, as far as the pool allows, unless nothing is; swapmoe keeps some for
/// exchanges, and pruning for the experts of prompts, which pass through.
moert::CacheAllotment allotFor(Preset preset, const moert::CacheShape &shape, uint64_t poolPages,
                               bool isPrefetching = true);

} // namespace moec
