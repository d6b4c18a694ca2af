// The trace that an artifact keeps (section "trace" of runtime/format/format.md): what its routers
// chose on calibration text and what they would have said of earlier layers' inputs. Plans for
// other budgets and devices are made from it, without the calibration profile.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

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

/// Whole windows of calibration text, each a prompt by itself.
struct PlanTrace {
  uint32_t windowTokens = 0;
  uint32_t windows = 0;
  std::vector<TracedLayer> layers; // Per MoE layer.

  uint64_t tokens() const { return uint64_t(windows) * windowTokens; }
  friend bool operator==(const PlanTrace &, const PlanTrace &) = default;
};

/// Enough for a plan to be compared with thousands of others, and few enough to do so in seconds.
constexpr uint64_t kMostTracedTokens = 2048;

/// Of the profile's windows as many as `mostBytes` hold, but at least one, evenly spread over its
/// texts. Refuses a profile that cannot be read.
moert::Result<PlanTrace> makePlanTrace(const CalibrationProfile &profile, uint64_t mostBytes,
                                       uint64_t mostTokens = kMostTracedTokens);

/// The section's bytes: little-endian, an expert's number in one byte where its layer has at most
/// 256 experts, otherwise in two.
std::vector<std::byte> encodeTrace(const PlanTrace &trace);

/// Refuses bytes that are not a whole trace, and traces of other layers than these.
moert::Result<PlanTrace> decodeTrace(std::span<const std::byte> bytes,
                                     std::span<const uint32_t> layerExperts);

} // namespace moec
