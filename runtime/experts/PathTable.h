// The activation-path table: the two previous MoE layers' experts -> the next layer's. A predictor
// that executes no part of the model; stored in the artifact's section "paths".
//
// Source: EdgeMoE (arXiv 2308.14352), section 4, keeps a dictionary from the experts of two
// consecutive MoE layers to the probabilities of the next one's. With top-1 routing that is E^2
// keys of E values; with top-k there are as many keys as pairs of sets. Here each expert of each of
// the two layers has its own row, and the rows of all chosen experts are added: less sharp than
// pairs, but the model's shape bounds the size, and every expert that calibration saw has a row.
//
// The section, little-endian: magic, version, the number n of MoE layers, 0 (four u32); the number
// of experts E[t] of each (u32 each); then for each MoE layer t = 1 .. n-1 a matrix of bytes
// [E[t-1]][E[t]] and, from t = 2 on, another [E[t-2]][E[t]], contiguous and with nothing after
// them. Row a, column e: among the tokens that chose expert a of the earlier layer, the fraction
// that chose expert e of layer t, times 255, rounded; 0 everywhere if no token chose a.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// The start of the section.
struct PathTableHeader {
  static constexpr uint32_t kMagic = 0x50454F4D; // "MOEP"
  static constexpr uint32_t kVersion = 1;
  uint32_t magic = kMagic, version = kVersion, layers = 0, zero = 0;
};

/// Bytes of the section for MoE layers with these numbers of experts.
uint64_t pathTableBytes(std::span<const uint32_t> layerExperts);

/// A view: the section must outlive it. Reading from several threads is safe. Only create()
/// allocates.
class PathTable {
public:
  /// Refuses a section whose number of MoE layers, experts per layer or size differs from the
  /// model's
  /// (`layerExperts` has the number of experts of each MoE layer).
  static Result<PathTable> create(std::span<const std::byte> section,
                                  std::span<const uint32_t> layerExperts);

  /// Predicts the probability of each expert of a MoE layer, in units of 1 / kFixedPointOne, from
  /// the experts that the layer before (oneBefore) and the one before that (twoBefore) chose, for
  /// one or several tokens. One of the lists may be empty; all results are 0 if the table has no
  /// data.
  void predict(uint32_t layer, std::span<const int32_t> oneBefore,
               std::span<const int32_t> twoBefore, std::span<uint32_t> probabilities) const;

private:
  struct Layer {
    uint32_t experts = 0;
    std::array<const std::byte *, 2> rows = {}; // For the layer before, and the one before that.
  };
  std::vector<Layer> layers;
};

} // namespace moert
