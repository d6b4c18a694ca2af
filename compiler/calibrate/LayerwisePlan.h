// The plan of a layerwise run, made from the artifact's tables before anything is loaded: the
// segments of a program, what each needs, and the division of a budget.
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

/// The router of a later MoE layer that also gets this segment's router input.
struct LaterRouter {
  uint32_t ahead = 0; // Distance in MoE layers.
  int32_t weight = 0, bias = 0;
  RouteInstruction route;
};

/// Consecutive instructions of one layer.
struct Segment {
  size_t begin = 0, end = 0; // Range of the program's instructions.
  int32_t layer = kNone;     // The model's layer number.
  std::optional<uint32_t> moeLayer;
  int32_t routerInput = kNone;  // The buffer that the router reads.
  int32_t expertsInput = kNone; // What the experts read, before quantization; often the same.
  std::vector<LaterRouter> laterRouters;
  std::vector<int32_t> weights; // Resident weights needed, ascending.
  std::vector<ResidentRange> ranges;
  std::vector<int32_t> liveBefore; // Buffers.
  uint64_t stateBytes = 0;         // Bytes of liveBefore, per token.

  uint64_t residentBytes() const {
    return ranges.empty() ? 0 : ranges.back().memoryOffset + ranges.back().bytes;
  }
};

/// Refuses programs in which a layer needs more from another layer than its state, such as keys.
Result<std::vector<Segment>> segmentsOf(const Artifact &artifact, const Program &program,
                                        const LayerwiseOptions &options);

/// The division of memory between tokens of a batch and experts. With a pool for the whole layer
/// every batch finds the experts that an earlier one has read, so small batches are enough; with a
/// smaller pool each batch reads the layer again and should be as large as possible.
struct LayerwiseSplit {
  uint32_t batchWindows = 0;
  uint64_t poolPages = 0;
};

/// `fits` returns whether a division is within the budget; it must be monotonic in both parts.
/// nullopt: not even the smallest fits.
std::optional<LayerwiseSplit>
splitLayerwise(uint64_t windows, uint64_t smallestPoolPages, uint64_t workingPoolPages,
               uint64_t layerPoolPages, const std::function<bool(const LayerwiseSplit &)> &fits);

/// The program that is executed: the one for many tokens.
const Program &layerwiseProgram(const Artifact &artifact);

/// Rows that a token has where it is routed, at most: more than one where tokens are images.
uint32_t mostRoutedRows(const Artifact &artifact);

/// Bytes of a window's memory: keys and values of its tokens, and states, of the layer that needs
/// most.
uint64_t windowMemoryBytes(const Artifact &artifact, uint32_t windowTokens);

} // namespace moert
