#include "runtime/generation/Sampler.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/base/FloatMode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace moert {

Result<int32_t> greedyToken(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    // One comparison refuses both NaN and +infinity.
    if (!(logits[i] < INFINITY))
      return invalidInput("the logit of token ", i, " is ", logits[i],
                          ", expected a finite number");
    if (logits[i] > logits[best])
      best = i;
  }
  if (logits.empty() || logits[best] == -INFINITY)
    return invalidInput("no token has a logit above -infinity");
  return static_cast<int32_t>(best);
}

Result<Sampler> Sampler::create(const SamplingOptions &options, uint32_t vocabularySize) {
  MOERT_RETURN_IF_ERROR(check(options, vocabularySize));
  return Sampler(options, vocabularySize);
}

bool Sampler::cuts(const SamplingOptions &options, uint32_t vocabularySize) {
  bool cutsByRank = options.topK > 0 && options.topK < vocabularySize;
  return options.temperature > 0 && (cutsByRank || options.topP < 1);
}

uint64_t Sampler::memoryBytes(const SamplingOptions &options, uint32_t vocabularySize) {
  return LogitAdjustments::memoryBytes(options, vocabularySize) +
         (cuts(options, vocabularySize) ? uint64_t(vocabularySize) * sizeof(Candidate) : 0);
}

Sampler::Sampler(const SamplingOptions &samplingOptions, uint32_t vocabularySize)
    : options(samplingOptions), adjustments(samplingOptions, vocabularySize),
      random(samplingOptions.seed),
      candidates(cuts(samplingOptions, vocabularySize) ? vocabularySize : 0) {}

Result<int32_t> Sampler::sample(std::span<const float> rawLogits) {
  const DefaultFloatMode mode;
  assert(candidates.empty() || candidates.size() == rawLogits.size());
  const std::span<const float> logits = adjustments.apply(rawLogits);
  Result<int32_t> best = greedyToken(logits);
  if (!best.isOk() || options.temperature == 0)
    return best;
  float largest = logits[static_cast<size_t>(*best)];
  return candidates.empty() ? drawFromAll(logits, largest) : drawFromBest(logits, largest);
}

float Sampler::weightOf(float logit, float largest) const {
  return deterministicExp32((logit - largest) / options.temperature);
}

// Weights go through a small buffer: a loop that does nothing else becomes vector code.
size_t Sampler::addWeights(std::span<const float> logits, float largest, double target, size_t none,
                           double &sum) const {
  constexpr size_t kBlock = 256;
  std::array<float, kBlock> weights;
  size_t last = none;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - begin);
    for (size_t i = 0; i < count; ++i)
      weights[i] = weightOf(logits[begin + i], largest);
    for (size_t i = 0; i < count && sum <= target; ++i) {
      if (weights[i] < options.minP || weights[i] == 0)
        continue;
      sum += double(weights[i]);
      last = begin + i;
    }
  }
  return last;
}

int32_t Sampler::drawFromAll(std::span<const float> logits, float largest) {
  // The running sum before each part of the vocabulary, so that the part of the drawn token is
  // known and only its weights are computed again.
  constexpr size_t kParts = 64;
  const size_t partSize = (logits.size() + kParts - 1) / kParts;
  const auto partOf = [&](size_t part) {
    const size_t begin = std::min(part * partSize, logits.size());
    return logits.subspan(begin, std::min(partSize, logits.size() - begin));
  };
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::array<double, kParts> before;
  double sum = 0;
  size_t last = 0; // The last part with a weight.
  for (size_t part = 0; part < kParts; ++part) {
    before[part] = sum;
    addWeights(partOf(part), largest, kAll, 0, sum);
    if (sum > before[part])
      last = part;
  }
  const double target = random.nextUnit() * sum;

  // If rounding brings the target up to the sum, the last token with a weight is chosen.
  size_t part = last;
  while (before[part] > target)
    --part;
  double running = before[part];
  return static_cast<int32_t>(part * partSize +
                              addWeights(partOf(part), largest, target, 0, running));
}

bool Sampler::isBefore(const Candidate &a, const Candidate &b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

double Sampler::weightAtRank(size_t rank, float largest) const {
  return double(weightOf(candidates[candidates.size() - 1 - rank].logit, largest));
}

/// A heap yields the best candidates one by one: a cut after a few of 150,000 tokens needs no full
/// sort. The order is total, so the result does not depend on how the heap is built.
Sampler::Kept Sampler::keepBest(std::span<const float> logits, float largest) {
  for (size_t i = 0; i < logits.size(); ++i)
    candidates[i] = {logits[i], static_cast<int32_t>(i)};
  auto isWorse = [](const Candidate &a, const Candidate &b) { return isBefore(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), isWorse);

  // Candidates move from the heap to the end of the vector; the best one is last.
  size_t popped = 0;
  auto popUpTo = [&](size_t ranks) {
    for (; popped < ranks; ++popped)
      std::pop_heap(candidates.begin(), candidates.end() - static_cast<ptrdiff_t>(popped), isWorse);
  };

  Kept kept = {candidates.size(), 0};
  if (options.topK > 0 && options.topK < kept.count) {
    kept.count = options.topK;
    popUpTo(kept.count);
    kept.weight = weightOfBest(kept.count, largest);
  } else {
    for (float logit : logits)
      kept.weight += double(weightOf(logit, largest));
  }
  if (options.topP < 1) {
    const double mass = double(options.topP) * kept.weight;
    const size_t limit = kept.count;
    kept = {0, 0};
    do {
      popUpTo(kept.count + 1);
      kept.weight += weightAtRank(kept.count++, largest);
    } while (kept.count < limit && kept.weight < mass);
  }
  return kept;
}

double Sampler::weightOfBest(size_t count, float largest) const {
  double sum = 0;
  for (size_t rank = 0; rank < count; ++rank)
    sum += weightAtRank(rank, largest);
  return sum;
}

int32_t Sampler::drawFromBest(std::span<const float> logits, float largest) {
  Kept kept = keepBest(logits, largest);
  if (weightAtRank(kept.count - 1, largest) < double(options.minP)) {
    while (weightAtRank(kept.count - 1, largest) < double(options.minP)) // The best one has 1.
      --kept.count;
    kept.weight = weightOfBest(kept.count, largest);
  }

  const double target = random.nextUnit() * kept.weight;
  double running = 0;
  size_t chosen = 0;
  for (size_t rank = 0; rank < kept.count && running <= target; ++rank) {
    double weight = weightAtRank(rank, largest);
    running += weight;
    if (weight > 0)
      chosen = rank;
  }
  return candidates[candidates.size() - 1 - chosen].token;
}

} // namespace moert
