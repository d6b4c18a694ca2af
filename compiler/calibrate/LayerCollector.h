// Collects the observations of a layerwise execution: rows and choices go into the profile.
#pragma once

#include "compiler/calibrate/Layerwise.h"
#include "compiler/profile/ProfileWriter.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

/// Borrows the writer. One thread, the same that executes.
class LayerCollector final : public moert::LayerObserver {
public:
  LayerCollector(ProfileWriter &profile);

  /// A batch of this many tokens follows.
  void beginBatch(uint64_t tokens) { rows = tokens; }
  /// All tokens have executed the segment: writes its MoE layer, if it has one.
  moert::Status endSegment();

  /// Bytes held for the trace of a layer and its scores of one token.
  static uint64_t memoryBytes(const CalibrationInfo &info);

  moert::Status onRouted(const Routed &routed) override;
  moert::Status onLaterRouter(const Routed &routed, uint32_t ahead, moert::LayerRows<float> scores,
                              const moert::Router &router) override;

private:
  moert::Status append(ExpertCandidates &candidates, moert::LayerRows<float> scores,
                       const moert::Router &router, uint32_t layer);

  ProfileWriter &writer;
  uint64_t rows = 0;
  std::optional<LayerTrace> trace;             // Set after the segment's router has run.
  std::vector<float> likelihoods, bestWeights; // For one token.
  std::vector<int32_t> bestExperts;
};

} // namespace moec
