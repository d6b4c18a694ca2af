// Rotary position embedding.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

/// The distance of `a` from the exact number, in units of the last place of an f32 there.
static double unitsOff(float a, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(a - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST_CASE("ropeTable is within 1 unit in the last place up to position 2^24") {
  Random random(1);
  constexpr uint32_t kCount = 64;
  std::vector<float> frequencies, cosines(kCount), sines(kCount);
  for (uint32_t i = 0; i < kCount; ++i)
    frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / kCount));
  double worst = 0;
  for (uint32_t n = 0; n < 20000; ++n) {
    uint32_t position = n < 10000 ? n : random.below((1u << 24) + 1);
    referenceKernels().ropeTable(position, frequencies.data(), kCount, 1.0f, cosines.data(),
                                 sines.data());
    for (uint32_t i = 0; i < kCount; ++i) {
      double angle = static_cast<float>(position) * frequencies[i];
      worst = std::max(worst, unitsOff(cosines[i], std::cos(angle)));
      worst = std::max(worst, unitsOff(sines[i], std::sin(angle)));
    }
  }
  CHECK(worst <= 1);
}

TEST_CASE("ropeTable multiplies by its factor after rounding, and position 0 is no rotation") {
  const float frequencies[] = {1.0f, 0.1f, 0.01f};
  float cosines[3], sines[3], scaledCosines[3], scaledSines[3];
  referenceKernels().ropeTable(77, frequencies, 3, 1.0f, cosines, sines);
  referenceKernels().ropeTable(77, frequencies, 3, 1.19f, scaledCosines, scaledSines);
  for (int i = 0; i < 3; ++i) {
    CHECK(isSame(scaledCosines[i], cosines[i] * 1.19f));
    CHECK(isSame(scaledSines[i], sines[i] * 1.19f));
  }
  referenceKernels().ropeTable(0, frequencies, 3, 1.0f, cosines, sines);
  CHECK(cosines[2] == 1);
  CHECK(sines[2] == 0);
}

TEST_CASE("ropeTable of an infinite or NaN angle is NaN") {
  const float frequencies[] = {NAN, HUGE_VALF, 3e38f};
  float cosines[3], sines[3];
  referenceKernels().ropeTable(5, frequencies, 3, 1.0f, cosines, sines);
  for (int i = 0; i < 3; ++i) {
    CHECK(std::isnan(cosines[i]));
    CHECK(std::isnan(sines[i]));
  }
}

TEST_CASE("every version's table equals the reference's") {
  const float frequencies[] = {1.0f, 0.3f, 0.02f, 1e-5f};
  forEachVersion([&](const KernelTable &kernels) {
    for (uint32_t position : {0u, 1u, 4095u, 1u << 24}) {
      float expected[8], found[8];
      referenceKernels().ropeTable(position, frequencies, 4, 1.1f, expected, expected + 4);
      kernels.ropeTable(position, frequencies, 4, 1.1f, found, found + 4);
      CHECK(std::memcmp(expected, found, sizeof found) == 0);
    }
  });
}

TEST_CASE("rope rotates its pairs in the defined order and leaves the rest of each head") {
  Random random(2);
  for (bool isInterleaved : {false, true})
    for (uint32_t count : {1u, 7u, 16u, 32u, 40u}) {
      constexpr uint32_t kHeads = 3;
      uint32_t headDim = 2 * count + 5;
      FloatRows input(1, kHeads * headDim), cosines(1, count), sines(1, count);
      FloatRows expected(1, kHeads * headDim);
      input.fill(random, -2, 2);
      cosines.fill(random, -1, 1);
      sines.fill(random, -1, 1);
      std::memcpy(expected.data(), input.data(), input.cols * sizeof(float));
      for (uint32_t head = 0; head < kHeads; ++head)
        for (uint32_t i = 0; i < count; ++i) {
          uint32_t first = head * headDim + (isInterleaved ? 2 * i : i);
          uint32_t second = isInterleaved ? first + 1 : first + count;
          float a = input.at(0, first), b = input.at(0, second);
          expected.at(0, first) = a * cosines.at(0, i) - b * sines.at(0, i);
          expected.at(0, second) = b * cosines.at(0, i) + a * sines.at(0, i);
        }
      auto check = [&](const KernelTable &kernels) {
        FloatRows x(1, input.cols);
        std::memcpy(x.data(), input.data(), input.cols * sizeof(float));
        kernels.rope(x.data(), kHeads, headDim, cosines.data(), sines.data(), count, isInterleaved);
        CHECK(x.isSameAs(expected));
        CHECK(x.isGuardIntact());
      };
      check(referenceKernels());
      forEachVersion(check);
    }
}
