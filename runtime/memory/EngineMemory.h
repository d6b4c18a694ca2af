// What loading an engine takes of the host's memory, owner by owner. An account of memory is the
// same against a ledger that only counts, so that it cannot differ from what is taken.
#pragma once

#include "runtime/memory/Ledger.h"
#include "runtime/memory/MemoryBudget.h"

#include <cstdint>

namespace moert {

/// Names of owners, as accounts show them.
namespace owners {
inline constexpr const char *kThreads = "threads", *kWeights = "resident weights",
                            *kKvCache = "KV cache", *kStates = "recurrent states",
                            *kActivations = "activations", *kLogits = "logits", *kIo = "I/O",
                            *kPageTables = "page tables", *kExpertCache = "expert cache";
} // namespace owners

/// The memory that steps work in.
struct StepMemory {
  ReservedRegion arena;   // Buffers and lists of a batch's tokens.
  ReservedRegion scratch; // Attention's, of each thread, which begins at a page.
  ReservedRegion logits;  // Rows.

  static Result<StepMemory> create(Ledger &ledger, const ModelFootprint &model,
                                   const RunRequest &request, uint32_t tokens);
};

/// Regions come without their pages, but for those of steps: loading fills them. The ledger must
/// outlive it.
struct EngineMemory {
  Reservation threads, keysAndValues, states, io, pageTables;
  ReservedRegion weights;
  StepMemory step;
  ReservedRegion pool; // The expert cache has it.

  /// What others hold is in the ledger: page tables are those of the whole process.
  static Result<EngineMemory> create(Ledger &ledger, const ModelFootprint &model,
                                     const ProcessFootprint &process, const RunRequest &request,
                                     uint32_t prefillChunk, uint64_t poolPages);
};

} // namespace moert
