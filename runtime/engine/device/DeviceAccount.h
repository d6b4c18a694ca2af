// What an engine takes of a device's memory, before it takes it.
#pragma once

#include "runtime/engine/Engine.h"

#include <cstdint>

namespace moert {

/// Bytes by what they are for, but for the pool of experts.
struct DeviceNeeds {
  uint64_t weights = 0, weightPages = 0; // Resident weights; where each of them is.
  uint64_t keysAndValues = 0;            // All sessions.
  uint64_t arena = 0, scratch = 0, tokens = 0, pairs = 0;
  uint64_t logits = 0;
  uint64_t pageLists = 0; // Those of the experts.
  uint64_t total() const {
    return weights + weightPages + keysAndValues + arena + scratch + tokens + pairs + logits +
           pageLists;
  }
};

/// For a run with this account of the host's.
DeviceNeeds deviceNeedsOf(const Artifact &artifact, const MemoryAccount &host);

/// Blocks of the attention kernel, each with its scratch.
constexpr uint32_t kAttendBlocks = 256;
uint64_t attendScratchFloats(const Artifact &artifact, uint32_t contextTokens);

/// DeviceBackend::account() of a device with so much free memory.
Result<MemoryAccount> accountDevice(const Model &model, const EngineOptions &options,
                                    const MemoryAccount &host, const char *deviceName,
                                    uint64_t freeBytes);

} // namespace moert
