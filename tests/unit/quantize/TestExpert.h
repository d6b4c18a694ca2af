// Values to quantize: generated ones, and real experts of the bundled model with inputs like
// theirs.
#pragma once

#include "compiler/quantize/GridMatrix.h"
#include "compiler/quantize/QuantizeExpert.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec::test {

/// Roughly normal numbers; the same on every machine.
std::vector<float> randomValues(size_t count, float deviation, uint32_t seed);

/// Rows whose columns are correlated and differ in magnitude, like activations.
std::vector<float> correlatedRows(uint32_t rows, uint32_t cols, uint32_t seed);

/// The value of every weight in float64, by the definitions of GridMatrix.h and Hadamard.h alone.
std::vector<double> valuesOf(const GridMatrix &matrix);

/// Sum of (w - v)^2 * importance of the column (empty: 1).
double squaredErrorOf(const GridMatrix &matrix, std::span<const float> rows,
                      std::span<const float> importance = {});

/// Sum over inputs x (rows of cols values) and outputs of (w x - v x)^2.
double outputErrorOf(const GridMatrix &matrix, std::span<const float> rows,
                     std::span<const float> inputs);

/// Expert `index` of the bundled model's first layer and the tokens that its router sends there,
/// for the vocabulary as text: embeddings after the layer's norm, without attention.
struct RealExpert {
  uint32_t hidden = 192, width = 64;
  std::vector<float> gate, up, down;
  std::vector<float> rows, weights; // The expert's tokens.
  std::vector<float> layerRows;     // Rows of all experts.

  ExpertWeights expert() const { return {hidden, width, gate, up, down}; }
  ExpertTokens tokens(size_t first, size_t count) const {
    return {std::span(rows).subspan(first * hidden, count * hidden),
            std::span(weights).subspan(first, count)};
  }
  ExpertTokens tokens() const { return tokens(0, weights.size()); }
};
RealExpert realExpert(uint32_t index);

} // namespace moec::test
