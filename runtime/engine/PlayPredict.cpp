// What predictors say of later layers, from what the rows of a step have computed so far.
#include "runtime/engine/EngineImpl.h"

#include <algorithm>

namespace moert {

/// Of all rows together, in shares of kWholeShare, the likeliest `most`, ties to the lowest index.
static std::span<const GuessCandidate> likeliest(std::span<const uint64_t> shares, uint32_t rows,
                                                 uint32_t most,
                                                 std::vector<GuessCandidate> &candidates) {
  for (uint32_t expert = 0; expert < shares.size(); ++expert)
    candidates[expert] = {expert, static_cast<uint32_t>(shares[expert] / rows)};
  size_t count = std::min<size_t>(most, shares.size());
  auto begin = candidates.begin();
  std::partial_sort(begin, begin + ptrdiff_t(count), begin + ptrdiff_t(shares.size()),
                    [](const GuessCandidate &a, const GuessCandidate &b) {
                      return a.share != b.share ? a.share > b.share : a.expert < b.expert;
                    });
  return {candidates.data(), count};
}

// A prompt's chunk wants most experts of every layer: guesses are for single tokens.
void Engine::Impl::playPredict(const PredictInstruction &predict) {
  if (program != decode || guessRules.empty())
    return;
  const GuessRule &rule = guessRules[predict.moeLayer];
  if (rule.predictor != Predictor::kGate || rule.ahead != predict.ahead)
    return;
  const uint32_t experts = bufferInfo(predict.scores).width;
  Rows scores = buffer(predict.scores);
  multiplyBuffer(weight(predict.weight), predict.src, 0, rows(), scores.floats(), scores.stride());
  if (predict.bias != kNone)
    kernels->addBias(scores.floats(), scores.stride(), vector(predict.bias), rows(), experts,
                     scores.floats(), scores.stride());
  std::span<uint64_t> shares(guessShares.data(), experts);
  std::fill(shares.begin(), shares.end(), 0);
  for (uint32_t row = 0; row < rows(); ++row) {
    kernels->softmax(scores.floats(row), experts, probabilities.data());
    for (uint32_t expert = 0; expert < experts; ++expert)
      shares[expert] += static_cast<uint64_t>(probabilities[expert] * float(kWholeShare));
  }
  cache->guess({predict.moeLayer - firstCachedLayer, rule,
                likeliest(shares, rows(), rule.candidates, guessCandidates)});
}

} // namespace moert
