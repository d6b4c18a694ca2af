#include "runtime/generation/Sampler.h"

#include "runtime/kernels/Kernels.h"

#include <algorithm>
#include <cmath>

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
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return invalidInput("temperature ", options.temperature,
                        ", expected a finite number of at least 0 (0 is greedy)");
  if (!(options.topP > 0 && options.topP <= 1))
    return invalidInput("top-p ", options.topP, ", expected a number above 0 and at most 1");
  if (vocabularySize == 0 || vocabularySize > static_cast<uint32_t>(INT32_MAX))
    return invalidInput("a vocabulary of ", vocabularySize, " tokens, expected 1 to ", INT32_MAX);
  return Sampler(options, vocabularySize);
}

bool Sampler::cuts(const SamplingOptions &options, uint32_t vocabularySize) {
  bool cutsByRank = options.topK > 0 && options.topK < vocabularySize;
  return options.temperature > 0 && (cutsByRank || options.topP < 1);
}

uint64_t Sampler::memoryBytes(const SamplingOptions &options, uint32_t vocabularySize) {
  return cuts(options, vocabularySize) ? uint64_t(vocabularySize) * sizeof(Candidate) : 0;
}

Sampler::Sampler(const SamplingOptions &samplingOptions, uint32_t vocabularySize)
    : options(samplingOptions), random(samplingOptions.seed),
      candidates(cuts(samplingOptions, vocabularySize) ? vocabularySize : 0) {}

Result<int32_t> Sampler::sample(std::span<const float> logits) {
  assert(candidates.empty() || candidates.size() == logits.size());
  Result<int32_t> best = greedyToken(logits);
  if (!best.isOk() || options.temperature == 0)
    return best;
  float largest = logits[static_cast<size_t>(*best)];
  return candidates.empty() ? drawFromAll(logits, largest) : drawFromBest(logits, largest);
}

float Sampler::weightOf(float logit, float largest) const {
  return expf32((logit - largest) / options.temperature);
}

int32_t Sampler::drawFromAll(std::span<const float> logits, float largest) {
  double sum = 0;
  for (float logit : logits)
    sum += double(weightOf(logit, largest));
  const double target = random.nextUnit() * sum;

  // If rounding brings the target up to the sum, the last token with a weight is chosen.
  double running = 0;
  size_t chosen = 0;
  for (size_t i = 0; i < logits.size() && running <= target; ++i) {
    double weight = double(weightOf(logits[i], largest));
    running += weight;
    if (weight > 0)
      chosen = i;
  }
  return static_cast<int32_t>(chosen);
}

bool Sampler::isBefore(const Candidate &a, const Candidate &b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/// A heap yields the best candidates one by one: a cut after a few of 150,000 tokens needs no full
/// sort. The order is total, so the result does not depend on how the heap is built.
int32_t Sampler::drawFromBest(std::span<const float> logits, float largest) {
  for (size_t i = 0; i < logits.size(); ++i)
    candidates[i] = {logits[i], static_cast<int32_t>(i)};
  auto isWorse = [](const Candidate &a, const Candidate &b) { return isBefore(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), isWorse);

  // Candidates move from the heap to the end of the vector; the best one is last.
  const size_t count = candidates.size();
  size_t popped = 0;
  auto popUpTo = [&](size_t ranks) {
    for (; popped < ranks; ++popped)
      std::pop_heap(candidates.begin(), candidates.end() - static_cast<ptrdiff_t>(popped), isWorse);
  };
  auto weightAt = [&](size_t rank) {
    return double(weightOf(candidates[count - 1 - rank].logit, largest));
  };

  size_t kept = count;
  double sum = 0;
  if (options.topK > 0 && options.topK < count) {
    kept = options.topK;
    popUpTo(kept);
    for (size_t rank = 0; rank < kept; ++rank)
      sum += weightAt(rank);
  } else {
    for (float logit : logits)
      sum += double(weightOf(logit, largest));
  }
  if (options.topP < 1) {
    const double mass = double(options.topP) * sum;
    const size_t limit = kept;
    kept = 0;
    sum = 0;
    do {
      popUpTo(kept + 1);
      sum += weightAt(kept++);
    } while (kept < limit && sum < mass);
  }

  const double target = random.nextUnit() * sum;
  double running = 0;
  size_t chosen = 0;
  for (size_t rank = 0; rank < kept && running <= target; ++rank) {
    double weight = weightAt(rank);
    running += weight;
    if (weight > 0)
      chosen = rank;
  }
  return candidates[count - 1 - chosen].token;
}

} // namespace moert
