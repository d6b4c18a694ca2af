// Products with quantized matrices: every version against the reference, the reference against
// float64.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

namespace {

struct Case {
  WeightFormat format;
  MatrixShape shape;
  uint32_t pageShift;
  uint64_t offset;
};

std::vector<WeightFormat> allFormats() {
  std::vector<WeightFormat> formats;
  for (WeightKind kind : {WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2})
    for (uint32_t activationGroup : {16u, 32u, 64u})
      for (uint32_t ratio : {1u, 2u, 3u, 4u})
        for (bool hasOffsets : {false, true})
          formats.push_back({kind, ratio * activationGroup, activationGroup, hasOffsets});
  return formats;
}

std::vector<Case> allCases() {
  constexpr MatrixShape kShapes[] = {{1, 16}, {16, 64}, {33, 200}, {70, 515}};
  std::vector<Case> cases;
  uint32_t count = 0;
  for (const WeightFormat &format : allFormats())
    for (const MatrixShape &shape : kShapes) {
      uint32_t pageShift = 12 + count % 5;
      cases.push_back({format, shape, pageShift, (count * 7 % 64) * kRegionAlignment});
      ++count;
    }
  return cases;
}

QuantizedBatch randomBatch(Random &random, uint32_t rows, uint32_t cols, const LogicalMatrix &m) {
  FloatRows x(rows, cols);
  x.fill(random, -3, 3);
  QuantizedBatch batch(rows, m.layout.paddedCols, m.format.activationGroup);
  referenceKernels().quantizeRows(x.data(), x.stride(), rows, cols, batch.view());
  return batch;
}

} // namespace

TEST_CASE("linearQuantized gives the reference's bytes for every format, shape and page size") {
  Random random(1);
  for (const Case &c : allCases()) {
    CAPTURE(nameOf(c.format.kind));
    CAPTURE(c.format.activationGroup);
    CAPTURE(c.format.group);
    CAPTURE(c.format.hasOffsets);
    CAPTURE(c.shape.rows);
    LogicalMatrix m = randomMatrix(random, c.shape, c.format);
    PagedMatrix stored(m, c.pageShift, c.offset, random);
    uint32_t rows = 1 + random.below(9);
    QuantizedBatch batch = randomBatch(random, rows, c.shape.cols, m);
    FloatRows expected(rows, c.shape.rows);
    referenceKernels().linearQuantized(stored.view(), batch.view(), rows, expected.data(),
                                       expected.stride(), 0, m.layout.panels);
    REQUIRE(expected.isGuardIntact());
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows y(rows, c.shape.rows);
      kernels.linearQuantized(stored.view(), batch.view(), rows, y.data(), y.stride(), 0,
                              m.layout.panels);
      CHECK(y.isSameAs(expected));
      CHECK(y.isGuardIntact());
    });
  }
}

TEST_CASE("linearQuantized gives the same bytes for a single row and in any batch") {
  Random random(2);
  for (WeightKind kind : {WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2}) {
    LogicalMatrix m = randomMatrix(random, {48, 320}, {kind, 64, 32, true});
    PagedMatrix stored(m, 12, 3 * kRegionAlignment, random);
    constexpr uint32_t kRows = 17;
    QuantizedBatch batch = randomBatch(random, kRows, 320, m);
    FloatRows alone(kRows, 48);
    for (uint32_t row = 0; row < kRows; ++row)
      referenceKernels().linearQuantized(stored.view(), batch.view(row), 1, &alone.at(row, 0),
                                         alone.stride(), 0, m.layout.panels);
    forEachVersion([&](const KernelTable &kernels) {
      for (uint32_t rows = 1; rows <= kRows; ++rows) {
        FloatRows together(kRows, 48);
        kernels.linearQuantized(stored.view(), batch.view(), rows, together.data(),
                                together.stride(), 0, m.layout.panels);
        for (uint32_t row = 0; row < rows; ++row)
          CHECK(std::memcmp(&together.at(row, 0), &alone.at(row, 0), 48 * sizeof(float)) == 0);
      }
    });
  }
}

TEST_CASE("linearQuantized writes only the outputs of its panels") {
  Random random(3);
  LogicalMatrix m = randomMatrix(random, {90, 128}, {WeightKind::kInt4, 32, 32, false});
  PagedMatrix stored(m, 13, kRegionAlignment, random);
  QuantizedBatch batch = randomBatch(random, 3, 128, m);
  FloatRows all(3, 90);
  referenceKernels().linearQuantized(stored.view(), batch.view(), 3, all.data(), all.stride(), 0,
                                     6);
  auto check = [&](const KernelTable &kernels) {
    for (uint32_t begin = 0; begin < 6; ++begin)
      for (uint32_t end = begin; end <= 6; ++end) {
        FloatRows y(3, 90);
        kernels.linearQuantized(stored.view(), batch.view(), 3, y.data(), y.stride(), begin, end);
        uint32_t first = begin * 16, last = end * 16 < 90 ? end * 16 : 90;
        CHECK(y.isUntouchedOutside(first, last));
        for (uint32_t row = 0; row < 3; ++row)
          for (uint32_t i = first; i < last; ++i)
            CHECK(isSame(y.at(row, i), all.at(row, i)));
      }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("linearQuantized is exact at the largest codes of every width") {
  // q * x summed over a group of 64 with both at their limits: 64 * 128 * 127 = 1040384 for int8.
  for (WeightKind kind : {WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2})
    for (uint32_t group : {16u, 32u, 64u})
      for (int sign : {-1, 1})
        for (bool isLargest : {false, true}) {
          int half = 1 << (bitsOf(kind) - 1);
          int q = isLargest ? half - 1 : -half;
          Random random(4);
          LogicalMatrix m = randomMatrix(random, {16, 64}, {kind, group, group, false});
          m.quants.assign(m.quants.size(), q);
          m.scales.assign(m.scales.size(), 1.0f);
          PagedMatrix stored(m, 12, 0, random);
          QuantizedBatch batch(1, 64, group);
          for (uint32_t i = 0; i < 64; ++i)
            batch.codes.at(0, i) = static_cast<int8_t>(sign * 127);
          for (uint32_t g = 0; g < 64 / group; ++g) {
            batch.scales.at(0, g) = 1;
            batch.sums.at(0, g) = sign * 127 * static_cast<int32_t>(group);
          }
          auto check = [&](const KernelTable &kernels) {
            FloatRows y(1, 16);
            kernels.linearQuantized(stored.view(), batch.view(), 1, y.data(), y.stride(), 0, 1);
            for (uint32_t i = 0; i < 16; ++i)
              CHECK(y.at(0, i) == static_cast<float>(64 * q * sign * 127));
          };
          check(referenceKernels());
          forEachVersion(check);
        }
}

TEST_CASE("linearQuantized gives the reference's bytes for any bytes that a file may hold") {
  Random random(5);
  for (WeightKind kind : {WeightKind::kInt8, WeightKind::kInt4, WeightKind::kInt2}) {
    LogicalMatrix m = randomMatrix(random, {32, 256}, {kind, 32, 16, true});
    PagedMatrix stored(m, 12, 0, random);
    for (uint64_t i = 0; i < m.layout.bytes; ++i)
      stored.byteAt(i) = static_cast<std::byte>(random.below(256));
    QuantizedBatch batch = randomBatch(random, 5, 256, m);
    FloatRows expected(5, 32);
    referenceKernels().linearQuantized(stored.view(), batch.view(), 5, expected.data(),
                                       expected.stride(), 0, 2);
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows y(5, 32);
      kernels.linearQuantized(stored.view(), batch.view(), 5, y.data(), y.stride(), 0, 2);
      CHECK(y.isSameAs(expected));
    });
  }
}

TEST_CASE("the reference of linearQuantized is within float rounding of float64") {
  // The integer sums are exact; each group adds three roundings of 2^-24, relative to the largest
  // partial sum, which the sum of magnitudes bounds.
  Random random(6);
  for (const WeightFormat &format : allFormats()) {
    LogicalMatrix m = randomMatrix(random, {21, 300}, format);
    PagedMatrix stored(m, 13, 5 * kRegionAlignment, random);
    QuantizedBatch batch = randomBatch(random, 2, 300, m);
    FloatRows y(2, 21);
    referenceKernels().linearQuantized(stored.view(), batch.view(), 2, y.data(), y.stride(), 0, 2);
    for (uint32_t row = 0; row < 2; ++row)
      for (uint32_t output = 0; output < 21; ++output) {
        double exact = 0, magnitude = 0;
        for (uint32_t i = 0; i < 300; ++i) {
          double scale = m.scale(output, i), offset = m.offset(output, i);
          double x =
              double(batch.codes.at(row, i)) * batch.scales.at(row, i / format.activationGroup);
          double q = m.quants[output * m.layout.paddedCols + i];
          exact += (scale * q + offset) * x;
          magnitude += (std::fabs(scale * q) + std::fabs(offset)) * std::fabs(x);
        }
        double groups = 2.0 * m.layout.paddedCols / format.activationGroup;
        CHECK(std::fabs(y.at(row, output) - exact) <= 3 * groups * 0x1p-24 * magnitude);
      }
  }
}

TEST_CASE("an activation that is infinite or NaN makes every output of its row NaN") {
  Random random(7);
  LogicalMatrix m = randomMatrix(random, {16, 64}, {WeightKind::kInt8, 32, 32, false});
  PagedMatrix stored(m, 12, 0, random);
  for (float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    FloatRows x(2, 64);
    x.fill(random, -1, 1);
    x.at(1, 40) = bad;
    auto check = [&](const KernelTable &kernels) {
      QuantizedBatch batch(2, 64, 32);
      kernels.quantizeRows(x.data(), x.stride(), 2, 64, batch.view());
      FloatRows y(2, 16);
      kernels.linearQuantized(stored.view(), batch.view(), 2, y.data(), y.stride(), 0, 1);
      for (uint32_t i = 0; i < 16; ++i) {
        CHECK(std::isfinite(y.at(0, i)));
        CHECK(std::isnan(y.at(1, i)));
      }
    };
    check(referenceKernels());
    forEachVersion(check);
  }
}
