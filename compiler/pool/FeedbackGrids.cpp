#include "compiler/pool/FeedbackGrids.h"

#include "compiler/pool/ExpertRecord.h"
#include "compiler/quantize/PackGrid.h"
#include "runtime/format/CodeLevels.h"

using namespace moert;

namespace moec {

// 64 inputs instead of 32 save 0.25 bits a weight for 1.3 times the squared error, which is what
// 0.19 bits less in the codes would cost (docs/measurements/quantizers.md): they pay if padding
// leaves three quarters of the saving.
constexpr uint32_t kLargeGroup = 64, kSmallGroup = 32;
constexpr double kSavedBits = 16.0 / kSmallGroup - 16.0 / kLargeGroup, kWorthwhile = 0.75;

static std::vector<Grid> gridsWith(uint32_t group, std::span<const uint32_t> widths) {
  std::vector<Grid> grids;
  for (uint32_t bits : widths)
    grids.push_back({bits, group, false, bits <= kMaxLevelBits});
  return grids;
}

// The bytes of a record on each grid, with padding, summed over grids and layers.
static Result<uint64_t> recordBytes(std::span<const MoeLayer> layers,
                                    const std::vector<Grid> &grids, uint32_t activationGroup,
                                    bool nested) {
  uint64_t bytes = 0;
  for (const Grid &grid : grids) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<WeightFormat> formats,
                           slicesOf(grid, activationGroup, nested));
    for (const MoeLayer &layer : layers) {
      MOERT_ASSIGN_OR_RETURN(const std::vector<Slice> slices, recordSlices(layer, formats));
      bytes += slices.back().offset + slices.back().bytes;
    }
  }
  return bytes;
}

Result<std::vector<Grid>> feedbackGrids(std::span<const MoeLayer> layers,
                                        std::span<const uint32_t> widths, uint32_t activationGroup,
                                        bool nested) {
  std::vector<Grid> small = gridsWith(kSmallGroup, widths), large = gridsWith(kLargeGroup, widths);
  MOERT_ASSIGN_OR_RETURN(const uint64_t smallBytes,
                         recordBytes(layers, small, activationGroup, nested));
  MOERT_ASSIGN_OR_RETURN(const uint64_t largeBytes,
                         recordBytes(layers, large, activationGroup, nested));
  uint64_t weights = 0;
  for (const MoeLayer &layer : layers)
    for (const ExpertMatrix &matrix : layer.matrices)
      weights += widths.size() * uint64_t(matrix.shape.rows) * matrix.shape.cols;
  const double saved = double(smallBytes) - double(largeBytes);
  return saved * 8 >= kWorthwhile * kSavedBits * double(weights) ? large : small;
}

} // namespace moec
