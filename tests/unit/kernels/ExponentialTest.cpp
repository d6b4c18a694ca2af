// e^x: within 2 units in the last place of float64's, with the same bits in lanes and in scalars.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

static float floatOf(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// A prime step visits every exponent about 14,000 times and every low bit of the mantissa.
static constexpr uint32_t kStep = 601;

TEST_CASE("exponential is within 2 units in the last place over every exponent") {
  double worst = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += kStep) {
    float x = floatOf(static_cast<uint32_t>(bits));
    if (std::isnan(x) || x > 88.72283f || x < -87.33654f)
      continue;
    double exact = std::exp(double(x));
    int exponent;
    std::frexp(exact, &exponent);
    double unit = std::ldexp(1.0, exponent - 24);
    worst = std::max(worst, std::fabs(moert::exponential(x) - exact) / unit);
  }
  CHECK(worst <= 2);
}

TEST_CASE("exponential ends in 0 and infinity, and NaN stays NaN") {
  CHECK(moert::exponential(0.0f) == 1);
  CHECK(moert::exponential(-0.0f) == 1);
  CHECK(moert::exponential(0x1p-149f) == 1);
  CHECK(moert::exponential(HUGE_VALF) == HUGE_VALF);
  CHECK(isSame(moert::exponential(-HUGE_VALF), 0.0f));
  CHECK(std::isnan(moert::exponential(NAN)));
  CHECK(std::isfinite(moert::exponential(88.72283f)));
  CHECK(moert::exponential(std::nextafter(88.72283f, 100.0f)) == HUGE_VALF);
  CHECK(moert::exponential(-87.33654f) >= 0x1p-126f);
  CHECK(isSame(moert::exponential(std::nextafter(-87.33654f, -100.0f)), 0.0f));
}

TEST_CASE("every version's lanes have the exact bits of exponential()") {
  // Observed through two kernels. silu divides by 1 + e^-gate, which shows all bits of a power
  // above 1; softmax of a row that starts with 0 divides the powers of its negative numbers by one
  // sum.
  constexpr uint32_t kBatch = 4096;
  FloatRows x(1, kBatch), ones(1, kBatch), expected(1, kBatch), y(1, kBatch);
  for (uint32_t i = 0; i < kBatch; ++i)
    ones.at(0, i) = 1;
  forEachVersion([&](const KernelTable &kernels) {
    uint64_t bits = 0, differences = 0;
    while (bits <= UINT32_MAX) {
      for (uint32_t i = 0; i < kBatch; ++i, bits += kStep)
        x.at(0, i) = floatOf(static_cast<uint32_t>(bits));
      referenceKernels().siluMultiply(x.data(), ones.data(), 1, kBatch, x.stride(),
                                      expected.data());
      kernels.siluMultiply(x.data(), ones.data(), 1, kBatch, x.stride(), y.data());
      differences += !y.isSameAs(expected);

      for (uint32_t i = 0; i < kBatch; ++i)
        x.at(0, i) = i == 0 || std::isnan(x.at(0, i)) ? 0.0f : -std::fabs(x.at(0, i));
      referenceKernels().softmax(x.data(), kBatch, expected.data());
      kernels.softmax(x.data(), kBatch, y.data());
      differences += !y.isSameAs(expected);
    }
    CHECK(differences == 0);
  });
}
