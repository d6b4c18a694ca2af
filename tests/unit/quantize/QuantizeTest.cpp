// Each quantizer follows its published definition, and refuses input that it cannot handle.
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/GridMath.h"
#include "compiler/quantize/QuantizeNearest.h"
#include "tests/unit/quantize/TestExpert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace moec;
using namespace moec::test;
using namespace moert;

static const MatrixShape kShape = {37, 96}; // The last panel has 5 rows.
static const std::vector<Grid> kGrids = {{2, 32, false},
                                         {2, 32, true},
                                         {3, 32, false},
                                         {4, 96, false},
                                         {4, 32, true},
                                         {6, 64, false},
                                         {8, 32, false},
                                         {8, 32, true},
                                         {2, 32, false, true},
                                         {3, 96, false, true},
                                         {4, 32, false, true},
                                         {2, 32, false, true, true},
                                         {4, 32, false, true, true},
                                         {6, 32, false, false, true}};

TEST_CASE("per-channel quantization gives the example computed by hand") {
  // 3 bits: codes -3 to 3, the scale is the largest magnitude over 3: 1.5 / 3 = 0.5.
  const std::vector<float> rows = {1.5f,   -1.0f,  0.2f,  0.3f, // 3, -2, 0 (0.4), 1 (0.6)
                                   0,      0,      0,     0,    // A scale of 0.
                                   -0.75f, 0.375f, 0.25f, 0};   // Scale 0.25: -3, 2 (1.5), 1, 0
  auto matrix = quantizePerChannel({3, 4}, 3, rows);
  REQUIRE(matrix.isOk());
  CHECK(matrix->grid == Grid{3, 4, false});
  CHECK(matrix->scales == std::vector<uint16_t>{f32ToF16(0.5f), 0, f32ToF16(0.25f)});
  CHECK(matrix->codes == std::vector<uint8_t>{7, 2, 4, 5, 4, 4, 4, 4, 1, 6, 5, 4});
}

TEST_CASE("per-channel quantization at 2 bits has the values -1, 0 and 1") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 1);
  auto matrix = quantizePerChannel(kShape, 2, rows);
  REQUIRE(matrix.isOk());
  for (uint8_t code : matrix->codes)
    REQUIRE((code >= 1 && code <= 3));
}

TEST_CASE("searched scales are never worse than rounding to nearest, and better below 8 bits") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 2);
  for (const Grid &grid : kGrids) {
    CAPTURE(grid.bits);
    CAPTURE(grid.hasOffsets);
    auto nearest = quantizeNearest(kShape, grid, rows);
    auto clipped = quantizeClipped(kShape, grid, rows, {});
    REQUIRE((nearest.isOk() && clipped.isOk()));
    const double before = squaredErrorOf(*nearest, rows), after = squaredErrorOf(*clipped, rows);
    CHECK(after <= before);
    if (grid.bits < 8)
      CHECK(after < 0.97 * before);
  }
}

TEST_CASE("scales searched with importance have the lower weighted error") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 3);
  std::vector<float> importance(kShape.cols);
  for (size_t col = 0; col < importance.size(); ++col)
    importance[col] = col % 8 == 0 ? 100.0f : 1.0f;
  for (const Grid &grid : kGrids) {
    CAPTURE(grid.bits);
    auto plain = quantizeClipped(kShape, grid, rows, {});
    auto weighted = quantizeClipped(kShape, grid, rows, importance);
    REQUIRE((plain.isOk() && weighted.isOk()));
    CHECK(squaredErrorOf(*weighted, rows, importance) < squaredErrorOf(*plain, rows, importance));
    CHECK(squaredErrorOf(*weighted, rows) > squaredErrorOf(*plain, rows));
  }
}

TEST_CASE("unused inputs do not disturb the search") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 4);
  const std::vector<float> importance(kShape.cols, 0.0f);
  for (const Grid &grid : kGrids) {
    auto nearest = quantizeNearest(kShape, grid, rows);
    auto weighted = quantizeClipped(kShape, grid, rows, importance);
    REQUIRE((nearest.isOk() && weighted.isOk()));
    CHECK(*weighted == *nearest);
  }
}

static double normOf(const GridMatrix &matrix, std::span<const float> rows, double power) {
  const auto values = valuesOf(matrix);
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    sum += std::pow(std::fabs(values[i] - double(rows[i])), power);
  return sum;
}

TEST_CASE("half-quadratic quantization lowers the sum of |error|^0.7") {
  // Errors of the size of weights, and errors so large that the shrinkage removes outliers.
  for (float deviation : {0.05f, 5.0f})
    for (uint32_t bits : {2u, 3u, 4u}) {
      CAPTURE(deviation);
      CAPTURE(bits);
      const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, deviation, 5);
      const Grid grid = {bits, 32, true};
      auto nearest = quantizeNearest(kShape, grid, rows);
      auto hqq = quantizeHqq(kShape, grid, rows);
      REQUIRE((nearest.isOk() && hqq.isOk()));
      CHECK(normOf(*hqq, rows, 0.7) < normOf(*nearest, rows, 0.7));
      CHECK(normOf(*hqq, rows, 1) < normOf(*nearest, rows, 1));
      CHECK(hqq->scales == nearest->scales);
    }
}

TEST_CASE("half-quadratic quantization is refused without offsets") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 1, 6);
  auto matrix = quantizeHqq(kShape, {4, 32, false}, rows);
  REQUIRE_FALSE(matrix.isOk());
  CHECK(matrix.status().code() == StatusCode::kInvalidInput);
}

TEST_CASE("values that are not finite or too large for f16's scales are refused by all") {
  for (float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e9f}) {
    auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 1, 7);
    rows[100] = bad;
    Feedback feedback;
    feedback.cols = kShape.cols;
    const Grid grid = {4, 32, true};
    CHECK_FALSE(quantizePerChannel(kShape, 4, rows).isOk());
    CHECK_FALSE(quantizeClipped(kShape, grid, rows, {}).isOk());
    CHECK_FALSE(quantizeHqq(kShape, grid, rows).isOk());
    CHECK_FALSE(quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 1).isOk());
  }
}

TEST_CASE("values too large for f16's scales are quantized with scales of one byte") {
  auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 1, 7);
  rows[100] = 1e9f;
  const Grid grid = {.bits = 4, .group = 32, .hasByteScales = true};
  auto matrix = quantizeNearest(kShape, grid, rows);
  REQUIRE_MESSAGE(matrix.isOk(), matrix.status().message());
  std::vector<float> values(rows.size());
  dequantize(*matrix, values);
  CHECK(values[100] == doctest::Approx(1e9).epsilon(0.02)); // Rounding of the scale to bf16.
}

TEST_CASE("dequantized values are those of the definition, rounded to f32 at most") {
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 8);
  for (const Grid &grid : kGrids) {
    auto matrix = quantizeClipped(kShape, grid, rows, {});
    REQUIRE(matrix.isOk());
    std::vector<float> values(rows.size());
    dequantize(*matrix, values);
    const auto expected = valuesOf(*matrix);
    for (size_t i = 0; i < values.size(); ++i)
      REQUIRE(values[i] == float(expected[i]));
  }
}

TEST_CASE("8 bits without offsets leave code 0 unused") {
  auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 9);
  for (size_t i = 0; i < rows.size(); i += 32)
    rows[i] = -1; // The extreme: fewer bits would store it as code 0.
  auto matrix = quantizeClipped(kShape, {8, 32, false}, rows, {});
  REQUIRE(matrix.isOk());
  for (uint8_t code : matrix->codes)
    REQUIRE(code != 0);
}
