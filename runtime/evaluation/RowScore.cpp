#include "runtime/evaluation/RowScore.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

namespace moert {

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
      block[i] = deterministicWeight(double(x[i]) - largest);
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
  const double logSum = largest + deterministicLog(sumsOf(logits, largest, {}).weights);
  score.lossNats = logSum - double(logits[index]);
  if (reference.empty())
    return score;

  auto referenceBest = largestOf(reference);
  if (!referenceBest.isOk())
    return referenceBest.status().withContext("reference");
  const double referenceLargest = double(reference[*referenceBest]);
  RowSums sums = sumsOf(reference, referenceLargest, logits);
  const double referenceLogSum = referenceLargest + deterministicLog(sums.weights);
  score.referenceLossNats = referenceLogSum - double(reference[index]);
  // sum of p (log p - log q) = the mean of (reference - logits) under p, less the difference of
  // the normalizers. Rounding can bring a divergence of nothing below 0.
  double kl = sums.weightedDifferences / sums.weights - (referenceLogSum - logSum);
  score.klNats = kl > 0 ? kl : 0;
  score.agrees = best == *referenceBest;
  return score;
}

} // namespace moert
