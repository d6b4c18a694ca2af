// Quantizing activations to int8, themselves or their Hadamard transform.
#include "runtime/exec/Hadamard.h"
#include "tests/unit/kernels/TestMatrices.h"

#include <numeric>

using namespace moert;
using namespace moert::test;

namespace {

bool areSame(const QuantizedBatch &a, const QuantizedBatch &b) {
  return a.codes.isSameAs(b.codes) && a.scales.isSameAs(b.scales) && a.sums.isSameAs(b.sums);
}

bool areGuardsIntact(const QuantizedBatch &batch) {
  return batch.codes.isGuardIntact() && batch.scales.isGuardIntact() && batch.sums.isGuardIntact();
}

/// The single group of 16 that starts with the given numbers.
QuantizedBatch quantizedGroup(const KernelTable &kernels, const std::vector<float> &numbers) {
  FloatRows x(1, 16);
  for (uint32_t i = 0; i < 16; ++i)
    x.at(0, i) = i < numbers.size() ? numbers[i] : 0.0f;
  QuantizedBatch batch(1, 16, 16);
  kernels.quantizeRows(x.data(), x.stride(), 1, 16, batch.view());
  return batch;
}

void forEveryTable(const std::function<void(const KernelTable &)> &check) {
  check(referenceKernels());
  forEachVersion(check);
}

} // namespace

TEST_CASE("quantizeRows gives the reference's bytes for every group, length and magnitude") {
  Random random(1);
  for (uint32_t group : {16u, 32u, 64u})
    for (uint32_t cols : {1u, 16u, 63u, 64u, 65u, 200u, 513u})
      for (float magnitude : {0.0f, 0x1p-149f, 0x1p-145f, 0x1p-126f, 1.0f, 1e30f, 3.4e38f}) {
        FloatRows x(4, cols);
        x.fill(random, -magnitude, magnitude);
        auto padded = static_cast<uint32_t>(roundUp(cols, group));
        QuantizedBatch expected(4, padded, group);
        referenceKernels().quantizeRows(x.data(), x.stride(), 4, cols, expected.view());
        CHECK(areGuardsIntact(expected));
        forEachVersion([&](const KernelTable &kernels) {
          QuantizedBatch batch(4, padded, group);
          kernels.quantizeRows(x.data(), x.stride(), 4, cols, batch.view());
          CHECK(areSame(batch, expected));
          CHECK(areGuardsIntact(batch));
        });
      }
}

TEST_CASE("codes are rounded to nearest even, and the largest magnitude becomes 127") {
  forEveryTable([](const KernelTable &kernels) {
    QuantizedBatch batch = quantizedGroup(kernels, {-254, 1, 3, 5, -1, -3, 2.2f});
    CHECK(batch.scales.at(0, 0) == 2);
    // 0.5, 1.5, 2.5, -0.5, -1.5 and 1.1 of the scale.
    constexpr int kExpected[] = {-127, 0, 2, 2, 0, -2, 1, 0};
    for (uint32_t i = 0; i < 8; ++i)
      CHECK(batch.codes.at(0, i) == kExpected[i]);
    CHECK(batch.sums.at(0, 0) == -124);
  });
}

TEST_CASE("numbers after the last real input are not read, and their codes are 0") {
  forEveryTable([](const KernelTable &kernels) {
    FloatRows x(1, 64);
    for (uint32_t i = 0; i < 64; ++i)
      x.at(0, i) = i < 19 ? 1.0f : NAN;
    QuantizedBatch batch(1, 64, 32);
    kernels.quantizeRows(x.data(), x.stride(), 1, 19, batch.view());
    for (uint32_t i = 0; i < 64; ++i)
      CHECK(batch.codes.at(0, i) == (i < 19 ? 127 : 0));
    CHECK(batch.sums.at(0, 0) == 19 * 127);
    CHECK(batch.scales.at(0, 1) == 0);
    CHECK(batch.sums.at(0, 1) == 0);
  });
}

TEST_CASE("a group of zeros has scale 0 and codes 0") {
  forEveryTable([](const KernelTable &kernels) {
    QuantizedBatch batch = quantizedGroup(kernels, {0.0f, -0.0f});
    CHECK(isSame(batch.scales.at(0, 0), 0.0f));
    CHECK(batch.sums.at(0, 0) == 0);
    CHECK(batch.codes.at(0, 1) == 0);
  });
}

TEST_CASE("a subnormal scale never puts a code out of range") {
  forEveryTable([](const KernelTable &kernels) {
    // 190 / 127 = 1.5 rounds to 1 of the smallest subnormals, so the quotient is 190.
    QuantizedBatch batch = quantizedGroup(kernels, {190 * 0x1p-149f, -190 * 0x1p-149f});
    CHECK(batch.scales.at(0, 0) == 0x1p-149f);
    CHECK(batch.codes.at(0, 0) == 127);
    CHECK(batch.codes.at(0, 1) == -127);
  });
}

TEST_CASE("a group with an infinity or a NaN has it in its scale and has codes 0") {
  forEveryTable([](const KernelTable &kernels) {
    for (float infinity : {HUGE_VALF, -HUGE_VALF}) {
      QuantizedBatch batch = quantizedGroup(kernels, {1, infinity, 2});
      CHECK(batch.scales.at(0, 0) == HUGE_VALF);
      CHECK(batch.sums.at(0, 0) == 0);
      CHECK(batch.codes.at(0, 0) == 0);
    }
    QuantizedBatch batch = quantizedGroup(kernels, {1, -NAN, HUGE_VALF});
    CHECK(std::bit_cast<uint32_t>(batch.scales.at(0, 0)) == 0x7fc00000);
    CHECK(batch.sums.at(0, 0) == 0);
    CHECK(batch.codes.at(0, 0) == 0);
  });
}

// Row i of Sylvester's matrix times values, by its definition.
static double hadamardElement(std::span<const float> values, uint32_t i) {
  double sum = 0;
  for (uint32_t j = 0; j < values.size(); ++j)
    sum += std::popcount(i & j) % 2 == 0 ? values[j] : -values[j];
  return sum;
}

TEST_CASE("hadamard multiplies with Sylvester's matrix") {
  for (uint32_t block = 1; block <= kMaxHadamardBlock; block *= 2) {
    std::vector<float> values(block); // Small integers: all sums are exact.
    std::iota(values.begin(), values.end(), -5.0f);
    std::vector<float> transformed = values;
    hadamard(std::span(transformed), 0.5f);
    for (uint32_t i = 0; i < block; ++i)
      CHECK(transformed[i] == 0.5 * hadamardElement(values, i));
    // Both sides together are the identity.
    hadamard(std::span(transformed), 2 * hadamardInputFactor(block) * hadamardWeightFactor(block));
    CHECK(transformed == values);
  }
}

TEST_CASE("blocks are the largest powers of two that divide a row") {
  CHECK(hadamardBlockOf(2048) == 64);
  CHECK(hadamardBlockOf(2880) == 64);
  CHECK(hadamardBlockOf(96) == 32);
  CHECK(hadamardBlockOf(40) == 8);
  CHECK(hadamardBlockOf(7) == 1);
}

TEST_CASE("transformed rows have the codes of rows that were transformed before") {
  Random random(2);
  for (uint32_t group : {16u, 32u, 64u})
    for (uint32_t cols : {64u, 128u, 96u, 176u, 40u, 100u, 2u, 7u})
      for (float magnitude : {0.0f, 0x1p-149f, 1.0f, 1e30f, 3.4e38f}) {
        CAPTURE(cols);
        FloatRows x(3, cols), transformed(3, cols);
        x.fill(random, -magnitude, magnitude);
        for (uint32_t row = 0; row < 3; ++row) {
          std::copy_n(&x.at(row, 0), cols, &transformed.at(row, 0));
          hadamardRow(std::span(&transformed.at(row, 0), cols),
                      hadamardInputFactor(hadamardBlockOf(cols)));
        }
        auto padded = static_cast<uint32_t>(roundUp(cols, group));
        QuantizedBatch expected(3, padded, group);
        referenceKernels().quantizeRows(transformed.data(), transformed.stride(), 3, cols,
                                        expected.view());
        forEveryTable([&](const KernelTable &kernels) {
          CAPTURE(kernels.name);
          QuantizedBatch batch(3, padded, group);
          batch.hadamardBlock = hadamardBlockOf(cols);
          kernels.quantizeRows(x.data(), x.stride(), 3, cols, batch.view());
          CHECK(areSame(batch, expected));
          CHECK(areGuardsIntact(batch));
        });
      }
}

TEST_CASE("an infinity or a NaN reaches its own block alone") {
  forEveryTable([](const KernelTable &kernels) {
    for (float outlier : {HUGE_VALF, NAN}) {
      FloatRows x(1, 80); // 5 blocks of 16.
      for (uint32_t i = 0; i < 80; ++i)
        x.at(0, i) = i == 37 ? outlier : 1.0f;
      QuantizedBatch batch(1, 80, 16);
      batch.hadamardBlock = hadamardBlockOf(80);
      kernels.quantizeRows(x.data(), x.stride(), 1, 80, batch.view());
      for (uint32_t block = 0; block < 5; ++block) {
        CHECK(std::isfinite(batch.scales.at(0, block)) == (block != 2));
        CHECK(batch.sums.at(0, block) == (block == 2 ? 0 : 127)); // A block of ones has one sum.
      }
    }
  });
}
