// The published systems as settings of the same knobs, as far as these follow from the model's
// shape and the pool alone; and `auto`, for where there is no trace to search with. What a trace
// adds (experts to begin with, guesses held against it) is Presets.h's.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/policy/CacheAllotment.h"
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/Guesses.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

enum class Preset : uint8_t {
  kAuto,         // What the search finds; without a trace what is best on most models.
  kLoadOnDemand, // Nothing is kept: every routed expert is read when it is asked for.
  kLru,          // A cache for each layer, the least recently used expert leaves; no prefetch.
  kEdgeMoe,      // One pool, its score of use and distance; guesses by activation paths.
  kFate,         // The first layers whole, ARC; guesses by the next layer's gate.
};

/// "load-on-demand", as --preset spells it.
std::string_view presetName(Preset preset);

/// Refuses other names, and says of published systems that are not there what is missing.
moert::Result<Preset> presetOf(const std::string &name);

moert::CacheRules rulesOf(Preset preset);

/// Predictor and distance; off with presets that guess nothing.
moert::GuessRule predictorOf(Preset preset);

/// The rule with its counts: candidates as the predictor's paper has them, and as many reads as
/// fit into the time from the guess to its use (`inTime`; absent: not known, and the paper's own
/// number counts) and into the transit pages. Off where that is less than one.
moert::GuessRule withCounts(const moert::GuessRule &rule, const moert::CacheShape::Layer &layer,
                            uint32_t transitPages, std::optional<double> inTime);

/// Shares poolPages, at least smallestPoolPages(shape). Presets that guess keep transit pages for
/// what is guessed, as far as the pool allows, unless nothing is.
moert::CacheAllotment allotFor(Preset preset, const moert::CacheShape &shape, uint64_t poolPages,
                               bool isGuessing = true);

} // namespace moec
