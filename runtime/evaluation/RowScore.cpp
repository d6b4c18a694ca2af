#include "runtime/evaluation/RowScore.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace moert {

// ln 2 in two parts: k * kLn2High is exact for every |k| < 2^11 (its last 21 bits are zero).
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.44269504088896340736;

/// For -708 <= x <= 709. k = x / ln 2 rounded to an integer by adding 1.5 * 2^52, whose last bits
/// then are k; e^r for |r| <= ln(2) / 2 by Taylor's series, whose rest is below 2^-57.
static inline double expInRange(double x) {
  constexpr double kRounder = 0x1.8p52;
  double shifted = x * kLog2E + kRounder;
  double k = shifted - kRounder;
  double r = (x - k * kLn2High) - k * kLn2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r;
  uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  double scale = std::bit_cast<double>(exponent);
  return scale + scale * p;
}

double exp64(double x) {
  if (x != x)
    return x;
  if (x < -708)
    return 0;
  if (x > 709)
    return std::numeric_limits<double>::infinity();
  return expInRange(x);
}

/// x = 2^e * m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m - 1) / (m + 1)) as a series.
double log64(double x) {
  assert(x >= std::numeric_limits<double>::min() && x <= std::numeric_limits<double>::max());
  auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  double s = (m - 1) / (m + 1);
  double z = s * s;
  double p = 0;
  for (int i = 23; i >= 3; i -= 2)
    p = (p + 1.0 / i) * z;
  double e = exponent;
  return e * kLn2High + (2 * s + (2 * s * p + e * kLn2Low));
}

static constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

static double treeSum(const Lanes &lanes) {
  double a = lanes[0] + lanes[4], b = lanes[1] + lanes[5];
  double c = lanes[2] + lanes[6], d = lanes[3] + lanes[7];
  return (a + c) + (b + d);
}

/// The lowest index among the largest; nothing where a logit is not finite.
static Result<size_t> largestOf(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(std::fabs(logits[i]) <= std::numeric_limits<float>::max()))
      return invalidInput("the logit of token ", i, " is ", logits[i],
                          ", expected a finite number");
    if (logits[i] > logits[best])
      best = i;
  }
  return best;
}

/// x <= 0. Below -700 the term is negligible: the largest one is 1.
static inline double weightOf(double x) {
  return expInRange(x < -700 ? -700 : x);
}

/// The sum of e^(x - largest), and of its products with x - other where there is another row.
struct RowSums {
  double weights = 0;
  double weightedDifferences = 0;
};

/// Weights go through a small buffer: a loop that does nothing else becomes vector code.
static RowSums sumsOf(std::span<const float> row, double largest, std::span<const float> other) {
  constexpr size_t kBlock = 256; // A multiple of kLanes.
  double block[kBlock];
  Lanes weights{}, differences{};
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, row.size() - begin);
    const float *x = row.data() + begin;
    for (size_t i = 0; i < count; ++i)
      block[i] = weightOf(double(x[i]) - largest);
    for (size_t i = 0; i < count; ++i)
      weights[i % kLanes] += block[i];
    if (other.empty())
      continue;
    const float *y = other.data() + begin;
    for (size_t i = 0; i < count; ++i)
      differences[i % kLanes] += block[i] * (double(x[i]) - double(y[i]));
  }
  return {treeSum(weights), treeSum(differences)};
}

Result<RowScore> scoreRow(std::span<const float> logits, std::span<const float> reference,
                          int32_t target) {
  assert(target >= 0 && static_cast<size_t>(target) < logits.size());
  assert(reference.empty() || reference.size() == logits.size());
  const auto index = static_cast<size_t>(target);
  MOERT_ASSIGN_OR_RETURN(size_t best, largestOf(logits));
  RowScore score;
  const double largest = double(logits[best]);
  const double logSum = largest + log64(sumsOf(logits, largest, {}).weights);
  score.lossNats = logSum - double(logits[index]);
  if (reference.empty())
    return score;

  auto referenceBest = largestOf(reference);
  if (!referenceBest.isOk())
    return referenceBest.status().withContext("reference");
  const double referenceLargest = double(reference[*referenceBest]);
  RowSums sums = sumsOf(reference, referenceLargest, logits);
  const double referenceLogSum = referenceLargest + log64(sums.weights);
  score.referenceLossNats = referenceLogSum - double(reference[index]);
  // sum of p (log p - log q) = the mean of (reference - logits) under p, less the difference of
  // the normalizers. Rounding can bring a divergence of nothing below 0.
  double kl = sums.weightedDifferences / sums.weights - (referenceLogSum - logSum);
  score.klNats = kl > 0 ? kl : 0;
  score.agrees = best == *referenceBest;
  return score;
}

} // namespace moert
