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
static constexpr uint32_t kRun = kRefinedColumns;

namespace {

/// Quantizes panel after panel of one matrix; keeps the buffers.
class PanelFeedback {
public:
  PanelFeedback(GridMatrix &matrixOut, const Feedback &factors, ScaleChoice choice, uint32_t passes,
                Isa isa)
      : matrix(matrixOut), feedback(factors), scaleChoice(choice), refinements(passes),
        lanes(laneKernelsFor(isa)), kernels(**kernelsFor(isa)), weights(size(matrix)),
        differences(size(matrix)), work(size(matrix)), corrections(size(matrix)), scales(kLanes),
        offsets(kLanes), rowScales(kLanes), codes(size(matrix)) {}

  void quantize(std::span<const float> rows, uint32_t firstRow);

private:
  static size_t size(const GridMatrix &matrix) { return size_t(matrix.shape.cols) * kLanes; }

  void feedBack(uint32_t begin, uint32_t end);
  void chooseScales(uint32_t begin, uint32_t end);
  void roundRun(uint32_t begin, uint32_t end);
  void refineRun(uint32_t firstRow, uint32_t begin, uint32_t end);
  uint32_t groupEnd(uint32_t begin) const;
  uint32_t runEnd(uint32_t begin) const;

  GridMatrix &matrix;
  const Feedback &feedback;
  const ScaleChoice scaleChoice;
  const uint32_t refinements;
  const LaneKernels &lanes;
  const KernelTable &kernels;
  // All [cols][16].
  AlignedFloats weights, differences, work, corrections;
  AlignedFloats scales, offsets; // The current group's.
  AlignedFloats rowScales;
  const float *ofRows = nullptr; // rowScales, or null without byte scales.
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
  nearestScales(values, end - begin, matrix.grid, ofRows, scales.data(), offsets.data());
  if (scaleChoice == ScaleChoice::kSearched)
    lanes.searchScales({values, end - begin, &feedback.pivots[begin], matrix.grid, ofRows},
                       scales.data(), offsets.data());
}

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

// Coordinate descent on the squared error: all columns but those of the run stay.
void PanelFeedback::refineRun(uint32_t firstRow, uint32_t begin, uint32_t end) {
  const uint32_t block = begin / kMomentInputs, blockBegin = block * kMomentInputs;
  const uint64_t stride = feedback.stride(block);
  const float *moments = feedback.moments[block].data() + (begin - blockBegin) * stride;
  multiply(kernels, {.panels = differences.data() + size_t(blockBegin) * kLanes,
                     .panelCount = 1,
                     .cols = std::min(kMomentInputs, matrix.shape.cols - blockBegin),
                     .x = moments,
                     .xStride = stride,
                     .rows = end - begin,
                     .y = corrections.data(),
                     .yStride = kLanes});
  const uint32_t group = begin / matrix.grid.group;
  const bool isGroup = begin % matrix.grid.group == 0 && end == groupEnd(begin);
  loadScales(matrix, firstRow, group, scales.data(), offsets.data());
  const size_t first = size_t(begin) * kLanes;
  lanes.refine({.weights = weights.data() + first,
                .differences = differences.data() + first,
                .gradient = corrections.data(),
                .count = end - begin,
                .grid = matrix.grid,
                .rowScales = ofRows,
                .scales = scales.data(),
                .offsets = offsets.data(),
                .codes = codes.data() + first,
                .moments = moments + (begin - blockBegin),
                .momentsStride = stride,
                .fitsScales = isGroup && scaleChoice == ScaleChoice::kSearched});
  storeScales(matrix, firstRow, group, scales.data(), offsets.data());
}

uint32_t PanelFeedback::groupEnd(uint32_t begin) const {
  const uint64_t group = matrix.grid.group;
  return uint32_t(std::min<uint64_t>((begin / group + 1) * group, matrix.shape.cols));
}

// A run is within one group and one block.
uint32_t PanelFeedback::runEnd(uint32_t begin) const {
  const uint32_t blockEnd = (begin / kMomentInputs + 1) * kMomentInputs;
  return std::min({groupEnd(begin), blockEnd, begin + kRun});
}

void PanelFeedback::quantize(std::span<const float> rows, uint32_t firstRow) {
  const uint32_t cols = matrix.shape.cols;
  const uint64_t group = matrix.grid.group;
  fillPanel(matrix.shape, rows, firstRow, weights.data());
  ofRows = loadRowScales(matrix, firstRow, rowScales.data());
  for (uint32_t begin = 0; begin < cols;) {
    const uint32_t end = runEnd(begin);
    if (begin % group == 0) {
      feedBack(begin, groupEnd(begin));
      chooseScales(begin, groupEnd(begin));
      storeScales(matrix, firstRow, uint32_t(begin / group), scales.data(), offsets.data());
    } else {
      feedBack(begin, end);
    }
    roundRun(begin, end);
    begin = end;
  }
  for (uint32_t pass = 0; pass < refinements; ++pass)
    for (uint32_t begin = 0; begin < cols; begin = runEnd(begin))
      refineRun(firstRow, begin, runEnd(begin));
  storeCodes(matrix, firstRow, 0, cols, codes.data());
}

Result<GridMatrix> quantizeGptq(const MatrixShape &shape, const Grid &grid,
                                std::span<const float> rows, const Feedback &feedback,
                                ScaleChoice scales, uint32_t refinements, Isa isa) {
  assert(feedback.cols == shape.cols);
  MOERT_ASSIGN_OR_RETURN(GridMatrix matrix, quantizeNearest(shape, grid, rows));
  PanelFeedback panels(matrix, feedback, scales, refinements, isa);
  for (uint32_t row = 0; row < shape.rows; row += kLanes)
    panels.quantize(rows, row);
  return matrix;
}

} // namespace moec
