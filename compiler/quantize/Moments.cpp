#include "compiler/quantize/Moments.h"

#include "compiler/quantize/PanelProduct.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace moert;

namespace moec {

// Tokens that are transposed at once: limits the memory of add().
static constexpr uint32_t kTokens = 512;
// Rows of the moments that are multiplied at once.
static constexpr uint32_t kRows = 128;

MomentSums::MomentSums(uint32_t cols, const KernelTable &table) : kernels(table) {
  sums.cols = cols;
  sums.blocks.resize((size_t(cols) + kMomentInputs - 1) / kMomentInputs);
  for (size_t block = 0; block < sums.blocks.size(); ++block)
    sums.blocks[block].resize(size_t(sums.blockCols(block)) * sums.blockCols(block));
}

uint64_t MomentSums::memoryBytes(uint32_t cols) {
  const uint64_t block = std::min(cols, kMomentInputs);
  const uint64_t blocks = (uint64_t(cols) + kMomentInputs - 1) / kMomentInputs;
  return blocks * block * block * sizeof(double) +
         (2 * uint64_t(kTokens) + kRows) * strideFor(block) * sizeof(float);
}

void MomentSums::add(const float *rows, uint64_t stride, uint32_t count,
                     std::span<const float> weights) {
  assert(weights.empty() || weights.size() == count);
  for (uint32_t first = 0; first < count; first += kTokens) {
    const uint32_t tokens = std::min(kTokens, count - first);
    const auto part = weights.empty() ? weights : weights.subspan(first, tokens);
    for (size_t block = 0; block < sums.blocks.size(); ++block)
      addBlock(block, rows + first * stride + block * kMomentInputs, stride, tokens, part);
    for (uint32_t token = 0; token < tokens; ++token)
      sums.weight += part.empty() ? 1.0 : double(part[token]);
  }
}

// X^T X as the product of X^T (panels of 16 inputs; the sum is over tokens) with the weighted X^T
// as rows of activations.
void MomentSums::addBlock(size_t block, const float *rows, uint64_t stride, uint32_t count,
                          std::span<const float> weights) {
  const uint32_t cols = sums.blockCols(block), panels = (cols + 15) / 16;
  AlignedFloats inputs(size_t(panels) * count * 16);
  AlignedFloats weighted(size_t(cols) * kTokens);
  for (uint32_t token = 0; token < count; ++token) {
    const float *row = rows + token * stride;
    const float weight = weights.empty() ? 1.0f : weights[token];
    for (size_t col = 0; col < cols; ++col) {
      inputs.data()[(col / 16 * count + token) * 16 + col % 16] = row[col];
      weighted.data()[col * kTokens + token] = row[col] * weight;
    }
  }
  const uint64_t yStride = size_t(panels) * 16;
  AlignedFloats products(kRows * yStride);
  for (uint32_t first = 0; first < cols; first += kRows) {
    const uint32_t rowCount = std::min(kRows, cols - first);
    multiply(kernels, {inputs.data(), (first + rowCount + 15) / 16, count,
                       weighted.data() + size_t(first) * kTokens, kTokens, rowCount,
                       products.data(), yStride});
    for (uint32_t row = first; row < first + rowCount; ++row)
      for (uint32_t col = 0; col <= row; ++col)
        sums.blocks[block][size_t(row) * cols + col] +=
            double(products.data()[(row - first) * yStride + col]);
  }
}

Moments MomentSums::mean() && {
  if (sums.weight > 0)
    for (std::vector<double> &block : sums.blocks)
      for (double &value : block)
        value /= sums.weight;
  return std::move(sums);
}

Moments blend(const Moments &own, const Moments &other, double part) {
  assert(own.cols == other.cols);
  if (!(other.weight > 0))
    return own;
  if (!(own.weight > 0))
    return other;
  Moments result = own;
  for (size_t block = 0; block < own.blocks.size(); ++block)
    for (size_t i = 0; i < own.blocks[block].size(); ++i)
      result.blocks[block][i] = part * own.blocks[block][i] + (1 - part) * other.blocks[block][i];
  return result;
}

// The largest multiple of the median that an input counts with.
static constexpr double kMostOfMedian = 16;

static double robustMeanOf(std::vector<double> squares) {
  const auto used = std::partition(squares.begin(), squares.end(), [](double x) { return x > 0; });
  if (used == squares.begin())
    return 0;
  const auto middle = squares.begin() + (used - squares.begin()) / 2;
  std::nth_element(squares.begin(), middle, used);
  const double most = kMostOfMedian * *middle;
  // In ascending order, so that the sum does not depend on how the library selects.
  std::sort(squares.begin(), squares.end());
  double sum = 0;
  for (double square : squares)
    sum += std::min(square, most);
  return sum / double(squares.size());
}

void damp(Moments &moments, double part) {
  for (size_t block = 0; block < moments.blocks.size(); ++block) {
    const size_t cols = moments.blockCols(block);
    std::vector<double> squares(cols);
    for (size_t col = 0; col < cols; ++col)
      squares[col] = moments.blocks[block][col * cols + col];
    if (!std::ranges::all_of(squares, [](double x) { return std::isfinite(x); }))
      continue; // feedbackOf() refuses them.
    const double added = part * robustMeanOf(std::move(squares));
    for (size_t col = 0; col < cols; ++col)
      moments.blocks[block][col * cols + col] += added;
  }
}

Moments shrinkToDiagonal(Moments own, double part) {
  for (size_t block = 0; block < own.blocks.size(); ++block) {
    const size_t cols = own.blockCols(block);
    for (size_t row = 0; row < cols; ++row)
      for (size_t col = 0; col < row; ++col)
        own.blocks[block][row * cols + col] *= part;
  }
  return own;
}

} // namespace moec
