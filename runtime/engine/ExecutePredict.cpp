// Executes predict instructions: prefetch candidates from the values computed so far in a step.
#include "runtime/engine/Executor.h"
#include "runtime/experts/Candidates.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moert {

void Executor::namePrefetch(Step &step, const PredictInstruction &predict) {
  const PrefetchRule &rule = *parts.experts.prefetchRule(predict.moeLayer);
  const uint32_t experts = step.bufferInfo(predict.scores).width;
  const std::span<uint32_t> sums = std::span(prefetchProbabilities).first(experts);
  if (usesGate(rule.predictor)) {
    // The later layer's router applied to this layer's router input, row by row.
    const Router router = routerOf(*predicted[predict.moeLayer]);
    std::fill(sums.begin(), sums.end(), 0);
    for (uint32_t row = 0; row < step.rows(); ++row) {
      router.computeLikelihoods(step.buffer(predict.scores).floats(row), probabilities.data());
      addProbabilities({probabilities.data(), experts}, step.rows(), sums);
    }
  } else {
    parts.experts.pathTable()->predict(predict.moeLayer, step.chosen[0], step.chosen[1], sums);
  }
  listLikeliest(sums, rule.candidates, prefetchCandidates);
  step.observer->onPredict(predict.moeLayer, predict.ahead, step.batch[0].position,
                           prefetchCandidates);
  prefetchSlices.clear();
  if (step.rows() == 1) { // Ranks are those of one token.
    prefetchSlices.resize(prefetchCandidates.size());
    if (parts.misses)
      lowerPrefetch(parts.misses->rule(), parts.artifact.moeLayers[predict.moeLayer].topK,
                    prefetchCandidates, prefetchSlices);
  }
  parts.experts.cache().prefetch(
      {parts.experts.cached(predict.moeLayer), rule, prefetchCandidates, prefetchSlices});
}

// A chunk of a prompt uses most experts of every layer: prefetching is for single tokens.
Status Executor::executePredicts(Step &step, std::span<const Instruction> predicts) {
  if (step.program != parts.predictingFrom)
    return {};
  /// The rule that the prediction is made for; null: none.
  auto plannedRule = [&](const PredictInstruction &predict) {
    const PrefetchRule *rule = parts.experts.prefetchRule(predict.moeLayer);
    return rule && rule->predictsFrom(predict.ahead) ? rule : nullptr;
  };
  // A gate is computed as the product with another layer's router.
  std::array<LinearInstruction, kMostTogether> gates{};
  size_t count = 0;
  for (const Instruction &instruction : predicts) {
    const auto &predict = std::get<PredictInstruction>(instruction);
    const PrefetchRule *rule = plannedRule(predict);
    if (rule && usesGate(rule->predictor))
      gates[count++] = {predict.src, predict.scores, predict.weight, predict.bias};
  }
  if (count > 0)
    MOERT_RETURN_IF_ERROR(executeLinears(step, std::span(gates).first(count)));
  for (const LinearInstruction &gate : std::span(gates).first(count))
    MOERT_RETURN_IF_ERROR(bringToHost(step, gate.dst));
  for (const Instruction &instruction : predicts)
    if (const auto &predict = std::get<PredictInstruction>(instruction); plannedRule(predict))
      namePrefetch(step, predict);
  return {};
}

void Executor::rememberChosen(Step &step, const RouteInstruction &route) const {
  if (!parts.experts.pathTable() || step.program != parts.predictingFrom)
    return;
  std::swap(step.chosen[0], step.chosen[1]);
  step.chosen[0].clear();
  const Rows experts = step.buffer(route.experts);
  const uint32_t topK = step.bufferInfo(route.experts).width;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (int32_t expert : std::span(experts.integers(row), ranksOf(step, row, topK)))
      step.chosen[0].push_back(expert);
}

} // namespace moert
