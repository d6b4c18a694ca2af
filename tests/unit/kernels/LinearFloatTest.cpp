// Products with float matrices in both layouts, and rows gathered from matrices of any kind.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

static constexpr WeightKind kFloatKinds[] = {WeightKind::kF32, WeightKind::kF16, WeightKind::kBF16};

TEST_CASE("linearFloat gives the reference's bytes for every kind, shape and page size") {
  constexpr MatrixShape kShapes[] = {{16, 1}, {17, 15}, {48, 256}, {100, 257}, {130, 700}};
  Random random(1);
  for (WeightKind kind : kFloatKinds)
    for (const MatrixShape &shape : kShapes)
      for (uint32_t pageShift = 12; pageShift <= 16; ++pageShift) {
        CAPTURE(nameOf(kind));
        CAPTURE(shape.rows);
        CAPTURE(shape.cols);
        LogicalMatrix m = randomMatrix(random, shape, {kind, 0, 0, false});
        PagedMatrix stored(m, pageShift, random.below(64) * kRegionAlignment, random);
        uint32_t rows = 1 + random.below(17);
        FloatRows x(rows, shape.cols), expected(rows, shape.rows);
        x.fill(random, -2, 2);
        referenceKernels().linearFloat(stored.view(), x.data(), x.stride(), rows, expected.data(),
                                       expected.stride(), 0, m.layout.panels);
        REQUIRE(expected.isGuardIntact());
        forEachVersion([&](const KernelTable &kernels) {
          FloatRows y(rows, shape.rows);
          kernels.linearFloat(stored.view(), x.data(), x.stride(), rows, y.data(), y.stride(), 0,
                              m.layout.panels);
          CHECK(y.isSameAs(expected));
          CHECK(y.isGuardIntact());
        });
      }
}

TEST_CASE("linearFloat gives the same bytes for a single row and in any batch") {
  Random random(2);
  for (WeightKind kind : kFloatKinds) {
    LogicalMatrix m = randomMatrix(random, {112, 600}, {kind, 0, 0, false});
    PagedMatrix stored(m, 12, 2 * kRegionAlignment, random);
    constexpr uint32_t kRows = 17;
    FloatRows x(kRows, 600), alone(kRows, 112);
    x.fill(random, -1, 1);
    for (uint32_t row = 0; row < kRows; ++row)
      referenceKernels().linearFloat(stored.view(), &x.at(row, 0), x.stride(), 1, &alone.at(row, 0),
                                     alone.stride(), 0, m.layout.panels);
    forEachVersion([&](const KernelTable &kernels) {
      for (uint32_t rows = 1; rows <= kRows; ++rows) {
        FloatRows together(kRows, 112);
        kernels.linearFloat(stored.view(), x.data(), x.stride(), rows, together.data(),
                            together.stride(), 0, m.layout.panels);
        for (uint32_t row = 0; row < rows; ++row)
          CHECK(std::memcmp(&together.at(row, 0), &alone.at(row, 0), 112 * sizeof(float)) == 0);
      }
    });
  }
}

TEST_CASE("linearFloat writes only the outputs of its panels") {
  Random random(3);
  LogicalMatrix m = randomMatrix(random, {90, 64}, {WeightKind::kBF16, 0, 0, false});
  PagedMatrix stored(m, 12, 0, random);
  FloatRows x(9, 64), all(9, 90);
  x.fill(random, -1, 1);
  referenceKernels().linearFloat(stored.view(), x.data(), x.stride(), 9, all.data(), all.stride(),
                                 0, 6);
  auto check = [&](const KernelTable &kernels) {
    for (uint32_t begin = 0; begin < 6; ++begin)
      for (uint32_t end = begin; end <= 6; ++end) {
        FloatRows y(9, 90);
        kernels.linearFloat(stored.view(), x.data(), x.stride(), 9, y.data(), y.stride(), begin,
                            end);
        uint32_t first = begin * 16, last = end * 16 < 90 ? end * 16 : 90;
        CHECK(y.isUntouchedOutside(first, last));
        for (uint32_t row = 0; row < 9; ++row)
          for (uint32_t i = first; i < last; ++i)
            CHECK(isSame(y.at(row, i), all.at(row, i)));
      }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("linearRows gives the reference's bytes for every kind and odd length") {
  Random random(4);
  for (WeightKind kind : kFloatKinds)
    for (uint32_t outputs : {1u, 3u, 15u})
      for (uint32_t cols : {1u, 15u, 16u, 33u, 511u, 2051u}) {
        CAPTURE(nameOf(kind));
        CAPTURE(cols);
        LogicalMatrix m = randomMatrix(random, {outputs, cols}, {kind, 0, 0, false});
        PagedMatrix stored(m, 12, random.below(8) * kRegionAlignment, random);
        FloatRows x(3, cols), expected(3, outputs);
        x.fill(random, -1, 1);
        referenceKernels().linearRows(stored.view(), x.data(), x.stride(), 3, expected.data(),
                                      expected.stride());
        forEachVersion([&](const KernelTable &kernels) {
          FloatRows y(3, outputs);
          kernels.linearRows(stored.view(), x.data(), x.stride(), 3, y.data(), y.stride());
          CHECK(y.isSameAs(expected));
          CHECK(y.isGuardIntact());
        });
      }
}

TEST_CASE("a partial sum of -0 stays -0 if a row ends inside 16 inputs") {
  // -2^-100 * 2^-100 rounds to -0; adding a zero for the missing inputs would make it +0.
  Random random(5);
  LogicalMatrix m = randomMatrix(random, {1, 17}, {WeightKind::kF32, 0, 0, false});
  FloatRows x(1, 17);
  for (uint32_t i = 0; i < 17; ++i) {
    m.values[i] = -0x1p-100f;
    x.at(0, i) = 0x1p-100f;
  }
  PagedMatrix stored(m, 12, 0, random);
  auto check = [&](const KernelTable &kernels) {
    FloatRows y(1, 1);
    kernels.linearRows(stored.view(), x.data(), x.stride(), 1, y.data(), y.stride());
    CHECK(isSame(y.at(0, 0), -0.0f));
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("the references of the float products are within rounding of float64") {
  // A sum of n products in f32 is off by at most n roundings of 2^-24 of the sum of magnitudes.
  Random random(6);
  for (WeightKind kind : kFloatKinds)
    for (uint32_t outputs : {5u, 40u}) {
      LogicalMatrix m = randomMatrix(random, {outputs, 700}, {kind, 0, 0, false});
      PagedMatrix stored(m, 12, kRegionAlignment, random);
      FloatRows x(2, 700), y(2, outputs);
      x.fill(random, -2, 2);
      if (m.layout.isPanels)
        referenceKernels().linearFloat(stored.view(), x.data(), x.stride(), 2, y.data(), y.stride(),
                                       0, m.layout.panels);
      else
        referenceKernels().linearRows(stored.view(), x.data(), x.stride(), 2, y.data(), y.stride());
      for (uint32_t row = 0; row < 2; ++row)
        for (uint32_t output = 0; output < outputs; ++output) {
          double exact = 0, magnitude = 0;
          for (uint32_t i = 0; i < 700; ++i) {
            double product = double(m.values[output * 700 + i]) * x.at(row, i);
            exact += product;
            magnitude += std::fabs(product);
          }
          CHECK(std::fabs(y.at(row, output) - exact) <= 260 * 0x1p-24 * magnitude);
        }
    }
}

TEST_CASE("gatherRow gives every kind's values, rounded to f32 and then scaled") {
  Random random(7);
  std::vector<WeightFormat> formats = {{WeightKind::kF32, 0, 0, false},
                                       {WeightKind::kF16, 0, 0, false},
                                       {WeightKind::kBF16, 0, 0, false}};
  for (WeightKind kind : {WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2})
    for (bool hasOffsets : {false, true})
      formats.push_back({kind, 64, 32, hasOffsets});
  for (const WeightFormat &format : formats)
    for (uint32_t rows : {3u, 37u}) {
      LogicalMatrix m = randomMatrix(random, {rows, 203}, format);
      PagedMatrix stored(m, 12, 9 * kRegionAlignment, random);
      for (uint32_t row : {0u, rows / 2, rows - 1}) {
        FloatRows expected(1, 203);
        for (uint32_t i = 0; i < 203; ++i) {
          float value = isQuantized(format.kind)
                            ? std::fma(static_cast<float>(m.quants[row * m.layout.paddedCols + i]),
                                       m.scale(row, i), m.offset(row, i))
                            : m.values[row * 203 + i];
          expected.at(0, i) = value * 11.3f;
        }
        auto check = [&](const KernelTable &kernels) {
          FloatRows out(1, 203);
          kernels.gatherRow(stored.view(), row, 11.3f, out.data());
          CHECK(out.isSameAs(expected));
          CHECK(out.isGuardIntact());
        };
        check(referenceKernels());
        forEachVersion(check);
      }
    }
}
