// Error feedback of a single matrix lowers the error of its outputs, and takes rows that are
// transformed and rows that are not.
#include "compiler/quantize/FittedMatrix.h"

#include "compiler/quantize/HadamardWeights.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"
#include "tests/unit/quantize/TestExpert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace moec;
using namespace moec::test;
using namespace moert;

namespace {

constexpr uint32_t kRows = 32, kCols = 96, kTokens = 400;

/// Squared error of the outputs over all tokens.
double errorOf(const GridMatrix &matrix, std::span<const float> weights,
               std::span<const float> tokens) {
  std::vector<float> values(weights.size());
  dequantize(matrix, values);
  if (matrix.grid.hasHadamard)
    undoHadamardWeights(kCols, values);
  double error = 0;
  for (size_t token = 0; token < kTokens; ++token)
    for (size_t row = 0; row < kRows; ++row) {
      double output = 0;
      for (size_t col = 0; col < kCols; ++col)
        output += (double(values[row * kCols + col]) - double(weights[row * kCols + col])) *
                  double(tokens[token * kCols + col]);
      error += output * output;
    }
  return error;
}

Moments momentsOf(std::span<const float> tokens) {
  AlignedFloats aligned(kTokens * strideFor(kCols));
  for (size_t i = 0; i < tokens.size(); ++i)
    aligned.data()[i / kCols * strideFor(kCols) + i % kCols] = tokens[i];
  MomentSums sums(kCols, bestKernels());
  sums.add(aligned.data(), strideFor(kCols), kTokens, {});
  return std::move(sums).mean();
}

} // namespace

TEST_CASE("error feedback has less error than rounding to nearest, transformed or not") {
  const auto tokens = correlatedRows(kTokens, kCols, 3), weights = correlatedRows(kRows, kCols, 4);
  for (bool hasHadamard : {false, true}) {
    const Grid grid = {.bits = 4,
                       .group = 32,
                       .hasLevels = true,
                       .hasByteScales = true,
                       .hasHadamard = hasHadamard};
    auto feedback = fittedFeedback(momentsOf(tokens), hasHadamard, bestIsa());
    REQUIRE_MESSAGE(feedback.isOk(), feedback.status().message());
    auto fitted = quantizeFitted({kRows, kCols}, grid, weights, *feedback, bestIsa());
    auto nearest = hasHadamard
                       ? quantizeNearest({kRows, kCols}, grid, hadamardWeights(kCols, weights))
                       : quantizeNearest({kRows, kCols}, grid, weights);
    REQUIRE(fitted.isOk());
    REQUIRE(nearest.isOk());
    CHECK(errorOf(*fitted, weights, tokens) < 0.7 * errorOf(*nearest, weights, tokens));
  }
}

TEST_CASE("rows that are quantized in parts are those that are quantized together") {
  const auto tokens = correlatedRows(kTokens, kCols, 3), weights = correlatedRows(kRows, kCols, 4);
  const Grid grid = {.bits = 8, .group = 32, .hasByteScales = true, .hasHadamard = true};
  auto feedback = fittedFeedback(momentsOf(tokens), true, bestIsa());
  REQUIRE(feedback.isOk());
  auto whole = quantizeFitted({kRows, kCols}, grid, weights, *feedback, bestIsa());
  auto part = quantizeFitted({16, kCols}, grid, std::span(weights).subspan(16 * kCols), *feedback,
                             bestIsa());
  REQUIRE(whole.isOk());
  REQUIRE(part.isOk());
  CHECK(std::equal(part->codes.begin(), part->codes.end(), whole->codes.begin() + 16 * kCols));
}

TEST_CASE("rows that are not finite are refused") {
  auto weights = correlatedRows(kRows, kCols, 4);
  weights[7] = std::numeric_limits<float>::infinity();
  auto feedback = fittedFeedback(momentsOf(correlatedRows(kTokens, kCols, 3)), true, bestIsa());
  REQUIRE(feedback.isOk());
  const Grid grid = {.bits = 4, .group = 32, .hasHadamard = true};
  CHECK(quantizeFitted({kRows, kCols}, grid, weights, *feedback, bestIsa()).status().code() ==
        StatusCode::kInvalidInput);
}

TEST_CASE("more tokens are trusted more, and as many as half of the inputs by half") {
  CHECK(trustIn(64, 32) == 0.5);
  CHECK(trustIn(64, 64) > trustIn(64, 32));
}
