// The norms of an artifact's experts, for plans that weigh experts by importance.
#pragma once

#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"
#include "runtime/format/Reader.h"

#include <cstdint>
#include <vector>

namespace moec {

/// The Euclidean norm of all stored weights of each expert, with all of its slices, per MoE layer
/// in units of kFixedPointOne of the layer's largest. Reads every record. Computed in double
/// precision in a fixed order: the same numbers on every machine.
moert::Result<std::vector<std::vector<uint32_t>>> expertNormsOf(const moert::ByteSource &source,
                                                                const moert::Artifact &artifact,
                                                                unsigned threads,
                                                                const Session &session);

} // namespace moec
