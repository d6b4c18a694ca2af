// Moments, their factors and error feedback, each compared with its definition in plain float64.
#include "compiler/quantize/Feedback.h"
#include "compiler/quantize/GridMath.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"
#include "tests/unit/quantize/TestExpert.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::test;
using namespace moert;

using Matrix = std::vector<std::vector<double>>;

static Moments momentsOf(std::span<const float> rows, uint32_t cols,
                         const KernelTable &kernels = bestKernels()) {
  const uint32_t count = uint32_t(rows.size() / cols);
  AlignedFloats aligned(count * strideFor(cols));
  for (size_t i = 0; i < rows.size(); ++i)
    aligned.data()[i / cols * strideFor(cols) + i % cols] = rows[i];
  MomentSums sums(cols, kernels);
  sums.add(aligned.data(), strideFor(cols), count, {});
  return std::move(sums).mean();
}

static Feedback feedbackFor(Moments moments, double damping) {
  damp(moments, damping);
  auto feedback = feedbackOf(moments, bestIsa());
  REQUIRE_MESSAGE(feedback.isOk(), feedback.status().message());
  return std::move(*feedback);
}

// The first block's damped moments, both triangles.
static Matrix damped(Moments moments, double damping) {
  damp(moments, damping);
  const size_t n = moments.blockCols(0);
  Matrix h(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j)
      h[i][j] = h[j][i] = moments.blocks[0][i * n + j];
  return h;
}

TEST_CASE("moments are the means of the inputs' products") {
  constexpr uint32_t kCols = 41, kTokens = 1100; // More than one partial sum.
  const auto rows = correlatedRows(kTokens, kCols, 1);
  const Moments moments = momentsOf(rows, kCols);
  for (size_t i = 0; i < kCols; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = 0, size = 0;
      for (size_t token = 0; token < kTokens; ++token) {
        sum += double(rows[token * kCols + i]) * rows[token * kCols + j];
        size += std::fabs(double(rows[token * kCols + i]) * rows[token * kCols + j]);
      }
      // Sums of at most 256 products in f32.
      REQUIRE(
          moments.blocks[0][i * kCols + j] ==
          doctest::Approx(sum / kTokens).epsilon(1e-9 + 2e-5 * size / (std::fabs(sum) + 1e-30)));
    }
}

TEST_CASE("moments do not depend on how tokens are split into calls, and weights repeat tokens") {
  constexpr uint32_t kCols = 16;
  const auto rows = correlatedRows(3, kCols, 2);
  AlignedFloats once(3 * kCols);
  std::copy(rows.begin(), rows.end(), once.data());
  MomentSums weighted(kCols, bestKernels());
  weighted.add(once.data(), kCols, 3, std::vector<float>{2, 0, 1});
  MomentSums repeated(kCols, bestKernels());
  repeated.add(once.data(), kCols, 1, {});
  repeated.add(once.data(), kCols, 1, {});
  repeated.add(once.data() + 2 * kCols, kCols, 1, {});
  const Moments a = std::move(weighted).mean(), b = std::move(repeated).mean();
  CHECK(a.weight == b.weight);
  for (size_t i = 0; i < kCols; ++i)
    for (size_t j = 0; j <= i; ++j)
      CHECK(a.blocks[0][i * kCols + j] ==
            doctest::Approx(b.blocks[0][i * kCols + j]).epsilon(1e-5));
}

/// Moments whose diagonal is given, without other products.
static Moments diagonalOf(const std::vector<double> &squares) {
  Moments moments;
  moments.cols = uint32_t(squares.size());
  moments.weight = 1;
  for (size_t first = 0; first < squares.size(); first += kMomentInputs) {
    const size_t n = moments.blockCols(moments.blocks.size());
    std::vector<double> &block = moments.blocks.emplace_back(n * n);
    for (size_t i = 0; i < n; ++i)
      block[i * n + i] = squares[first + i];
  }
  return moments;
}

TEST_CASE("damping is a part of the mean square of each block, which no single input decides") {
  std::vector<double> squares(kMomentInputs + 10);
  for (size_t i = 0; i < squares.size(); ++i)
    squares[i] = i < kMomentInputs ? double(1 + i % 3) : 100;
  Moments moments = diagonalOf(squares);
  damp(moments, 0.5);
  double mean = 0;
  for (size_t i = 0; i < kMomentInputs; ++i)
    mean += squares[i] / kMomentInputs;
  CHECK(moments.square(4) == doctest::Approx(2 + 0.5 * mean));
  CHECK(moments.square(kMomentInputs) == doctest::Approx(150)); // A block of its own.
  squares[7] = 1e6; // It counts as 16 times the median of 2.
  Moments massive = diagonalOf(squares);
  damp(massive, 0.5);
  CHECK(massive.square(4) ==
        doctest::Approx(2 + 0.5 * (mean + 30.0 / kMomentInputs)).epsilon(1e-3));
  // Inputs without use count as 0, and not for the median; a block without any stays.
  Moments unused = diagonalOf({0, 0, 0, 0, 0, 4, 4, 8});
  damp(unused, 0.5);
  CHECK(unused.square(0) == 1);
  Moments none = diagonalOf({0, 0, 0});
  damp(none, 0.5);
  CHECK(none.square(1) == 0);
}

TEST_CASE("the factors multiply to the damped moments") {
  constexpr uint32_t kCols = 75; // More than one block of the factorization.
  const Moments moments = momentsOf(correlatedRows(300, kCols, 3), kCols);
  const Feedback feedback = feedbackFor(moments, 0.01);
  const Matrix h = damped(moments, 0.01);
  auto factor = [&](size_t i, size_t j) {
    return i == j ? 1.0 : i < j ? double(feedback.blocks[0].data()[j * feedback.stride(0) + i]) : 0;
  };
  for (size_t i = 0; i < kCols; ++i)
    for (size_t j = 0; j < kCols; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kCols; ++k)
        sum += factor(i, k) * double(feedback.pivots[k]) * factor(j, k);
      REQUIRE(sum == doctest::Approx(h[i][j]).epsilon(1e-5).scale(std::sqrt(h[i][i] * h[j][j])));
    }
}

// The inverse of a symmetric positive definite matrix by Gauss-Jordan elimination.
static Matrix inverseOf(Matrix a) {
  const size_t n = a.size();
  Matrix inverse(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    inverse[i][i] = 1;
  for (size_t k = 0; k < n; ++k) {
    const double pivot = a[k][k];
    for (size_t j = 0; j < n; ++j) {
      a[k][j] /= pivot;
      inverse[k][j] /= pivot;
    }
    for (size_t i = 0; i < n; ++i) {
      const double factor = a[i][k];
      for (size_t j = 0; j < n && i != k; ++j) {
        a[i][j] -= factor * a[k][j];
        inverse[i][j] -= factor * inverse[k][j];
      }
    }
  }
  return inverse;
}

// GPTQ as in its paper (algorithm 1, without blocks): the inverse of the rest is updated column by
// column, and each error is distributed over later columns. The scales are given.
static std::vector<uint8_t> textbookGptq(const GridMatrix &scaled, std::vector<double> w,
                                         const Matrix &h) {
  const size_t cols = scaled.shape.cols;
  const CodeRange range = codeRangeOf(scaled.grid);
  Matrix inverse = inverseOf(h);
  std::vector<uint8_t> codes(w.size());
  for (size_t k = 0; k < cols; ++k) {
    for (size_t row = 0; row < scaled.shape.rows; ++row) {
      const size_t place = row * scaled.groupsPerRow() + k / scaled.grid.group;
      const double scale = f16ToF32(scaled.scales[place]);
      double &weight = w[row * cols + k];
      const double q =
          std::clamp(std::nearbyint(weight / scale), double(range.low), double(range.high));
      codes[row * cols + k] = uint8_t(int32_t(q) + zeroCodeOf(scaled.grid));
      const double error = (weight - q * scale) / inverse[k][k];
      for (size_t j = k + 1; j < cols; ++j)
        w[row * cols + j] -= error * inverse[k][j];
    }
    const Matrix before = inverse;
    for (size_t i = 0; i < cols; ++i)
      for (size_t j = 0; j < cols; ++j)
        inverse[i][j] -= before[i][k] * before[k][j] / before[k][k];
  }
  return codes;
}

TEST_CASE("error feedback gives the codes of published GPTQ") {
  constexpr MatrixShape kShape = {20, 64};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 4);
  const Moments moments = momentsOf(correlatedRows(400, kShape.cols, 5), kShape.cols);
  const Feedback feedback = feedbackFor(moments, 0.05);
  const std::vector<double> exact(rows.begin(), rows.end());
  for (const Grid &grid : {Grid{3, 64, false}, Grid{4, 16, false}}) {
    auto matrix = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 0);
    REQUIRE(matrix.isOk());
    const auto expected = textbookGptq(*matrix, exact, damped(moments, 0.05));
    size_t different = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      different += expected[i] != matrix->codes[i];
    // f32 and float64 sometimes round a tie to different sides.
    CHECK(different <= expected.size() / 100);
  }
}

TEST_CASE("error feedback lowers the error of the outputs against rounding to nearest") {
  constexpr MatrixShape kShape = {24, 130};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 6);
  const auto inputs = correlatedRows(600, kShape.cols, 7);
  const auto fitted = std::span(inputs).first(400 * kShape.cols);
  const auto others = std::span(inputs).subspan(400 * kShape.cols);
  const Feedback feedback = feedbackFor(momentsOf(fitted, kShape.cols), 0.03);
  for (uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u})
    for (uint32_t group : {32u, 130u})
      for (bool hasOffsets : {false, true}) {
        CAPTURE(bits);
        CAPTURE(group);
        const Grid grid = {bits, group, hasOffsets};
        auto nearest = quantizeNearest(kShape, grid, rows);
        auto gptq = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 0);
        REQUIRE((nearest.isOk() && gptq.isOk()));
        CHECK(outputErrorOf(*gptq, rows, fitted) < 0.7 * outputErrorOf(*nearest, rows, fitted));
        CHECK(outputErrorOf(*gptq, rows, others) < outputErrorOf(*nearest, rows, others));
      }
}

TEST_CASE("one input with massive activations does not turn error feedback into rounding") {
  // The last input: later ones would compensate its own error, which exceeds all others.
  constexpr MatrixShape kShape = {24, 128};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 21);
  auto massive = correlatedRows(800, kShape.cols, 22), others = massive;
  for (size_t i = kShape.cols - 1; i < massive.size(); i += kShape.cols) {
    massive[i] *= 1000;
    others[i] = 0;
  }
  const Feedback feedback = feedbackFor(momentsOf(massive, kShape.cols), 0.03);
  for (uint32_t bits : {2u, 3u, 4u}) {
    CAPTURE(bits);
    const Grid grid = {bits, 32, false};
    auto gptq = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 0);
    auto nearest = quantizeNearest(kShape, grid, rows);
    REQUIRE((gptq.isOk() && nearest.isOk()));
    CHECK(outputErrorOf(*gptq, rows, others) < 0.7 * outputErrorOf(*nearest, rows, others));
  }
}

// trace((W - V) H (W - V)^T), which refinement lowers.
static double weightedErrorOf(const GridMatrix &matrix, std::span<const float> rows,
                              const Matrix &h) {
  const std::vector<double> values = valuesOf(matrix);
  const size_t cols = matrix.shape.cols;
  double error = 0;
  for (size_t row = 0; row < matrix.shape.rows; ++row)
    for (size_t i = 0; i < cols; ++i)
      for (size_t j = 0; j < cols; ++j)
        error += (rows[row * cols + i] - values[row * cols + i]) * h[i][j] *
                 (rows[row * cols + j] - values[row * cols + j]);
  return error;
}

TEST_CASE("each refinement lowers the weighted error, also on other inputs") {
  constexpr MatrixShape kShape = {24, 130};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 13);
  const auto inputs = correlatedRows(1200, kShape.cols, 14);
  const auto fitted = std::span(inputs).first(800 * kShape.cols);
  const auto others = std::span(inputs).subspan(800 * kShape.cols);
  const Moments moments = momentsOf(fitted, kShape.cols);
  const Feedback feedback = feedbackFor(moments, 0.03);
  const Matrix h = damped(moments, 0.03);
  for (uint32_t bits : {2u, 3u, 4u, 5u, 6u})
    for (uint32_t group : {32u, 64u, 130u}) // One fits in a run, one is a run, one is longer.
      for (bool hasOffsets : {false, true}) {
        CAPTURE(bits);
        CAPTURE(group);
        CAPTURE(hasOffsets);
        std::vector<double> errors, otherErrors;
        for (uint32_t refinements : {0u, 1u, 2u, 3u}) {
          auto matrix = quantizeGptq(kShape, {bits, group, hasOffsets}, rows, feedback,
                                     ScaleChoice::kSearched, refinements);
          REQUIRE(matrix.isOk());
          errors.push_back(weightedErrorOf(*matrix, rows, h));
          otherErrors.push_back(outputErrorOf(*matrix, rows, others));
        }
        CHECK(errors[1] < 0.97 * errors[0]);
        CHECK(errors[2] < errors[1]);
        CHECK(errors[3] <= errors[2]);
        CHECK(otherErrors[2] < otherErrors[0]);
      }
}

TEST_CASE("non-linear codes have a smaller error than evenly spaced ones of as many bits") {
  constexpr MatrixShape kShape = {48, 128};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 16);
  const auto inputs = correlatedRows(1200, kShape.cols, 17);
  const auto fitted = std::span(inputs).first(800 * kShape.cols);
  const auto others = std::span(inputs).subspan(800 * kShape.cols);
  const Feedback feedback = feedbackFor(momentsOf(fitted, kShape.cols), 0.03);
  for (uint32_t bits : {2u, 3u, 4u})
    for (uint32_t group : {32u, 64u}) {
      CAPTURE(bits);
      CAPTURE(group);
      auto even =
          quantizeGptq(kShape, {bits, group, false}, rows, feedback, ScaleChoice::kSearched, 2);
      auto levels = quantizeGptq(kShape, {bits, group, false, true}, rows, feedback,
                                 ScaleChoice::kSearched, 2);
      REQUIRE((even.isOk() && levels.isOk()));
      // With normally distributed weights 8 levels gain least: 0.88 times the error in groups
      // of 32.
      CHECK(outputErrorOf(*levels, rows, others) <
            (bits == 3 ? 0.98 : 0.95) * outputErrorOf(*even, rows, others));
    }
}

TEST_CASE("scales of one byte have at most 1.1 times the error of scales in f16") {
  constexpr MatrixShape kShape = {48, 128};
  auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 18);
  // Groups of a row have scales of up to 8 times another's: small ones are rounded most.
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] *= std::ldexp(1.0f, -int(i / 32 % 4));
  const auto inputs = correlatedRows(1200, kShape.cols, 19);
  const auto fitted = std::span(inputs).first(800 * kShape.cols);
  const Feedback feedback = feedbackFor(momentsOf(fitted, kShape.cols), 0.03);
  for (uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    CAPTURE(bits);
    const bool hasLevels = bits <= 4;
    auto halves = quantizeGptq(kShape, {bits, 32, false, hasLevels}, rows, feedback,
                               ScaleChoice::kSearched, 2);
    auto bytes = quantizeGptq(kShape, {bits, 32, false, hasLevels, true}, rows, feedback,
                              ScaleChoice::kSearched, 2);
    REQUIRE((halves.isOk() && bytes.isOk()));
    CHECK(bytes->rowScales.size() == kShape.rows);
    CHECK(outputErrorOf(*bytes, rows, fitted) < 1.1 * outputErrorOf(*halves, rows, fitted));
  }
}

TEST_CASE("refinement finds the scale that was planted") {
  // Weights on a grid. The scale of rounding to nearest is another one where the extreme code is
  // not used, and its codes are still near enough to lead to the planted scale.
  constexpr MatrixShape kShape = {16, 32};
  const Grid grid = {4, 32, false};
  const Moments moments = momentsOf(correlatedRows(400, kShape.cols, 15), kShape.cols);
  const Feedback feedback = feedbackFor(moments, 0.03);
  GridMatrix planted = {
      kShape, grid, {}, std::vector<uint16_t>(kShape.rows, f32ToF16(0.0123f)), {}};
  for (size_t i = 0; i < size_t(kShape.rows) * kShape.cols; ++i)
    planted.codes.push_back(uint8_t(1 + i * 7 % 15)); // 1 to 15: q from -7 to 7.
  const std::vector<double> exact = valuesOf(planted);
  const std::vector<float> rows(exact.begin(), exact.end());
  auto found = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kSearched, 2);
  REQUIRE(found.isOk());
  CHECK(weightedErrorOf(*found, rows, damped(moments, 0.03)) == 0);
}

TEST_CASE("without moments, error feedback is rounding to nearest") {
  constexpr MatrixShape kShape = {20, 100};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 8);
  const Moments none = momentsOf({}, kShape.cols);
  CHECK(none.weight == 0);
  const Feedback feedback = feedbackFor(none, 0.03);
  for (const Grid &grid : {Grid{4, 32, false}, Grid{2, 128, true}}) {
    auto nearest = quantizeNearest(kShape, grid, rows);
    REQUIRE(nearest.isOk());
    for (uint32_t refinements : {0u, 1u}) {
      auto gptq = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, refinements);
      REQUIRE(gptq.isOk());
      CHECK(*gptq == *nearest);
    }
  }
}

TEST_CASE("with more inputs than a block of moments, feedback stays within each block") {
  constexpr MatrixShape kShape = {3, kMomentInputs + 50};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 9);
  auto inputs = randomValues(size_t(60) * kShape.cols, 1, 10);
  for (size_t i = 0; i < inputs.size(); i += 2) // Pairs of correlated inputs.
    inputs[i] += inputs[i + 1];
  const Moments moments = momentsOf(inputs, kShape.cols);
  REQUIRE(moments.blocks.size() == 2);
  const Feedback feedback = feedbackFor(moments, 0.1);
  for (uint32_t group : {32u, 96u, kShape.cols}) { // 96 does not divide a block.
    const Grid grid = {3, group, false};
    auto nearest = quantizeNearest(kShape, grid, rows);
    auto gptq = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 0);
    auto refined = quantizeGptq(kShape, grid, rows, feedback, ScaleChoice::kNearest, 1);
    REQUIRE((nearest.isOk() && gptq.isOk() && refined.isOk()));
    CHECK(outputErrorOf(*gptq, rows, inputs) < outputErrorOf(*nearest, rows, inputs));
    CHECK(outputErrorOf(*refined, rows, inputs) < outputErrorOf(*gptq, rows, inputs));
  }
}

TEST_CASE("moments that are not finite are refused") {
  const Moments moments = momentsOf(std::vector<float>(64, 1e30f), 16);
  auto feedback = feedbackOf(moments, bestIsa());
  REQUIRE_FALSE(feedback.isOk());
  CHECK(feedback.status().code() == StatusCode::kInvalidInput);
}

TEST_CASE("every instruction set gives the same bits, from the inputs to the codes") {
  constexpr MatrixShape kShape = {21, 150};
  const auto rows = randomValues(size_t(kShape.rows) * kShape.cols, 0.05f, 11);
  const auto inputs = correlatedRows(300, kShape.cols, 12);
  for (const Grid &grid : {Grid{2, 32, false}, Grid{3, 150, false}, Grid{3, 64, true},
                           Grid{3, 32, false, true}, Grid{4, 64, false, true},
                           Grid{4, 32, false, true, true}, Grid{6, 32, false, false, true}}) {
    std::vector<GridMatrix> results;
    for (Isa isa : builtIsas()) {
      if (!isSupported(isa))
        continue;
      Moments moments = momentsOf(inputs, kShape.cols, **kernelsFor(isa));
      damp(moments, 0.03);
      auto feedback = feedbackOf(moments, isa);
      REQUIRE(feedback.isOk());
      auto matrix = quantizeGptq(kShape, grid, rows, *feedback, ScaleChoice::kSearched, 2, isa);
      REQUIRE(matrix.isOk());
      results.push_back(std::move(*matrix));
    }
    for (const GridMatrix &result : results)
      CHECK(result == results.front());
  }
}
