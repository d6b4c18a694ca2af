// Describes the weights of a checkpoint: how they are stored, as text and as JSON. Reads headers
// and the shapes of quantized weights, no values.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// Weights that are stored in the same types.
struct StoredWeights {
  std::string type; // "BF16"; of quantized ones "F8_E4M3, scales F32".
  bool isQuantized = false;
  uint64_t tensors = 0;
  uint64_t values = 0;
  uint64_t bytes = 0; // Scales and other parts included.
};

/// Ascending by type. Refuses quantized weights whose parts are missing or do not fit.
moert::Result<std::vector<StoredWeights>> storedWeights(const Checkpoint &checkpoint);

moert::Result<std::string> describeCheckpoint(const Checkpoint &checkpoint);
moert::Result<std::string> checkpointAsJson(const Checkpoint &checkpoint);

} // namespace moec
