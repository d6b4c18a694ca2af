// Collects the observations of a layerwise execution: rows, choices and moments go into the
// profile.
#pragma once

#include "compiler/calibrate/Layerwise.h"
#include "compiler/profile/ProfileWriter.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace moec {

/// The rows that products with resident matrices read, for those that may be quantized.
std::vector<CalibrationInfo::ResidentInput> residentInputsOf(const moert::Artifact &artifact,
                                                             const moert::Program &program);

/// Borrows the writer. One thread, the same that executes.
class LayerCollector final : public moert::LayerObserver {
public:
  /// residents: the artifact's, whose products are observed.
  LayerCollector(ProfileWriter &profile, std::span<const moert::ResidentWeight> residents);

  /// A batch of this many tokens of the profile follows, whole windows.
  void beginBatch(uint64_t tokens);
  /// All tokens have executed the segment: writes its MoE layer, if it has one, and moments.
  moert::Status endSegment();

  /// Bytes held for the trace of a layer, its scores of one token and its moments.
  static uint64_t memoryBytes(const CalibrationInfo &info);

  moert::Status onRouted(const Routed &routed) override;
  moert::Status onLaterRouter(const Routed &routed, uint32_t ahead, moert::LayerRows<float> scores,
                              const moert::Router &router) override;
  moert::Status onProduct(int32_t weight, moert::LayerRows<float> input) override;

private:
  /// The row of a token of the batch. Where a window has more rows than tokens in the profile, as
  /// an image has, evenly spaced ones are kept, of each image other ones.
  template <typename T> std::span<const T> rowAt(moert::LayerRows<T> rowsOf, uint64_t token) const;
  moert::Status append(ExpertCandidates &candidates, moert::LayerRows<float> scores,
                       const moert::Router &router, uint32_t layer);

  ProfileWriter &writer;
  std::map<int32_t, size_t> inputOf; // By the first weight that reads it.
  std::map<size_t, MomentSums> sums; // The segment's inputs.
  uint64_t rows = 0;
  uint64_t firstToken = 0;                     // The batch's.
  std::optional<LayerTrace> trace;             // Set after the segment's router has run.
  std::vector<float> likelihoods, bestWeights; // For one token.
  std::vector<int32_t> bestExperts;
};

} // namespace moec
