// Products of a stored matrix with rows of activations, one output at a time.
#include "runtime/exec/reference/PartialSums.h"
#include "runtime/exec/reference/Reference.h"
#include "runtime/exec/reference/StoredElement.h"

#include <algorithm>
#include <cmath>

namespace moert::reference {

static float quantizedOutput(const WeightView &w, const QuantizedRows &x, uint32_t row,
                             uint32_t output) {
  const int8_t *codes = x.codes + row * x.codesStride;
  const float *scales = x.scales + row * x.groupsStride;
  const int32_t *sums = x.sums + row * x.groupsStride;
  uint32_t groups = x.cols / x.group;
  float result = 0;
  for (uint32_t group = 0; group < groups; ++group) {
    int32_t product = 0;
    for (uint32_t i = group * x.group; i < (group + 1) * x.group; ++i)
      product += quantizedElement(w, output, i) * codes[i];
    float scale = stepOf(w, output, group * x.group) * scales[group];
    result = std::fma(static_cast<float>(product), scale, result);
  }
  if (!w.format.hasOffsets)
    return result;
  for (uint32_t group = 0; group < groups; ++group) {
    float offset = groupElement(w, w.layout.offsetsOffset, output, group * x.group);
    float sum = static_cast<float>(sums[group]) * scales[group];
    result = std::fma(sum, offset, result);
  }
  return result;
}

void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  uint32_t end = std::min(panelEnd * kPanelRows, w.shape.rows);
  for (uint32_t output = panelBegin * kPanelRows; output < end; ++output)
    for (uint32_t row = 0; row < rows; ++row)
      y[row * yStride + output] = quantizedOutput(w, x, row, output);
}

static float floatOutput(const WeightView &w, const float *x, uint32_t output) {
  float result = 0;
  for (uint32_t blockBegin = 0; blockBegin < w.shape.cols; blockBegin += kSumBlock) {
    uint32_t blockEnd = std::min(w.shape.cols, blockBegin + kSumBlock);
    float block = 0;
    for (uint32_t i = blockBegin; i < blockEnd; ++i)
      block = std::fma(floatElement(w, output, i), x[i], block);
    result = result + block;
  }
  return result;
}

void linearFloat(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                 uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  uint32_t end = std::min(panelEnd * kPanelRows, w.shape.rows);
  for (uint32_t output = panelBegin * kPanelRows; output < end; ++output)
    for (uint32_t row = 0; row < rows; ++row)
      y[row * yStride + output] = floatOutput(w, x + row * xStride, output);
}

void linearRows(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                uint64_t yStride) {
  for (uint32_t output = 0; output < w.shape.rows; ++output)
    for (uint32_t row = 0; row < rows; ++row) {
      PartialSums sums;
      for (uint32_t i = 0; i < w.shape.cols; ++i) {
        float &lane = sums.lane[i % kPartialSums];
        lane = std::fma(floatElement(w, output, i), x[row * xStride + i], lane);
      }
      y[row * yStride + output] = sums.total();
    }
}

void gatherRow(const WeightView &w, uint32_t row, float scale, float *out) {
  for (uint32_t i = 0; i < w.shape.cols; ++i) {
    if (!isQuantized(w.format.kind)) {
      out[i] = floatElement(w, row, i) * scale;
      continue;
    }
    auto q = static_cast<float>(quantizedElement(w, row, i));
    float offset = w.format.hasOffsets ? groupElement(w, w.layout.offsetsOffset, row, i) : 0.0f;
    out[i] = std::fma(q, stepOf(w, row, i), offset) * scale;
  }
}

} // namespace moert::reference
