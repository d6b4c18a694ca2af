// Executes predict instructions: prefetch candidates from the values computed so far in a step.
#include "runtime/engine/EngineImpl.h"
#include "runtime/predict/Candidates.h"

#include <algorithm>
#include <utility>

namespace moert {

/// Cross-layer gates: the later layer's router applied to this layer's router input, row by row.
static void addGateLikelihoods(Engine::Impl &engine, const PredictInstruction &predict,
                               std::span<uint32_t> sums) {
  const Router router = engine.routerOf(*engine.routes[predict.moeLayer]);
  const uint32_t rows = engine.rows(), experts = static_cast<uint32_t>(sums.size());
  Rows scores = engine.buffer(predict.scores);
  std::fill(sums.begin(), sums.end(), 0);
  for (uint32_t row = 0; row < rows; ++row) {
    router.computeLikelihoods(scores.floats(row), engine.probabilities.data());
    addProbabilities({engine.probabilities.data(), experts}, rows, sums);
  }
}

/// Call after the product of its gate, if it has one.
void Engine::Impl::namePrefetch(const PredictInstruction &predict) {
  const PrefetchRule &rule = prefetchRules[predict.moeLayer];
  std::span<uint32_t> predicted(prefetchProbabilities.data(), bufferInfo(predict.scores).width);
  if (usesGate(rule.predictor))
    addGateLikelihoods(*this, predict, predicted);
  else
    paths.table->predict(predict.moeLayer, chosen[0], chosen[1], predicted);
  listLikeliest(predicted, rule.candidates, prefetchCandidates);
  observer->onPredict(predict.moeLayer, predict.ahead, batch[0].position, prefetchCandidates);
  prefetchSlices.clear();
  if (rows() == 1) { // Ranks are those of one token.
    prefetchSlices.resize(prefetchCandidates.size());
    lowerPrefetch(missRule, artifact->moeLayers[predict.moeLayer].topK, prefetchCandidates,
                  prefetchSlices);
  }
  cache->prefetch({predict.moeLayer - firstCachedLayer, rule, prefetchCandidates, prefetchSlices});
}

// A chunk of a prompt uses most experts of every layer: prefetching is for single tokens.
void Engine::Impl::executePredicts(std::span<const Instruction> predicts) {
  if (program != decode || prefetchRules.empty())
    return;
  auto isPlanned = [&](const PredictInstruction &predict) {
    return prefetchRules[predict.moeLayer].predictsFrom(predict.ahead);
  };
  // A gate is computed as the product with another layer's router.
  std::array<LinearInstruction, kMostTogether> gates{};
  size_t count = 0;
  for (const Instruction &instruction : predicts) {
    const auto &predict = std::get<PredictInstruction>(instruction);
    if (isPlanned(predict) && usesGate(prefetchRules[predict.moeLayer].predictor))
      gates[count++] = {predict.src, predict.scores, predict.weight, predict.bias};
  }
  if (count > 0)
    executeLinears(std::span(gates).first(count));
  for (const Instruction &instruction : predicts)
    if (const auto &predict = std::get<PredictInstruction>(instruction); isPlanned(predict))
      namePrefetch(predict);
}

/// Stores the choice of all rows, one after the other, for the activation-path table.
void Engine::Impl::rememberChosen(const RouteInstruction &route) {
  if (!paths.table || program != decode)
    return;
  std::swap(chosen[0], chosen[1]);
  chosen[0].clear();
  Rows experts = buffer(route.experts);
  const uint32_t topK = artifact->moeLayers[route.moeLayer].topK;
  for (uint32_t row = 0; row < rows(); ++row)
    chosen[0].insert(chosen[0].end(), experts.integers(row),
                     experts.integers(row) + ranksOf(row, topK));
}

} // namespace moert
