// Tolerance: half a unit in the last place is 2^-53 = 1.11e-16 relative, the least possible bound;
// 1.2e-16 leaves room for the few results that are rounded the other way. The reference is libm's
// long double, which is precise enough on x86-64 (64-bit fraction) and on AArch64 (113-bit).
#include "runtime/base/DeterministicMath.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace {

constexpr long double kTolerance = 1.2e-16L;

long double relativeError(double found, long double expected) {
  return std::fabs((static_cast<long double>(found) - expected) / expected);
}

/// Numbers in [0, 1), the same on every machine.
class Sequence {
public:
  double next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }

private:
  uint64_t state = 1;
};

} // namespace

TEST_CASE("log is within 1.2e-16 of libm's, also around 1") {
  Sequence numbers;
  long double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double wide = std::exp(numbers.next() * 1400 - 700);
    const double narrow = 0.5 + 1.5 * numbers.next();
    for (const double x : {wide, narrow})
      worst = std::max(
          worst, relativeError(moert::deterministicLog(x), std::log(static_cast<long double>(x))));
  }
  CHECK(worst < kTolerance);
  CHECK(moert::deterministicLog(1) == 0);
  CHECK(relativeError(moert::deterministicLog(0x1p-1074), std::log(0x1p-1074L)) < kTolerance);
}

TEST_CASE("exp is within 1.2e-16 of libm's") {
  Sequence numbers;
  long double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = numbers.next() * 1410 - 705;
    worst = std::max(
        worst, relativeError(moert::deterministicExp(x), std::exp(static_cast<long double>(x))));
  }
  CHECK(worst < kTolerance);
  CHECK(moert::deterministicExp(0) == 1);
}

TEST_CASE("a weight is within 2 units in the last place of e^x, and of no effect below e^-700") {
  for (double x = -700; x <= 0; x += 0.037)
    CHECK(moert::deterministicWeight(x) == doctest::Approx(std::exp(x)).epsilon(4.5e-16));
  CHECK(moert::deterministicWeight(0) == 1);
  CHECK(moert::deterministicWeight(-1000) < 1e-300);
}

TEST_CASE("exp overflows to infinity and underflows to 0, and keeps what is no number") {
  CHECK(std::isnan(moert::deterministicExp(std::nan(""))));
  CHECK(moert::deterministicExp(710) == std::numeric_limits<double>::infinity());
  CHECK(moert::deterministicExp(-710) == 0);
  CHECK(relativeError(moert::deterministicExp(709.7), std::exp(static_cast<long double>(709.7))) <
        kTolerance);
}

TEST_CASE("pow is within 1.2e-16 of libm's for every base of a rotary embedding") {
  Sequence numbers;
  long double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double base = std::exp(numbers.next() * 20);
    const double exponent = numbers.next() * 4 - 2;
    worst = std::max(worst, relativeError(moert::deterministicPow(base, exponent),
                                          std::pow(static_cast<long double>(base),
                                                   static_cast<long double>(exponent))));
  }
  CHECK(worst < kTolerance);
  CHECK(moert::deterministicPow(1e6, 0) == 1);
}

TEST_CASE("results have the same bits on every machine") {
  // Computed on x86-64; a machine that differs would write different artifacts.
  CHECK(std::bit_cast<uint64_t>(moert::deterministicLog(10)) == 0x40026bb1bbb55516u);
  CHECK(std::bit_cast<uint64_t>(moert::deterministicExp(1)) == 0x4005bf0a8b145769u);
  CHECK(std::bit_cast<uint64_t>(moert::deterministicPow(1e6, -0.375)) == 0x3f77089380241edfu);
}

TEST_CASE("exp of floats is e^x rounded once, but for few, and never more than one float away") {
  Sequence numbers;
  int others = 0;
  const int count = 200'000;
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<float>(numbers.next() * 176 - 87.3);
    const auto expected = static_cast<float>(std::exp(static_cast<long double>(x)));
    const float found = moert::deterministicExp32(x);
    others += found != expected;
    REQUIRE(std::fabs(found - expected) <=
            std::nextafter(expected, std::numeric_limits<float>::infinity()) - expected);
  }
  CHECK(others < count / 10'000);
  CHECK(moert::deterministicExp32(0) == 1);
  CHECK(moert::deterministicExp32(-0.0f) == 1);
  CHECK(moert::deterministicExp32(-88) == 0);
  CHECK(moert::deterministicExp32(-std::numeric_limits<float>::infinity()) == 0);
  CHECK(std::isinf(moert::deterministicExp32(88.8f)));
  CHECK(std::isfinite(moert::deterministicExp32(88.72f)));
  CHECK(std::isnan(moert::deterministicExp32(std::numeric_limits<float>::quiet_NaN())));
}
