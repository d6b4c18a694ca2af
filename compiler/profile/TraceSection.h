// The trace that an artifact keeps (section "trace" of docs/format.md): what its routers
// chose on calibration text and what they would have said of earlier layers' inputs. Plans for
// other budgets and devices are made from it, without the calibration profile.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// The most probable experts of a later layer's router, given a layer's router input; token after
/// token, [tokens][perToken], likeliest first.
struct TracedPredictions {
  uint32_t perToken = 0;
  std::vector<uint16_t> experts;
  std::vector<uint8_t> shares; // Probability * 255, rounded.
  friend bool operator==(const TracedPredictions &, const TracedPredictions &) = default;
};

struct TracedLayer {
  uint32_t experts = 0;
  uint32_t topK = 0;
  std::vector<uint16_t> chosen; // [tokens][topK], best first.
  /// Of the MoE layer 1, 2, 3 further on; shorter where the model ends.
  std::vector<TracedPredictions> ahead;
  friend bool operator==(const TracedLayer &, const TracedLayer &) = default;
};

/// The first tokens of each window are a prompt, the others are decoded one by one.
constexpr uint32_t kPlannedPromptTokens = 64;

/// Whole windows of calibration text, each a prompt by itself. Plans are decided on the windows at
/// the beginning. The windows at the end, a third of all, are what plans are forecast on: nothing
/// is decided on them, and no predictor's table counts them. Of one window these are its last
/// tokens.
struct PlanTrace {
  uint32_t windowTokens = 0;
  uint32_t windows = 0;
  std::vector<TracedLayer> layers; // Per MoE layer.

  uint64_t tokens() const { return uint64_t(windows) * windowTokens; }
  uint32_t promptTokens() const { return std::min(kPlannedPromptTokens, windowTokens / 2); }
  /// Tokens at the beginning that plans are decided on. With a window of one decoded token and no
  /// other window there is nothing left to forecast on: then all of them.
  uint64_t decidingTokens() const;
  friend bool operator==(const PlanTrace &, const PlanTrace &) = default;
};

/// Enough for a plan to be compared with thousands of others, and few enough to do so in seconds.
constexpr uint64_t kMostTracedTokens = 3072;

/// Which of so many windows a trace of `picked` ones has, in its order: evenly spread over all, and
/// so are those at the end that plans are forecast on.
std::vector<uint32_t> tracedWindows(uint32_t windows, uint32_t picked);

/// Tokens [begin, end) of a profile.
struct TokenRange {
  uint64_t begin = 0, end = 0;
  friend bool operator==(const TokenRange &, const TokenRange &) = default;
};

/// What no predictor's table may count: of a profile with at least as many other windows, all that
/// the trace has, so that plans are not decided on it either; otherwise what is forecast on.
std::vector<TokenRange> heldOutTokens(const CalibrationInfo &info, const PlanTrace &trace);

/// Of the profile's windows as many as `mostBytes` hold, but at least one (tracedWindows()).
/// Refuses a profile that cannot be read.
moert::Result<PlanTrace> makePlanTrace(const CalibrationProfile &profile, uint64_t mostBytes,
                                       uint64_t mostTokens = kMostTracedTokens);

/// The section's bytes: little-endian, an expert's number in one byte where its layer has at most
/// 256 experts, otherwise in two.
std::vector<std::byte> encodeTrace(const PlanTrace &trace);

/// Refuses bytes that are not a whole trace, and traces of other layers than these.
moert::Result<PlanTrace> decodeTrace(std::span<const std::byte> bytes,
                                     std::span<const uint32_t> layerExperts);

} // namespace moec
