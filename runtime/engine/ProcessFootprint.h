// What this process costs apart from the model, known before anything is loaded.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/memory/MemoryBudget.h"

namespace moert {

/// Upper bounds, from the sizes of the mapped files and constants that stand beside their reasons.
/// The same on every start of the same program on the same machine.
ProcessFootprint processFootprint(const ReadQueueOptions &io);

} // namespace moert
