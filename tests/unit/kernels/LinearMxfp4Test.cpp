// Products with MXFP4 matrices: those of the same values in any other float kind, to the bit.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

static FloatRows product(const KernelTable &kernels, const PagedMatrix &w, const FloatRows &x) {
  const WeightView view = w.view();
  FloatRows y(x.rows, view.shape.rows);
  kernels.linearFloat(view, x.data(), x.stride(), x.rows, y.data(), y.stride(), 0,
                      view.layout.panels);
  return y;
}

/// The same values as bf16, which holds all of them.
static LogicalMatrix asBf16(const LogicalMatrix &m) {
  const WeightFormat format = floatFormat(WeightKind::kBF16);
  auto layout = layoutOf(m.shape, format);
  REQUIRE(layout.isOk());
  return {m.shape, format, *layout, m.values, {}, {}, {}, {}, {}};
}

/// Activations of which some are subnormal.
static FloatRows someRows(Random &random, uint32_t rows, uint32_t cols) {
  FloatRows x(rows, cols);
  x.fill(random, -2, 2);
  for (uint32_t row = 0; row < rows; ++row)
    x.at(row, random.below(cols)) = 0x1.8p-140f;
  return x;
}

TEST_CASE("MXFP4 gives the reference's bytes for every shape and page size") {
  // Inputs of less than a sum block, of one, and beyond it; outputs that leave lanes of a panel.
  constexpr MatrixShape kShapes[] = {{16, 32},  {3, 96},    {17, 224},
                                     {48, 256}, {100, 288}, {130, 704}};
  Random random(11);
  for (const MatrixShape &shape : kShapes)
    for (uint32_t pageShift = 12; pageShift <= 16; ++pageShift) {
      CAPTURE(shape.rows);
      CAPTURE(shape.cols);
      PagedMatrix stored(randomMxfp4(random, shape), pageShift, random.below(64) * kRegionAlignment,
                         random);
      const FloatRows x = someRows(random, 1 + random.below(17), shape.cols);
      const FloatRows expected = product(referenceKernels(), stored, x);
      REQUIRE(expected.isGuardIntact());
      forEachVersion([&](const KernelTable &kernels) {
        const FloatRows y = product(kernels, stored, x);
        CHECK(y.isSameAs(expected));
        CHECK(y.isGuardIntact());
      });
    }
}

TEST_CASE("MXFP4 gives the bytes of the same values in bf16") {
  Random random(12);
  for (const MatrixShape &shape : {MatrixShape{16, 32}, {33, 544}, {96, 2880}}) {
    const LogicalMatrix m = randomMxfp4(random, shape);
    PagedMatrix stored(m, 12, 3 * kRegionAlignment, random);
    PagedMatrix wide(asBf16(m), 14, kRegionAlignment, random);
    for (uint32_t rows : {1u, 3u, 12u}) {
      const FloatRows x = someRows(random, rows, shape.cols);
      auto check = [&](const KernelTable &kernels) {
        CHECK(product(kernels, stored, x).isSameAs(product(kernels, wide, x)));
      };
      check(referenceKernels());
      forEachVersion(check);
    }
  }
}

TEST_CASE("MXFP4 gives the same bytes for a single row and in any batch, panel by panel") {
  Random random(13);
  constexpr uint32_t kRows = 17, kOutputs = 112;
  PagedMatrix stored(randomMxfp4(random, {kOutputs, 608}), 12, 2 * kRegionAlignment, random);
  const FloatRows x = someRows(random, kRows, 608);
  const FloatRows all = product(referenceKernels(), stored, x);
  forEachVersion([&](const KernelTable &kernels) {
    for (uint32_t rows = 1; rows <= kRows; ++rows)
      for (uint32_t panel = 0; panel < kOutputs / kPanelRows; panel += rows) {
        FloatRows y(rows, kOutputs);
        const uint32_t end = std::min(panel + 5, kOutputs / kPanelRows);
        kernels.linearFloat(stored.view(), x.data(), x.stride(), rows, y.data(), y.stride(), panel,
                            end);
        CHECK(y.isUntouchedOutside(panel * kPanelRows, end * kPanelRows));
        for (uint32_t row = 0; row < rows; ++row)
          CHECK(std::memcmp(&y.at(row, panel * kPanelRows), &all.at(row, panel * kPanelRows),
                            (end - panel) * kPanelRows * sizeof(float)) == 0);
      }
  });
}

TEST_CASE("each MXFP4 code is exact with every power that leaves it finite, subnormals included") {
  // Each output has one code in all its inputs, and x is 1 in one place: the sum is that code.
  for (uint32_t power : {0u, 1u, 2u, 64u, 127u, 200u, 251u, 252u, 253u, 254u}) {
    constexpr uint32_t kInputs = 64;
    std::vector<uint8_t> codes;
    for (uint32_t i = 0; i < 16 * kInputs; ++i)
      codes.push_back(static_cast<uint8_t>(i / kInputs));
    const LogicalMatrix m =
        mxfp4Matrix({16, kInputs}, codes, std::vector<uint8_t>(32, static_cast<uint8_t>(power)));
    Random random(14);
    PagedMatrix stored(m, 12, 0, random);
    for (uint32_t input : {0u, 1u, 31u, 32u, 63u}) {
      FloatRows x(1, kInputs);
      x.fill(random, 0, 0);
      x.at(0, input) = 1;
      auto check = [&](const KernelTable &kernels) {
        const FloatRows y = product(kernels, stored, x);
        for (uint32_t code = 0; code < 16; ++code)
          if (std::isfinite(m.values[code * kInputs]))
            CHECK_MESSAGE(y.at(0, code) == m.values[code * kInputs], kernels.name, " ", power);
      };
      check(referenceKernels());
      forEachVersion(check);
    }
  }
}

TEST_CASE("the code of -0 keeps its sign") {
  // Products do not show it: a sum starts at +0. A gathered row does.
  std::vector<uint8_t> codes(32, 0);
  codes[7] = 8;
  Random random(15);
  PagedMatrix stored(mxfp4Matrix({1, 32}, codes, {130}), 12, 0, random);
  FloatRows row(1, 32);
  referenceKernels().gatherRow(stored.view(), 0, 3, row.data());
  for (uint32_t i = 0; i < 32; ++i)
    CHECK(isSame(row.at(0, i), i == 7 ? -0.0f : 0.0f));
}

TEST_CASE("the reference of MXFP4 products is within rounding of float64") {
  // A sum of n products in f32 is off by at most n roundings of 2^-24 of the sum of magnitudes.
  Random random(16);
  const LogicalMatrix m = randomMxfp4(random, {40, 704});
  PagedMatrix stored(m, 12, kRegionAlignment, random);
  FloatRows x(2, 704);
  x.fill(random, -2, 2);
  const FloatRows y = product(referenceKernels(), stored, x);
  for (uint32_t row = 0; row < 2; ++row)
    for (uint32_t output = 0; output < 40; ++output) {
      double exact = 0, magnitude = 0;
      for (uint32_t i = 0; i < 704; ++i) {
        double term = double(m.values[output * 704 + i]) * x.at(row, i);
        exact += term;
        magnitude += std::fabs(term);
      }
      CHECK(std::fabs(y.at(row, output) - exact) <= 260 * 0x1p-24 * magnitude);
    }
}
