// The trace that an artifact keeps (section "trace" of docs/format.md): the experts that its
// routers chose on calibration text, and the candidates of later routers given earlier layers'
// inputs. Plans for other budgets and devices are made from it, without the calibration profile.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moec {

/// The most probable experts of a later layer's router, given a layer's router input:
/// [tokens][perToken], most probable first.
struct TracedPredictions {
  uint32_t perToken = 0;
  std::vector<uint16_t> experts;
  std::vector<uint8_t> probabilities; // Times 255, rounded.
  friend bool operator==(const TracedPredictions &, const TracedPredictions &) = default;
};

struct TracedLayer {
  uint32_t experts = 0;
  uint32_t topK = 0;
  std::vector<uint16_t> chosen; // [tokens][topK], best first.
  /// For the MoE layers 1, 2 and 3 later; fewer at the model's end.
  std::vector<TracedPredictions> ahead;
  /// The weights of the chosen experts, [tokens][topK], and the likeliest experts with their
  /// likelihoods (Router::computeLikelihoods), [tokens][candidates], likeliest first. What miss
  /// rules decide by; empty in traces of earlier versions.
  std::vector<float> weights = {};
  uint32_t candidates = 0;
  std::vector<uint16_t> likeliest = {};
  std::vector<float> likelihoods = {};
  friend bool operator==(const TracedLayer &, const TracedLayer &) = default;
};

/// The first tokens of each window are a prompt, the others are decoded one by one.
constexpr uint32_t kPlannedPromptTokens = 64;

/// Whole windows of calibration text, each a separate prompt. Plans are decided on the windows at
/// the beginning. The windows at the end, a third of all, are held out for forecasts: no decision
/// and no predictor's table uses them. With a single window, its last tokens are held out.
struct PlanTrace {
  uint32_t windowTokens = 0;
  uint32_t windows = 0;
  std::vector<TracedLayer> layers; // Per MoE layer.
  /// All text that calibration and a search for widths have read, not only the trace's, as
  /// SeenText::runs() gives it. Absent: not known, as in traces of earlier versions.
  std::optional<std::vector<uint64_t>> readRuns = {};

  uint64_t tokens() const { return uint64_t(windows) * windowTokens; }
  /// Whether all layers have the scores that miss rules decide by.
  bool hasScores() const;
  uint32_t promptTokens() const { return std::min(kPlannedPromptTokens, windowTokens / 2); }
  /// Number of tokens at the beginning that plans are decided on. All tokens if there is only one
  /// window with one decoded token, which leaves none for a forecast.
  uint64_t decidingTokens() const;
  friend bool operator==(const PlanTrace &, const PlanTrace &) = default;
};

/// Enough to compare a plan with thousands of others, and few enough to do so in seconds.
constexpr uint64_t kMostTracedTokens = 3072;

/// The windows, out of `windows`, of a trace with `picked` windows, in the trace's order: evenly
/// spread, and so are those at the end that are held out for forecasts.
std::vector<uint32_t> tracedWindows(uint32_t windows, uint32_t picked);

/// Tokens [begin, end) of a profile.
struct TokenRange {
  uint64_t begin = 0, end = 0;
  friend bool operator==(const TokenRange &, const TokenRange &) = default;
};

/// The tokens that predictor tables must not count: if the profile has at least as many windows
/// outside of the trace, the whole trace, so that plans are not decided on counted tokens either;
/// otherwise only the part held out for forecasts.
std::vector<TokenRange> heldOutTokens(const CalibrationInfo &info, const PlanTrace &trace);

/// Picks as many of the profile's windows as fit into mostBytes, but at least one
/// (tracedWindows()). An error if the profile cannot be read.
moert::Result<PlanTrace> makePlanTrace(const CalibrationProfile &profile, uint64_t mostBytes,
                                       uint64_t mostTokens = kMostTracedTokens);

/// The section's bytes: little-endian, an expert index in one byte if its layer has at most 256
/// experts, otherwise in two. Without scores it is of the first version, which has no readRuns.
std::vector<std::byte> encodeTrace(const PlanTrace &trace);

/// Refuses bytes that are not a complete trace, and traces of other layers.
moert::Result<PlanTrace> decodeTrace(std::span<const std::byte> bytes,
                                     std::span<const uint32_t> layerExperts);

} // namespace moec
