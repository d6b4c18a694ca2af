// Activation paths: which experts a MoE layer chose where the two MoE layers before had chosen
// certain others. A predictor that computes nothing of the model; the artifact's section "paths".
//
// Source: EdgeMoE (arXiv 2308.14352), section 4, keeps a dictionary from the experts of two
// consecutive MoE layers to the probabilities of the next one's. With top-1 routing that is E^2
// keys of E values; with top-k there are as many keys as pairs of sets. Here each expert of each of
// the two layers has a row of its own, and the rows of all that were chosen are added up: less
// sharp than pairs, but of a size that the model's shape bounds, and known of every expert that
// calibration saw at all.
//
// The section, little-endian: magic, version, the number n of MoE layers, 0 (four u32); the number
// of experts E[t] of each (u32 each); then for each MoE layer t = 1 .. n-1 a matrix of bytes
// [E[t-1]][E[t]] and, from t = 2 on, another [E[t-2]][E[t]], one behind the other and nothing
// after them. Row a, column e: of the tokens that chose expert a of the earlier layer, the share
// that chose expert e of layer t, times 255, rounded; 0 everywhere if no token chose a.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// What the section begins with.
struct PathTableHeader {
  static constexpr uint32_t kMagic = 0x50454F4D; // "MOEP"
  static constexpr uint32_t kVersion = 1;
  uint32_t magic = kMagic, version = kVersion, layers = 0, zero = 0;
};

/// Bytes of the section of MoE layers with so many experts each.
uint64_t pathTableBytes(std::span<const uint32_t> layerExperts);

/// A view: the section outlives it. Reading from several threads is safe; allocates nothing but in
/// create.
class PathTable {
public:
  /// Refuses sections of other MoE layers than these, which have so many experts each, and of any
  /// other size than theirs.
  static Result<PathTable> create(std::span<const std::byte> section,
                                  std::span<const uint32_t> layerExperts);

  /// The share of kWholeShare that each expert of a MoE layer has of what followed the experts that
  /// the layer before (oneBefore) and the one before that (twoBefore) chose, for one token or for
  /// several. One of the lists may be empty; all shares are 0 where nothing is known.
  void predict(uint32_t layer, std::span<const int32_t> oneBefore,
               std::span<const int32_t> twoBefore, std::span<uint32_t> shares) const;

private:
  struct Layer {
    uint32_t experts = 0;
    std::array<const std::byte *, 2> rows = {}; // After the layer before, and the one before that.
  };
  std::vector<Layer> layers;
};

} // namespace moert
