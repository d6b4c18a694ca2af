// The resident weights: where they are in memory, and how they are read.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/Artifact.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/memory/Ledger.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moert {

/// Resident weights are read in pieces of this size: large enough for any disk's best rate.
constexpr uint64_t kResidentReadBytes = 1 << 20;

/// Reads a part of the resident section, several pieces at a time. take: gets the bytes in their
/// order, piece by piece, as they arrive. The offset, the address and the size are multiples of
/// ArtifactFile::kAlignment. After an error no reads are under way.
Status readResidents(ReadQueue &queue, uint64_t fileOffset, std::span<std::byte> into,
                     const std::function<void(std::span<const std::byte>)> &take = {});

/// found: the checksum of the whole section.
Status checkResidents(const Model &model, uint64_t found);

/// Views of all of an artifact's resident weights. Movable; the views stay valid.
class ResidentWeights {
public:
  ResidentWeights() = default;
  /// With memory in which no weight has a place yet.
  ResidentWeights(const Artifact &artifact, ReservedRegion memory);

  /// Reads the whole section, which the memory has room for, and checks it. progress: gets the
  /// bytes read so far.
  Status load(const Model &model, ReadQueue &queue,
              const std::function<void(uint64_t done)> &progress);

  std::span<std::byte> memory() const { return region.span(); }
  /// The weight's bytes begin at this offset of memory().
  void place(size_t weight, uint64_t offset) { pages[weight] = region.data() + offset; }

  const WeightView &weight(int32_t index) const { return views[static_cast<size_t>(index)]; }
  /// Biases, norms. nullptr for kNone.
  const float *vector(int32_t index) const {
    return index == kNone ? nullptr : reinterpret_cast<const float *>(weight(index).bytes.at(0));
  }

private:
  ReservedRegion region;
  std::vector<const std::byte *> pages; // One per weight; the views point into the list.
  std::vector<WeightView> views;
};

} // namespace moert
