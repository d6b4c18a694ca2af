// Error feedback, 16 rows at a time: the data of a panel (its values and their differences to the
// grid) stays in the cache while the factors stream past it.
#include "compiler/quantize/PanelGrid.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace moert;

namespace moec {

// Columns that are rounded between two products with all earlier differences.
static constexpr uint32_t kRun = 64;

namespace {

/// Quantizes panel after panel of one matrix; keeps the buffers.
class PanelFeedback {
public:
  PanelFeedback(GridMatrix &matrixOut, const Feedback &factors, ScaleChoice choice, Isa isa)
      : matrix(matrixOut), feedback(factors), scaleChoice(choice), lanes(laneKernelsFor(isa)),
        kernels(**kernelsFor(isa)), weights(size(matrix)), differences(size(matrix)),
        work(size(matrix)), corrections(size(matrix)), scales(kLanes), offsets(kLanes),
        codes(size(matrix)) {}

  void quantize(std::span<const float> rows, uint32_t firstRow);

private:
  static size_t size(const GridMatrix &matrix) { return size_t(matrix.shape.cols) * kLanes; }

  void feedBack(uint32_t begin, uint32_t end);
  void chooseScales(uint32_t begin, uint32_t end);
  void roundRun(uint32_t begin, uint32_t end);

  GridMatrix &matrix;
  const Feedback &feedback;
  const ScaleChoice scaleChoice;
  const LaneKernels &lanes;
  const KernelTable &kernels;
  // All [cols][16].
  AlignedFloats weights, differences, work, corrections;
  AlignedFloats scales, offsets; // The current group's.
  std::vector<uint8_t> codes;
};

} // namespace

// work = weights + the feedback of columns of the same block before `begin`, for columns [begin,
// end), which may reach into later blocks: those have no feedback yet.
void PanelFeedback::feedBack(uint32_t begin, uint32_t end) {
  std::memcpy(work.data() + size_t(begin) * kLanes, weights.data() + size_t(begin) * kLanes,
              size_t(end - begin) * kLanes * sizeof(float));
  const uint32_t block = begin / kMomentInputs, blockBegin = block * kMomentInputs;
  end = std::min(end, blockBegin + kMomentInputs);
  if (begin == blockBegin)
    return;
  const uint64_t stride = feedback.stride(block);
  multiply(kernels, {.panels = differences.data() + size_t(blockBegin) * kLanes,
                     .panelCount = 1,
                     .cols = begin - blockBegin,
                     .x = feedback.blocks[block].data() + (begin - blockBegin) * stride,
                     .xStride = stride,
                     .rows = end - begin,
                     .y = corrections.data(),
                     .yStride = kLanes});
  float *out = work.data() + size_t(begin) * kLanes;
  for (size_t i = 0; i < size_t(end - begin) * kLanes; ++i)
    out[i] += corrections.data()[i];
}

void PanelFeedback::chooseScales(uint32_t begin, uint32_t end) {
  const float *values = work.data() + size_t(begin) * kLanes;
  nearestScales(values, end - begin, matrix.grid, scales.data(), offsets.data());
  if (scaleChoice == ScaleChoice::kSearched)
    lanes.searchScales({values, end - begin, &feedback.pivots[begin], matrix.grid}, scales.data(),
                       offsets.data());
}

// A run is within one group and one block.
void PanelFeedback::roundRun(uint32_t begin, uint32_t end) {
  const uint32_t block = begin / kMomentInputs;
  const size_t inBlock = begin - block * kMomentInputs, stride = feedback.stride(block);
  const size_t first = size_t(begin) * kLanes;
  lanes.round({.values = work.data() + first,
               .count = end - begin,
               .grid = matrix.grid,
               .scales = scales.data(),
               .offsets = offsets.data(),
               .codes = codes.data() + first,
               .weights = weights.data() + first,
               .differences = differences.data() + first,
               .feedback = feedback.blocks[block].data() + inBlock * stride + inBlock,
               .feedbackStride = stride});
}

void PanelFeedback::quantize(std::span<const float> rows, uint32_t firstRow) {
  const uint32_t cols = matrix.shape.cols;
  const uint64_t group = matrix.grid.group;
  fillPanel(matrix.shape, rows, firstRow, weights.data());
  for (uint32_t begin = 0; begin < cols;) {
    const uint32_t groupEnd = uint32_t(std::min<uint64_t>((begin / group + 1) * group, cols));
    const uint32_t blockEnd = (begin / kMomentInputs + 1) * kMomentInputs;
    const uint32_t end = std::min({groupEnd, blockEnd, begin + kRun});
    if (begin % group == 0) {
      feedBack(begin, groupEnd);
      chooseScales(begin, groupEnd);
      storeScales(matrix, firstRow, uint32_t(begin / group), scales.data(), offsets.data());
    } else {
      feedBack(begin, end);
    }
    roundRun(begin, end);
    begin = end;
  }
  storeCodes(matrix, firstRow, 0, cols, codes.data());
}

Result<GridMatrix> quantizeGptq(const MatrixShape &shape, const Grid &grid,
                                std::span<const float> rows, const Feedback &feedback,
                                ScaleChoice scales, Isa isa) {
  assert(feedback.cols == shape.cols);
  MOERT_ASSIGN_OR_RETURN(GridMatrix matrix, quantizeNearest(shape, grid, rows));
  PanelFeedback panels(matrix, feedback, scales, isa);
  for (uint32_t row = 0; row < shape.rows; row += kLanes)
    panels.quantize(rows, row);
  return matrix;
}

} // namespace moec
