#include "compiler/pool/FeedbackGrids.h"

#include "runtime/format/CodeLevels.h"

using namespace moert;

namespace moec {

// A scale of one byte for 32 inputs takes as much as one of two bytes for 64, which has 1.3 times
// the squared error (docs/measurements/quantizers.md).
constexpr uint32_t kGroup = 32;

static Grid gridOf(uint32_t bits) {
  return {.bits = bits,
          .group = kGroup,
          .hasOffsets = false,
          .hasLevels = bits <= kMaxLevelBits,
          .hasByteScales = true,
          .hasHadamard = true};
}

std::vector<ExpertGrid> feedbackGrids(std::span<const ExpertWidth> widths) {
  std::vector<ExpertGrid> grids;
  for (const ExpertWidth &width : widths)
    grids.emplace_back(gridOf(width.bits), gridOf(width.downBits));
  return grids;
}

} // namespace moec
