#include "compiler/quantize/HadamardWeights.h"

#include "runtime/exec/Hadamard.h"

using namespace moert;

namespace moec {

static_assert(kMomentInputs % kMaxHadamardBlock == 0, "A block of moments has whole transforms.");

static void transformRows(uint32_t cols, float factor, std::span<float> rows) {
  for (size_t first = 0; first < rows.size(); first += cols)
    hadamardRow(rows.subspan(first, cols), factor);
}

std::vector<float> hadamardWeights(uint32_t cols, std::span<const float> rows) {
  std::vector<float> transformed(rows.begin(), rows.end());
  transformRows(cols, hadamardWeightFactor(hadamardBlockOf(cols)), transformed);
  return transformed;
}

void undoHadamardWeights(uint32_t cols, std::span<float> rows) {
  transformRows(cols, hadamardInputFactor(hadamardBlockOf(cols)), rows);
}

void hadamardMoments(Moments &moments) {
  const uint32_t size = hadamardBlockOf(moments.cols);
  const double factor = hadamardInputFactor(size);
  for (size_t b = 0; b < moments.blocks.size(); ++b) {
    std::vector<double> &block = moments.blocks[b];
    const size_t cols = moments.blockCols(b);
    for (size_t row = 0; row < cols; ++row)
      for (size_t col = 0; col < row; ++col)
        block[col * cols + row] = block[row * cols + col];
    for (size_t first = 0; first < block.size(); first += size)
      hadamard(std::span(block).subspan(first, size), factor);
    double values[kMaxHadamardBlock];
    const std::span<double> column(values, size);
    for (size_t first = 0; first < cols; first += size)
      for (size_t col = 0; col < cols; ++col) {
        for (size_t i = 0; i < size; ++i)
          column[i] = block[(first + i) * cols + col];
        hadamard(column, factor);
        for (size_t i = 0; i < size; ++i)
          block[(first + i) * cols + col] = column[i];
      }
  }
}

} // namespace moec
