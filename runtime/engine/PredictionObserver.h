// An observer of steps that also receives what predictors name: for profiles of runs.
#pragma once

#include "moert/Engine.h"

#include <cstdint>
#include <span>

namespace moert {

/// Borrowed for a step, as every StepObserver.
class PredictionObserver : public StepObserver {
public:
  /// What a predictor named for a later MoE layer, likeliest first, while decoding the token at
  /// `position`; for a batch of several sessions, that of the first.
  virtual void onPredict(uint32_t moeLayer, uint32_t position,
                         std::span<const PrefetchCandidate> candidates) = 0;
};

} // namespace moert
