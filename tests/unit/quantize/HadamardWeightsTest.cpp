// The Hadamard transform of weights and of their inputs' moments.
#include "compiler/quantize/HadamardWeights.h"
#include "compiler/quantize/PackWeights.h"
#include "runtime/exec/Hadamard.h"
#include "tests/unit/quantize/TestExpert.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moec;
using namespace moec::test;
using namespace moert;

TEST_CASE("transformed weights times transformed inputs are the product") {
  for (uint32_t cols : {192u, 96u, 40u, 7u}) {
    const auto weights = randomValues(cols, 1, cols), inputs = randomValues(cols, 1, cols + 1);
    const auto transformed = hadamardWeights(cols, weights);
    auto transformedInputs = inputs;
    hadamardRow(std::span(transformedInputs), hadamardInputFactor(hadamardBlockOf(cols)));
    double expected = 0, product = 0;
    for (uint32_t i = 0; i < cols; ++i) {
      expected += double(weights[i]) * inputs[i];
      product += double(transformed[i]) * transformedInputs[i];
    }
    // Each value is a sum of 64 numbers near 1 in f32.
    CHECK(product == doctest::Approx(expected).epsilon(1e-4));
  }
}

TEST_CASE("undoHadamardWeights is the inverse, row by row") {
  constexpr uint32_t kCols = 96;
  const auto rows = randomValues(5 * kCols, 1, 3);
  auto transformed = hadamardWeights(kCols, rows);
  CHECK(std::abs(transformed[1] - rows[1]) > 1e-3f);
  undoHadamardWeights(kCols, transformed);
  for (size_t i = 0; i < rows.size(); ++i)
    CHECK(transformed[i] == doctest::Approx(rows[i]).epsilon(1e-4)); // Sums of 32 numbers in f32.
}

TEST_CASE("transformed moments are the moments of transformed inputs") {
  for (uint32_t cols : {192u, 96u, 2048u + 64u}) { // The last one has two blocks of moments.
    CAPTURE(cols);
    constexpr uint32_t kTokens = 40;
    auto rows = correlatedRows(kTokens, cols, 9);
    const auto momentsOf = [&] {
      MomentSums sums(cols, bestKernels());
      AlignedFloats aligned(kTokens * strideFor(cols));
      for (size_t token = 0; token < kTokens; ++token)
        std::copy_n(&rows[token * cols], cols, aligned.data() + token * strideFor(cols));
      sums.add(aligned.data(), strideFor(cols), kTokens, {});
      return std::move(sums).mean();
    };
    Moments moments = momentsOf();
    hadamardMoments(moments);
    for (size_t token = 0; token < kTokens; ++token)
      hadamardRow(std::span(rows).subspan(token * cols, cols),
                  hadamardInputFactor(hadamardBlockOf(cols)));
    const Moments expected = momentsOf();
    REQUIRE(moments.blocks.size() == expected.blocks.size());
    for (size_t b = 0; b < moments.blocks.size(); ++b)
      for (uint32_t row = 0; row < moments.blockCols(b); ++row)
        for (uint32_t col = 0; col <= row; ++col) {
          const uint32_t first = uint32_t(b) * kMomentInputs;
          const size_t place = size_t(row) * moments.blockCols(b) + col;
          const double scale =
              std::sqrt(expected.square(first + row) * expected.square(first + col));
          // Sums are f32, of up to 64 values before the transform.
          if (std::abs(moments.blocks[b][place] - expected.blocks[b][place]) > 1e-4 * scale)
            FAIL("block ", b, ", row ", row, ", column ", col);
        }
  }
}

TEST_CASE("weights that are rounded without a calibration profile are transformed too") {
  const MatrixShape shape = {16, 96};
  const auto rows = randomValues(size_t(shape.rows) * shape.cols, 1, 5);
  const WeightFormat plain = {WeightKind::kInt4, 32, 32};
  WeightFormat hadamard = plain;
  hadamard.hasHadamard = true;
  const auto made = packWeights(shape, std::span(&hadamard, 1), 0, shape.rows, rows),
             expected = packWeights(shape, std::span(&plain, 1), 0, shape.rows,
                                    hadamardWeights(shape.cols, rows));
  REQUIRE(made.isOk());
  REQUIRE(expected.isOk());
  CHECK(made->front().codes == expected->front().codes);
  CHECK(made->front().scales == expected->front().scales);
}
