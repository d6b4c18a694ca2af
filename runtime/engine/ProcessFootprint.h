// The memory of this process apart from the model, computed before anything is loaded.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/memory/MemoryBudget.h"

namespace moert {

/// Upper bounds, from the sizes of the mapped files and from constants that are explained where
/// they are defined. The same on every start of the same program on the same machine.
ProcessFootprint processFootprint(const ReadQueueOptions &io);

} // namespace moert
