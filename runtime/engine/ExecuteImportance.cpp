// Measures how important the experts of a layer are to the tokens of a step, for plans whose
// eviction is by importance: |x| * G * |E| of the experts that the router chose, in memory or not
// (runtime/policy/Eviction.h).
#include "runtime/engine/EngineImpl.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moert {

void Engine::Impl::weighAsPlanned(const Plan &plan) {
  weighsExperts = plan.rules.eviction == EvictionPolicy::kImportance;
  expertNorms = plan.expertNorms;
}

/// In the order that docs/numbers.md has for norms: 16 partial sums, then a tree.
static float lengthOf(std::span<const float> row) {
  std::array<float, 16> sums{};
  size_t i = 0;
  for (; i + sums.size() <= row.size(); i += sums.size())
    for (size_t lane = 0; lane < sums.size(); ++lane)
      sums[lane] += row[i + lane] * row[i + lane];
  for (size_t lane = 0; i < row.size(); ++i, ++lane)
    sums[lane] += row[i] * row[i];
  for (size_t half = sums.size() / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane)
      sums[lane] += sums[lane + half];
  return std::sqrt(sums[0]);
}

/// Right after the product: its input may be overwritten before the route. An earlier product into
/// the same buffer is measured in vain.
void Engine::Impl::measureRouterInput(const LinearInstruction &linear) {
  const std::vector<const RouteInstruction *> &all = program == decode ? routes : prefillRoutes;
  const size_t next = routed ? routed->moeLayer + 1u : 0;
  if (next >= all.size() || linear.dst != all[next]->scores ||
      bufferInfo(linear.src).kind != BufferKind::kF32)
    return;
  const Rows src = buffer(linear.src);
  for (uint32_t row = 0; row < rows(); ++row)
    inputNorms[row] = lengthOf({src.floats(row), bufferInfo(linear.src).width});
}

void Engine::Impl::beginImportances() {
  std::fill(importances.begin(), importances.end(), uint64_t(0));
}

void Engine::Impl::addImportances(const RouteInstruction &route, uint32_t row) {
  const uint32_t topK = artifact->moeLayers[route.moeLayer].topK;
  const int32_t *routedTo = buffer(route.experts).integers(row);
  const float *weights = buffer(route.weights).floats(row);
  for (uint32_t rank = 0; rank < topK; ++rank) {
    const auto expert = static_cast<size_t>(routedTo[rank]);
    const uint32_t norm =
        expertNorms.empty() ? kFixedPointOne : expertNorms[route.moeLayer][expert];
    importances[expert] += tokenImportance(inputNorms[row], weights[rank], norm);
  }
  inputNorms[row] = 1; // For the next layer, unless it is measured.
}

} // namespace moert
