// The budget's arithmetic: the memory that a process needs to run an artifact, item by item, before
// anything is loaded. Pure. The compiler's plan-memory pass uses it to prove a budget or to name
// the smallest that works; the runtime uses the same code to print the account and stay within it.
//
// Every item is an upper bound. The kernel's memory for the process (page tables, stacks, rings)
// counts, since a container's limit counts it too.
#pragma once

#include "runtime/memory/Ledger.h"
#include "runtime/policy/CacheAllotment.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moert {

/// The parts that depend on the artifact alone.
struct ModelFootprint {
  uint64_t residentBytes = 0;
  uint64_t metadataBytes = 0;         // The manifest and everything built from it.
  uint64_t pathsBytes = 0;            // The activation-path table, for plans that use it.
  uint64_t tokenizerBytes = 0;        // The table and everything built from it.
  uint64_t kvBytesPerToken = 0;       // All slots.
  uint64_t stateBytes = 0;            // All state slots of a sequence.
  uint64_t arenaBytesPerToken = 0;    // The largest program's.
  uint64_t logitsBytes = 0;           // One row.
  uint64_t attentionScratchBytes = 0; // Per thread, plus the next for each token of the context.
  uint64_t attentionScratchBytesPerContextToken = 0;
  uint32_t pageBytes = 0;
  uint64_t expertPayloadBytes = 0; // The 100% of a budget in percent.
  CacheShape cache;
};

/// Entries of the tables that are built from an artifact: its description, the engine's views of
/// matrices and instructions, the cache's states.
struct TableEntries {
  uint64_t experts = 0;
  uint64_t furtherSlices = 0; // All but the first of each expert.
  uint64_t moeLayers = 0;
  uint64_t furtherLayouts = 0; // Lists of slices in a layer beyond kLayoutsOfLayer.
  uint64_t widestLayer = 0;    // In experts.
  uint64_t instructions = 0;   // Plus buffers, of all programs.
  uint64_t residents = 0;
  uint64_t poolPages = 0; // In the largest pool.
};

/// Lists of slices in a layer whose views an entry of moeLayers covers.
constexpr uint64_t kLayoutsOfLayer = 4;

/// An upper bound of the tables' bytes.
uint64_t tableBytes(const TableEntries &entries);

/// The parts that depend on the program and the machine.
struct ProcessFootprint {
  uint64_t imageBytes = 0;        // Program and libraries, as mapped from their files.
  uint64_t heapBytes = 0;         // Small allocations, thread-local data, the main stack.
  uint64_t bytesPerThread = 0;    // Stack and kernel structures.
  uint64_t ioBytes = 0;           // Rings, request tables, threads of the I/O backend.
  uint64_t ioBytesPerPoolMiB = 0; // Registration of the pool with the kernel.
  uint64_t reserveBytes = 0;      // A stated reserve for memory that cannot be counted exactly...
  uint64_t reserveBytesPerThread = 0; // ...and for what the kernel charges ahead for each.
};

/// Threads that plans are made for. A machine with more cores runs such a plan all the same: a run
/// takes no more threads than its budget has memory for, and these it always has.
constexpr uint32_t kPlannedThreads = 4;

/// The parts that depend on the request.
struct RunRequest {
  uint32_t contextTokens = 0;
  std::optional<uint32_t> prefillChunk; // Absent: the plan's, less if the budget is too small.
  uint32_t planPrefillChunk = 0;        // Before a plan is chosen: the maximum of all plans.
  uint32_t threads = 1;                 // At most.
  uint32_t logitsRows = 1;              // Rows of logits held at a time.
  uint64_t extraBytes = 0;    // Prompt, profile, output: memory that the command itself holds.
  uint32_t sessions = 1;      // Sequences at a time. A batch has room for one token of each.
  uint64_t sessionTokens = 0; // Tokens of all sequences together; 0: contextTokens for each.
  uint32_t fewestThreads = 0; // Where the budget has no memory for more; 0: threads.
};

/// "512MiB", or a percentage of the expert bytes on top of everything else.
struct BudgetSize {
  uint64_t bytes = 0;
  std::optional<double> expertFraction; // 0.25 for "25%".
};

struct MemoryAccount {
  std::vector<MemoryItem> items; // The expert cache is the last one.
  uint64_t budgetBytes = 0;      // The limit.
  uint32_t prefillChunk = 0;
  uint32_t threads = 0;                                     // That the items have memory for.
  uint32_t contextTokens = 0, sessions = 0, logitsRows = 0; // As requested.
  uint64_t sessionTokens = 0;                               // All sessions together.
  uint64_t poolPages = 0;
  uint32_t plan = 0; // Index in the artifact, if the runtime chose among its plans.

  uint64_t totalBytes() const;
  /// The items that are held before loading.
  uint64_t heldBytes() const;
  /// What loading takes: all others.
  uint64_t loadedBytes() const { return totalBytes() - heldBytes(); }
  /// The bytes of the item with that name, which exists.
  uint64_t bytesOf(const char *owner) const;
};

/// The account for the given chunk and pool.
MemoryAccount accountMemory(const ModelFootprint &model, const ProcessFootprint &process,
                            const RunRequest &request, uint32_t prefillChunk, uint64_t poolPages);

/// The account, if there is one, with as many of the request's threads as it permits.
/// account: for a request, an account or nullopt.
template <typename Account>
std::optional<MemoryAccount> withMostThreads(RunRequest request, const Account &account) {
  const uint32_t fewest = request.fewestThreads != 0 ? request.fewestThreads : request.threads;
  std::optional<MemoryAccount> found = account(request);
  while (!found && request.threads > fewest) {
    --request.threads;
    found = account(request);
  }
  return found;
}

/// The request with its fewest threads.
RunRequest withFewestThreads(RunRequest request);

/// The smallest budget that works: a chunk of one token per session (or the requested one), the
/// smallest pool and the fewest threads.
MemoryAccount smallestAccount(const ModelFootprint &model, const ProcessFootprint &process,
                              const RunRequest &request);

/// The best use of a budget: the requested chunk, or the plan's, halved while the arena would take
/// more than an eighth of the memory left for the cache; everything else goes to the pool, up to
/// all experts. Takes fewer threads only where the budget holds nothing with more. nullopt if it is
/// below smallestAccount().
std::optional<MemoryAccount> accountForBudget(const ModelFootprint &model,
                                              const ProcessFootprint &process,
                                              const RunRequest &request, const BudgetSize &budget);

} // namespace moert
