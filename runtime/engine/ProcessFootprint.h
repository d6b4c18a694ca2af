// What this process costs apart from the model, known before anything is loaded.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/policy/MemoryBudget.h"

namespace moert {

/// Upper bounds, from the sizes of the mapped files and constants that stand beside their reasons.
/// The same on every start of the same program on the same machine.
ProcessFootprint processFootprint(const ReadQueueOptions &io);

/// Cores that this process may use: its affinity, and a container's quota rounded up.
uint32_t availableCores();

/// The smallest of the memory cgroup's limits (v1 and v2, along the path to the root) and of the
/// memory that is free now; the whole is what a run without a budget may take.
uint64_t availableMemoryBytes();

} // namespace moert
