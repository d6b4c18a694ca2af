// Problems that own what they are made of, for tests of plans.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "tests/unit/plan/RandomTrace.h"

#include <algorithm>
#include <random>
#include <vector>

namespace moec {

/// Layers of a trace on pages of 4 KiB and a disk that reads a byte in a nanosecond, however many
/// reads there are, one after the other.
struct PlanFixture {
  RoutingTrace trace;
  std::vector<LayerPredictions> predictions;
  std::vector<std::vector<uint64_t>> recordBytes;
  std::vector<uint32_t> topK;
  uint64_t pageBytes = 4096, poolPages = 0;
  ReadTable reads{{4096}, {1}, {{1e9, Origin::kMeasured}}};
  StepCosts costs;

  PlanFixture(RoutingTrace executed, uint32_t chosen, uint64_t pool, uint64_t bytes = 4096)
      : trace(std::move(executed)), poolPages(pool) {
    for (uint32_t experts : trace.layerExperts) {
      recordBytes.emplace_back(experts, bytes);
      topK.push_back(chosen);
      costs.layers.push_back(
          {.before = {100, 10}, .expert = {50, 20}, .checks = {{5}}, .predictNs = {7, 6, 5}});
    }
    costs.after = {30, 0};
  }

  PlanProblem problem() const {
    return {.trace = &trace,
            .predictions = predictions,
            .recordBytes = recordBytes,
            .topK = topK,
            .pageBytes = pageBytes,
            .poolPages = poolPages,
            .reads = &reads,
            .costs = &costs};
  }
};

/// Decode steps of one layer that choose these experts, so many each.
inline RoutingTrace tokensOf(uint32_t experts, uint32_t topK, std::vector<uint16_t> chosen) {
  LayerRoutes layer{experts, topK, chosen};
  std::vector<TraceStep> steps(chosen.size() / topK);
  return makeTrace(std::span(&layer, 1), steps).value();
}

inline PlanSettings quotasOf(std::vector<uint32_t> quotas, uint32_t staging) {
  PlanSettings settings;
  settings.allotment = {staging, std::move(quotas)};
  settings.rules.eviction = moert::EvictionPolicy::kLru;
  return settings;
}

/// Prefetches by gate that know what is wanted more often than not.
inline std::vector<LayerPredictions> goodPrefetches(std::mt19937 &random, const RoutingTrace &trace,
                                                    uint32_t perToken) {
  std::vector<LayerPredictions> all;
  const uint32_t layers = static_cast<uint32_t>(trace.layerExperts.size());
  for (uint32_t layer = 1; layer < layers; ++layer)
    for (uint32_t ahead = 1; ahead <= std::min(layer, moert::kMostAhead); ++ahead) {
      LayerPredictions &made = all.emplace_back();
      made = {moert::Predictor::kGate, layer, ahead, perToken, {}};
      for (const RoutingPass &pass : trace.passes)
        for (uint32_t token = 0; pass.layer == layer && token < pass.tokens; ++token) {
          std::vector<uint32_t> named;
          for (uint32_t expert : trace.demandOf(pass).wanted)
            if (named.size() < perToken && random() % 4)
              named.push_back(expert);
          while (named.size() < perToken) {
            uint32_t expert = random() % trace.layerExperts[layer];
            if (std::find(named.begin(), named.end(), expert) == named.end())
              named.push_back(expert);
          }
          for (uint32_t rank = 0; rank < perToken; ++rank)
            made.candidates.push_back({named[rank], moert::kFixedPointOne >> (rank + 1)});
        }
    }
  return all;
}

} // namespace moec
