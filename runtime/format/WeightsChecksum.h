// A checksum that identifies an artifact's weights, whatever its plans are.
#pragma once

#include "runtime/format/Artifact.h"

namespace moert {

/// Identifies the weights and the tokenizer: equal for an artifact and its copies with other plans.
uint64_t weightsChecksum(const Artifact &artifact);

} // namespace moert
