#include "compiler/pool/FeedbackGrids.h"

#include "runtime/format/CodeLevels.h"

using namespace moert;

namespace moec {

// A scale of one byte for 32 inputs takes as much as one of two bytes for 64, which has 1.3 times
// the squared error (docs/measurements/quantizers.md).
constexpr uint32_t kGroup = 32;

std::vector<Grid> feedbackGrids(std::span<const uint32_t> widths) {
  std::vector<Grid> grids;
  for (uint32_t bits : widths)
    grids.push_back({.bits = bits,
                     .group = kGroup,
                     .hasOffsets = false,
                     .hasLevels = bits <= kMaxLevelBits,
                     .hasByteScales = true});
  return grids;
}

} // namespace moec
