#include "runtime/text/sampling/Sampler.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/base/FloatMode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace moert {

/// More than sums of a vocabulary's weights differ by, in relation to them.
constexpr double kRounding = 1e-9;

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
    : options(samplingOptions), vocabulary(vocabularySize),
      adjustments(samplingOptions, vocabularySize), random(samplingOptions.seed),
      candidates(cuts(samplingOptions, vocabularySize) ? vocabularySize : 0) {}

Result<int32_t> Sampler::sample(std::span<const float> rawLogits) {
  const DefaultFloatMode mode;
  assert(rawLogits.size() == vocabulary);
  return draw(adjustments.apply(rawLogits));
}

Result<int32_t> Sampler::sampleFrom(std::span<const int32_t> tokens,
                                    std::span<const float> rawLogits, std::vector<float> &scratch) {
  const DefaultFloatMode mode;
  const std::span<const float> logits = adjustments.apply(rawLogits);
  scratch.clear();
  for (int32_t token : tokens)
    scratch.push_back(logits[static_cast<size_t>(token)]);
  MOERT_ASSIGN_OR_RETURN(const int32_t index, draw(scratch));
  return tokens[static_cast<size_t>(index)];
}

Result<int32_t> Sampler::draw(std::span<const float> logits) {
  choice.reset(); // Its candidates are overwritten.
  Result<int32_t> best = greedyToken(logits);
  if (!best.isOk() || options.temperature == 0)
    return best;
  float largest = logits[static_cast<size_t>(*best)];
  return cuts(options, vocabulary) ? drawFromKept(keepBest(logits, largest), largest)
                                   : drawFromAll(logits, largest);
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

template <class PopUpTo>
Sampler::Kept Sampler::keepMass(Kept all, float largest, const PopUpTo &popUpTo) const {
  const double mass = double(options.topP) * all.weight;
  Kept kept = {0, 0};
  do {
    popUpTo(kept.count + 1);
    kept.weight += weightAtRank(kept.count++, largest);
  } while (kept.count < all.count && kept.weight < mass);
  return kept;
}

/// A heap yields the best candidates one by one: a cut after a few of 150,000 tokens needs no full
/// sort. The order is total, so the result does not depend on how the heap is built.
Sampler::Kept Sampler::keepBest(std::span<const float> logits, float largest) {
  candidates.resize(logits.size());
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
  if (cutsByRank()) {
    kept.count = std::min<size_t>(options.topK, candidates.size());
    popUpTo(kept.count);
    kept.weight = weightOfBest(kept.count, largest);
  } else {
    kept.weight = weightOfAll(logits, largest);
  }
  return options.topP < 1 ? keepMass(kept, largest, popUpTo) : kept;
}

double Sampler::weightOfAll(std::span<const float> logits, float largest) const {
  constexpr size_t kBlock = 256; // As in addWeights().
  std::array<float, kBlock> weights;
  double sum = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - begin);
    for (size_t i = 0; i < count; ++i)
      weights[i] = weightOf(logits[begin + i], largest);
    for (size_t i = 0; i < count; ++i)
      sum += double(weights[i]);
  }
  return sum;
}

double Sampler::weightOfBest(size_t count, float largest) const {
  double sum = 0;
  for (size_t rank = 0; rank < count; ++rank)
    sum += weightAtRank(rank, largest);
  return sum;
}

int32_t Sampler::drawFromKept(Kept kept, float largest) {
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

//===-- Among allowed tokens ------------------------------------------------------------------===//

void Sampler::rank(std::span<const float> logits) {
  ranked.clear();
  ranked.reserve(2 * kMostRanked);
  float least = -INFINITY;
  auto cut = [&] {
    std::nth_element(ranked.begin(), ranked.begin() + (kMostRanked - 1), ranked.end(), isBefore);
    ranked.resize(kMostRanked);
    least = ranked.back().logit; // An equal logit comes after it, by its index.
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > least))
      continue;
    ranked.push_back({logits[i], static_cast<int32_t>(i)});
    if (ranked.size() == 2 * kMostRanked)
      cut();
  }
  if (ranked.size() > kMostRanked)
    cut();
  std::sort(ranked.begin(), ranked.end(), isBefore);
}

// By the largest logit of all, so that no weight is infinite. A weight by another one differs from
// it by the rounding of both exponents, which are below 88.
double Sampler::openWeight(size_t index, float largest) const {
  constexpr double kExponents = 1e-4;
  const float top = ranked[0].logit;
  double open = choice->all;
  for (size_t i = 0; i <= index; ++i)
    open -= double(weightOf(ranked[i].logit, top));
  const double scale =
      deterministicExp((double(top) - double(largest)) / double(options.temperature));
  return (open * (1 + kExponents) + choice->all * kRounding) * scale;
}

std::optional<Sampler::Kept> Sampler::keepMassBeside(double sum, double open) const {
  const double least = double(options.topP) * sum * (1 - kRounding);
  const double most = double(options.topP) * (sum + open) * (1 + kRounding);
  if (sum < most)
    return std::nullopt;
  Kept kept = {0, 0};
  while (kept.weight < least)
    kept.weight += double(weightOf(candidates[kept.count++].logit, candidates[0].logit));
  return kept.weight >= most ? std::optional(kept) : std::nullopt;
}

std::optional<Sampler::Kept> Sampler::keepAllowed(const TokenVerdict &isAllowed) {
  const bool isGreedy = options.temperature == 0;
  const bool cutsByLeast = !isGreedy && !cutsByRank() && !cutsByMass();
  const size_t most = isGreedy ? 1 : cutsByRank() ? options.topK : SIZE_MAX;
  std::optional<Kept> kept;
  for (size_t &i = choice->next; i < ranked.size() && !kept; ++i) {
    const float largest = candidates.empty() ? ranked[i].logit : candidates[0].logit;
    const float weight = isGreedy ? 1 : weightOf(ranked[i].logit, largest);
    if (cutsByLeast && weight < options.minP) {
      kept = {candidates.size(), choice->sum};
      break;
    }
    const std::optional<bool> verdict = isAllowed(ranked[i].token);
    if (!verdict)
      return std::nullopt;
    choice->open -= double(weight);
    if (*verdict) {
      if (candidates.empty() && cutsByMass())
        choice->open = openWeight(i, largest);
      candidates.push_back(ranked[i]);
      choice->sum += double(weight);
    }
    if (candidates.size() == most)
      kept = {most, choice->sum};
    else if (cutsByMass() && !candidates.empty())
      kept = keepMassBeside(choice->sum, std::max(choice->open, 0.0));
  }
  if (!kept && ranked.size() < kMostRanked && !candidates.empty() && !cutsByMass())
    kept = {candidates.size(), choice->sum}; // There are no others.
  std::reverse(candidates.begin(), candidates.end());
  return kept;
}

int32_t Sampler::drawFromAllowed(Kept kept, std::vector<float> &scratch) {
  if (options.temperature == 0)
    return candidates.back().token;
  const float largest = candidates.back().logit;
  if (cuts(options, vocabulary))
    return drawFromKept(
        cutsByRank() && options.topP < 1 ? keepMass(kept, largest, [](size_t) {}) : kept, largest);
  // By index, as among all.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate &a, const Candidate &b) { return a.token < b.token; });
  scratch.clear();
  for (const Candidate &candidate : candidates)
    scratch.push_back(candidate.logit);
  return candidates[static_cast<size_t>(drawFromAll(scratch, largest))].token;
}

std::optional<int32_t> Sampler::drawRest(std::span<const float> rawLogits,
                                         std::vector<float> &scratch) {
  const std::span<const float> logits = adjustments.apply(rawLogits);
  scratch.assign(logits.begin(), logits.end());
  for (const Candidate &leftOut : candidates)
    scratch[static_cast<size_t>(leftOut.token)] = -INFINITY;
  const Result<int32_t> best = greedyToken(scratch);
  if (!best.isOk())
    return std::nullopt;
  return drawFromAll(scratch, scratch[static_cast<size_t>(*best)]);
}

std::optional<int32_t> Sampler::drawAllowed(std::span<const float> rawLogits,
                                            std::vector<float> &scratch,
                                            const TokenVerdict &isAllowed) {
  constexpr size_t kLeftOut = 64; // Best tokens that are left out without having been drawn.
  for (;;) {
    if (choice->drawn) {
      const std::optional<bool> verdict = isAllowed(*choice->drawn);
      if (!verdict || *verdict)
        return verdict ? choice->drawn : std::nullopt;
      if (candidates.empty())
        rank(adjustments.apply(rawLogits));
      candidates.push_back({0, *choice->drawn});
      choice->drawn.reset();
    }
    for (size_t &i = choice->next; i < std::min(kLeftOut, ranked.size()); ++i) {
      const std::optional<bool> verdict = isAllowed(ranked[i].token);
      if (!verdict)
        return std::nullopt;
      if (!*verdict)
        candidates.push_back(ranked[i]);
    }
    if (++choice->draws == kMostDraws)
      return std::nullopt;
    choice->drawn = drawRest(rawLogits, scratch);
    if (!choice->drawn)
      return std::nullopt;
  }
}

Status Sampler::beginChoice(std::span<const float> rawLogits) {
  const std::span<const float> logits = adjustments.apply(rawLogits);
  MOERT_ASSIGN_OR_RETURN(const int32_t best, greedyToken(logits));
  choice = Choice();
  candidates.clear();
  const float largest = logits[static_cast<size_t>(best)];
  if (drawsAllowed()) {
    choice->drawn = drawFromAll(logits, largest);
    return {};
  }
  rank(logits);
  if (cutsByMass())
    choice->all = weightOfAll(logits, largest);
  return {};
}

Result<std::optional<int32_t>> Sampler::sampleAllowed(std::span<const float> rawLogits,
                                                      std::vector<float> &scratch,
                                                      const TokenVerdict &isAllowed) {
  const DefaultFloatMode mode;
  if (!choice)
    MOERT_RETURN_IF_ERROR(beginChoice(rawLogits));
  bool isWaiting = false;
  const TokenVerdict verdictOf = [&](int32_t token) {
    const std::optional<bool> verdict = isAllowed(token);
    isWaiting = !verdict;
    return verdict;
  };
  std::optional<int32_t> token;
  if (drawsAllowed())
    token = drawAllowed(rawLogits, scratch, verdictOf);
  else if (const std::optional<Kept> kept = keepAllowed(verdictOf))
    token = drawFromAllowed(*kept, scratch);
  if (!isWaiting)
    choice.reset();
  return token;
}

} // namespace moert
