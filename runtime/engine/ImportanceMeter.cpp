#include "runtime/engine/ImportanceMeter.h"

#include "runtime/engine/Footprint.h"
#include "runtime/policy/PublishedScores.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moert {

std::vector<const RouteInstruction *> routesOf(const Artifact &artifact, const Program &program) {
  std::vector<const RouteInstruction *> routes(artifact.moeLayers.size());
  for (const Instruction &instruction : program.instructions)
    if (const auto *route = std::get_if<RouteInstruction>(&instruction))
      routes[route->moeLayer] = route;
  return routes;
}

ImportanceMeter::ImportanceMeter(const Artifact &artifact) : sums(mostExpertsOf(artifact)) {
  for (const Program &program : artifact.programs)
    routes.emplace_back(&program, routesOf(artifact, program));
}

void ImportanceMeter::takePlan(const Plan &plan) {
  measures = needs(plan.rules.eviction, ScoreData::kExchanges);
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

void ImportanceMeter::measureRouterInput(Step &step, const LinearInstruction &linear) const {
  const auto own = std::find_if(routes.begin(), routes.end(),
                                [&](const auto &of) { return of.first == step.program; });
  const auto next =
      std::find_if(own->second.begin() + (step.routed ? step.routed->moeLayer + 1 : 0),
                   own->second.end(), [](const auto *route) { return route; });
  if (next == own->second.end() || linear.dst != (*next)->scores ||
      step.bufferInfo(linear.src).kind != BufferKind::kF32)
    return;
  const Rows src = step.buffer(linear.src);
  for (uint32_t row = 0; row < step.rows(); ++row)
    step.batch[row].inputNorm = lengthOf({src.floats(row), step.bufferInfo(linear.src).width});
}

void ImportanceMeter::beginLayer() {
  std::fill(sums.begin(), sums.end(), uint64_t(0));
}

void ImportanceMeter::add(Step &step, const RouteInstruction &route, uint32_t row) {
  const uint32_t topK = step.bufferInfo(route.experts).width;
  const int32_t *routedTo = step.buffer(route.experts).integers(row);
  const float *weights = step.buffer(route.weights).floats(row);
  for (uint32_t rank = 0; rank < topK; ++rank) {
    const auto expert = static_cast<size_t>(routedTo[rank]);
    const uint32_t norm =
        expertNorms.empty() ? kFixedPointOne : expertNorms[route.moeLayer][expert];
    sums[expert] += tokenImportance(step.batch[row].inputNorm, weights[rank], norm);
  }
  step.batch[row].inputNorm = 1; // For the next layer, unless it is measured.
}

} // namespace moert
