// Rotary position embedding: the table of one position, and the rotation.
#include "runtime/exec/reference/Reference.h"

#include <cmath>
#include <limits>

namespace moert::reference {

namespace {
struct SineCosine {
  double sine, cosine;
};
} // namespace

// Both on [-pi/4, pi/4], with the polynomials of fdlibm (k_sin.c, k_cos.c): error below 2^-57.
static SineCosine onFirstOctants(double r) {
  constexpr double kSine[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                              2.75573137070700676789e-06, -1.98412698298579493134e-04,
                              8.33333333332248946124e-03, -1.66666666666666324348e-01};
  constexpr double kCosine[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                -1.38888888888741095749e-03, 4.16666666666666019037e-02};
  double square = r * r;
  double sine = kSine[0], cosine = kCosine[0];
  for (int i = 1; i < 6; ++i) {
    sine = sine * square + kSine[i];
    cosine = cosine * square + kCosine[i];
  }
  return {r + r * square * sine, 1.0 - 0.5 * square + square * square * cosine};
}

// The angle is an f32 below 2^33. pi/2 is split in two: subtracting the first part is exact to the
// last bit, and the second part corrects the error of the first.
static SineCosine sineCosine(double angle) {
  constexpr double kTwoOverPi = 6.36619772367581382433e-01;
  constexpr double kHalfPiHigh = 1.57079632679489655800e+00;
  constexpr double kHalfPiLow = 6.12323399573676603587e-17;
  double quadrants = std::nearbyint(angle * kTwoOverPi);
  double r = std::fma(quadrants, -kHalfPiHigh, angle);
  r = std::fma(quadrants, -kHalfPiLow, r);
  SineCosine base = onFirstOctants(r);
  switch (static_cast<int64_t>(quadrants) & 3) {
  case 0:
    return base;
  case 1:
    return {base.cosine, -base.sine};
  case 2:
    return {-base.sine, -base.cosine};
  default:
    return {-base.cosine, base.sine};
  }
}

void ropeTable(uint32_t position, const float *inverseFrequencies, uint32_t count, float factor,
               float *cosines, float *sines) {
  for (uint32_t i = 0; i < count; ++i) {
    float angle = static_cast<float>(position) * inverseFrequencies[i];
    SineCosine exact = {std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::quiet_NaN()};
    if (std::fabs(angle) < 0x1p33f)
      exact = sineCosine(angle);
    cosines[i] = static_cast<float>(exact.cosine) * factor;
    sines[i] = static_cast<float>(exact.sine) * factor;
  }
}

void rope(float *x, uint32_t heads, uint32_t headDim, const float *cosines, const float *sines,
          uint32_t count, bool interleaved) {
  for (uint32_t head = 0; head < heads; ++head)
    for (uint32_t i = 0; i < count; ++i) {
      float *first = x + uint64_t(head) * headDim + (interleaved ? 2 * i : i);
      float *second = interleaved ? first + 1 : first + count;
      float a = *first, b = *second;
      *first = a * cosines[i] - b * sines[i];
      *second = b * cosines[i] + a * sines[i];
    }
}

} // namespace moert::reference
