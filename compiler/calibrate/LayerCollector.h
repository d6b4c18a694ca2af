// Takes down what a layerwise player shows: rows and choices into the profile, squares of the
// resident matrices' inputs into sums.
#pragma once

#include "compiler/calibrate/Layerwise.h"
#include "compiler/profile/ProfileWriter.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace moec {

/// Sums of squares of a resident matrix's inputs, token after token.
struct SquareSums {
  uint64_t rows = 0;
  std::vector<double> sums; // Per input.
  friend bool operator==(const SquareSums &, const SquareSums &) = default;
};

/// By resident weight of the reference.
using ResidentSquares = std::map<uint32_t, SquareSums>;

/// Borrows the writer and the kernels. One thread, the player's.
class LayerCollector final : public moert::LayerObserver {
public:
  LayerCollector(ProfileWriter &profile, const moert::KernelTable &kernelTable,
                 ResidentSquares before);

  /// A batch of so many tokens follows.
  void beginBatch(uint64_t tokens) { rows = tokens; }
  /// All tokens have been through the segment: if a MoE layer was seen, it is written.
  moert::Status endSegment();

  const ResidentSquares &squares() const { return residentSquares; }

  /// Held for the trace of a layer, and its scores of one token.
  static uint64_t memoryBytes(const CalibrationInfo &info);

  moert::Status onMatrixInput(uint32_t weight, moert::LayerRows<float> x) override;
  moert::Status onRouted(const Routed &routed) override;
  moert::Status onLaterRouter(const Routed &routed, uint32_t ahead,
                              moert::LayerRows<float> scores) override;

private:
  moert::Status append(ExpertCandidates &candidates, moert::LayerRows<float> scores,
                       uint32_t layer);

  ProfileWriter &writer;
  const moert::KernelTable &kernels;
  ResidentSquares residentSquares;
  uint64_t rows = 0;
  std::optional<LayerTrace> trace;               // Of the segment, once a router was seen.
  std::vector<float> probabilities, bestWeights; // Of one token.
  std::vector<int32_t> bestExperts;
};

} // namespace moec
