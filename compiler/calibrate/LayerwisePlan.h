// What a layerwise player works out from the artifact's tables before anything is loaded: where a
// program's segments begin, what each needs, and how a budget is divided.
#pragma once

#include "compiler/calibrate/Layerwise.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// A range of the file that is read into the segment's memory; both are multiples of
/// ArtifactFile::kAlignment.
struct ResidentRange {
  uint64_t sectionOffset = 0; // From the start of the resident section.
  uint64_t memoryOffset = 0;
  uint64_t bytes = 0;
};

/// The router of a later MoE layer that sees this segment's router input too.
struct LaterRouter {
  uint32_t ahead = 0; // MoE layers from here to there.
  int32_t weight = 0, bias = 0;
};

/// Consecutive instructions of one layer.
struct Segment {
  size_t begin = 0, end = 0; // In the program's instructions.
  int32_t layer = kNone;     // The model's.
  std::optional<uint32_t> moeLayer;
  int32_t routerInput = kNone; // The buffer that the router reads.
  std::vector<LaterRouter> laterRouters;
  std::vector<int32_t> weights; // Resident weights that it needs, ascending.
  std::vector<ResidentRange> ranges;
  std::vector<int32_t> liveBefore; // Buffers.
  uint64_t stateBytes = 0;         // Of liveBefore, per token.

  uint64_t residentBytes() const {
    return ranges.empty() ? 0 : ranges.back().memoryOffset + ranges.back().bytes;
  }
};

/// Refuses programs in which a layer needs more of another one than its state, such as keys.
Result<std::vector<Segment>> segmentsOf(const Artifact &artifact, const Program &program,
                                        const LayerwiseOptions &options);

/// How memory is divided between tokens of a batch and experts. A pool for the whole layer lets
/// every batch find what an earlier one has read, so that small batches will do; without, each
/// batch reads the layer again and has to be as large as possible.
struct LayerwiseShare {
  uint32_t batchWindows = 0;
  uint64_t poolPages = 0;
};

/// `fits` says whether a share is within the budget: true for less of both, if for more. nullopt:
/// not even the smallest is.
std::optional<LayerwiseShare>
shareLayerwise(uint64_t windows, uint64_t smallestPoolPages, uint64_t workingPoolPages,
               uint64_t layerPoolPages, const std::function<bool(const LayerwiseShare &)> &fits);

/// The program that is played: the one for many tokens.
const Program &layerwiseProgram(const Artifact &artifact);

/// KV memory per token of the largest slot: slots are used one after the other.
uint64_t largestSlotBytes(const Artifact &artifact);

} // namespace moert
