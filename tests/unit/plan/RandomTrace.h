// Traces with skew and with habits, as routers have them: some experts are popular, and what a
// token wanted the next one wants more often than not.
#pragma once

#include "compiler/plan/RoutingTrace.h"

#include <algorithm>
#include <random>
#include <vector>

namespace moec {

inline RoutingTrace randomTrace(std::mt19937 &random, uint32_t layers, uint32_t experts,
                                uint32_t topK, const std::vector<TraceStep> &steps) {
  uint32_t tokens = 0;
  for (const TraceStep &step : steps)
    tokens += step.tokens;
  std::vector<std::vector<uint16_t>> chosen(layers);
  for (std::vector<uint16_t> &layer : chosen)
    for (uint32_t token = 0; token < tokens; ++token)
      for (uint32_t rank = 0; rank < topK; ++rank) {
        uint16_t expert;
        do {
          if (token > 0 && random() % 2) {
            expert = layer[(token - 1) * topK + random() % topK];
          } else {
            const size_t most = random() % experts;
            expert = static_cast<uint16_t>(random() % (1 + most));
          }
        } while (std::find(layer.end() - rank, layer.end(), expert) != layer.end());
        layer.push_back(expert);
      }
  std::vector<LayerRoutes> routes;
  for (const std::vector<uint16_t> &layer : chosen)
    routes.push_back({experts, topK, layer});
  return makeTrace(routes, steps).value();
}

} // namespace moec
