// What predictors say of later layers, from what the rows of a step have computed so far.
#include "runtime/engine/EngineImpl.h"

#include "runtime/predict/Candidates.h"

#include <algorithm>
#include <utility>

namespace moert {

/// With gates: what the later layer's router says of this layer's router input, row by row.
static void addGateShares(Engine::Impl &engine, const PredictInstruction &predict,
                          std::span<uint32_t> shares) {
  const uint32_t rows = engine.rows(), experts = static_cast<uint32_t>(shares.size());
  Rows scores = engine.buffer(predict.scores);
  engine.multiply(engine.weight(predict.weight), predict.src, 0, rows, scores.floats(),
                  scores.stride());
  if (predict.bias != kNone)
    engine.kernels->addBias(scores.floats(), scores.stride(), engine.vector(predict.bias), rows,
                            experts, scores.floats(), scores.stride());
  std::fill(shares.begin(), shares.end(), 0);
  for (uint32_t row = 0; row < rows; ++row) {
    engine.kernels->softmax(scores.floats(row), experts, engine.probabilities.data());
    addShares({engine.probabilities.data(), experts}, rows, shares);
  }
}

// A prompt's chunk wants most experts of every layer: guesses are for single tokens.
void Engine::Impl::playPredict(const PredictInstruction &predict) {
  if (program != decode || guessRules.empty())
    return;
  const GuessRule &rule = guessRules[predict.moeLayer];
  if (rule.predictor == Predictor::kOff || rule.ahead != predict.ahead)
    return;
  std::span<uint32_t> shares(guessShares.data(), bufferInfo(predict.scores).width);
  if (rule.predictor == Predictor::kGate)
    addGateShares(*this, predict, shares);
  else
    paths->predict(predict.moeLayer, chosen[0], chosen[1], shares);
  listLikeliest(shares, rule.candidates, guessCandidates);
  cache->guess({predict.moeLayer - firstCachedLayer, rule, guessCandidates});
}

/// Of all rows, one behind the other, for the paths that go on from here.
void Engine::Impl::rememberChosen(const RouteInstruction &route) {
  if (!paths || program != decode)
    return;
  std::swap(chosen[0], chosen[1]);
  chosen[0].clear();
  Rows experts = buffer(route.experts);
  for (uint32_t row = 0; row < rows(); ++row)
    chosen[0].insert(chosen[0].end(), experts.integers(row), experts.integers(row) + route.topK);
}

} // namespace moert
