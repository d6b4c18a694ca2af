// The scores of an engine's routers, as the replays take them.
#pragma once

#include "compiler/plan/TimedReplay.h"
#include "runtime/policy/MissPolicy.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace moec {

/// Appends a token, with the likelihoods of all experts of its layer where the rule has any.
inline void recordScores(const moert::MissInputs &inputs, LayerScores &layer) {
  layer.topK = static_cast<uint32_t>(inputs.chosen.size());
  layer.chosen.insert(layer.chosen.end(), inputs.chosen.begin(), inputs.chosen.end());
  layer.weights.insert(layer.weights.end(), inputs.weights.begin(), inputs.weights.end());
  const std::span<const float> all = inputs.likelihoods;
  layer.perToken = static_cast<uint32_t>(all.size());
  std::vector<uint16_t> order(all.size());
  std::iota(order.begin(), order.end(), uint16_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](uint16_t a, uint16_t b) { return all[a] > all[b]; });
  for (uint16_t expert : order) {
    layer.likeliest.push_back(expert);
    layer.likelihoods.push_back(all[expert]);
  }
}

} // namespace moec
