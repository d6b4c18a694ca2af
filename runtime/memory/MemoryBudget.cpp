#include "runtime/memory/MemoryBudget.h"

#include "runtime/memory/EngineMemory.h"

#include <algorithm>

namespace moert {

// An expert's entries in the tables of artifact, engine and cache: slices, variants, record, state,
// with the allocator's overhead of each list. 550 bytes were measured for one slice and a cache
// with one pool, before slices had a format of down, 16 bytes; each further slice has 64 in the
// artifact, 32 in the engine and 24 in the cache, and upper slices that leave the cache by
// themselves have 144 there.
static constexpr uint64_t kBytesPerExpert = 640;
static constexpr uint64_t kBytesPerFurtherSlice = 272;
// The views of a layer's matrices, once per list of slices: 3 views of 168 bytes, 3 formats of 32,
// and the lists that hold them.
static constexpr uint64_t kBytesPerLayout = 800;
static constexpr uint64_t kBytesPerLayer = 4096;
static_assert(kLayoutsOfLayer * kBytesPerLayout < kBytesPerLayer);
// The row of router probabilities and the lists of an expert-major prefill: 4 bytes each;
// probabilities and candidates of a prediction: 8 each; candidate lists of three layers: 76 in all.
static constexpr uint64_t kBytesPerExpertOfWidestLayer = 112;
// An instruction with its operands, or a buffer.
static constexpr uint64_t kBytesPerInstruction = 256;
// A resident tensor's entry in the artifact, its name and the engine's view of it.
static constexpr uint64_t kBytesPerResident = 512;
// A page's address in the lists of an expert's pages, and its bit in the free list.
static constexpr uint64_t kBytesPerPoolPage = 16;

uint64_t tableBytes(const TableEntries &entries) {
  return entries.experts * kBytesPerExpert + entries.furtherSlices * kBytesPerFurtherSlice +
         entries.moeLayers * kBytesPerLayer + entries.furtherLayouts * kBytesPerLayout +
         entries.widestLayer * kBytesPerExpertOfWidestLayer +
         entries.instructions * kBytesPerInstruction + entries.residents * kBytesPerResident +
         entries.poolPages * kBytesPerPoolPage;
}

uint64_t MemoryAccount::totalBytes() const {
  uint64_t total = 0;
  for (const MemoryItem &item : items)
    total += item.bytes;
  return total;
}

uint64_t MemoryAccount::heldBytes() const {
  uint64_t bytes = 0;
  for (const MemoryItem &item : items)
    bytes += item.isHeldBefore ? item.bytes : 0;
  return bytes;
}

uint64_t MemoryAccount::bytesOf(const char *owner) const {
  return std::find_if(items.begin(), items.end(),
                      [owner](const MemoryItem &item) { return item.name == owner; })
      ->bytes;
}

MemoryAccount accountMemory(const ModelFootprint &model, const ProcessFootprint &process,
                            const RunRequest &request, uint32_t prefillChunk, uint64_t poolPages) {
  MemoryAccount account;
  account.prefillChunk = prefillChunk;
  account.threads = request.threads;
  account.contextTokens = request.contextTokens;
  account.sessions = request.sessions;
  account.sessionTokens = request.sessionTokens != 0
                              ? request.sessionTokens
                              : uint64_t(request.contextTokens) * request.sessions;
  account.logitsRows = request.logitsRows;
  account.poolPages = poolPages;
  account.items = {
      {"program and libraries", process.imageBytes, true},
      {"heap and main stack", process.heapBytes, true},
      {owners::kThreads},
      {"model tables", model.metadataBytes, true},
      {"tokenizer", model.tokenizerBytes, true},
      {owners::kWeights},
      {owners::kKvCache},
      {owners::kStates},
      {owners::kActivations},
      {owners::kLogits},
      {"prompts and answers", request.extraBytes, true},
      {owners::kIo},
      {"reserve", process.reserveBytes + process.reserveBytesPerThread * request.threads, true},
      {owners::kPageTables},
      {owners::kExpertCache}};
  Ledger ledger(account.items);
  (void)EngineMemory::create(ledger, model, process, request, prefillChunk, poolPages);
  account.budgetBytes = account.totalBytes();
  return account;
}

RunRequest withFewestThreads(RunRequest request) {
  if (request.fewestThreads != 0)
    request.threads = std::min(request.threads, request.fewestThreads);
  return request;
}

MemoryAccount smallestAccount(const ModelFootprint &model, const ProcessFootprint &process,
                              const RunRequest &request) {
  return accountMemory(model, process, withFewestThreads(request),
                       request.prefillChunk.value_or(request.sessions),
                       smallestPoolPages(model.cache));
}

// The largest pool whose account is within the budget. The account grows with the pool in steps: a
// search page by page would be slow and a closed formula would have to repeat the steps, so it is
// found by bisection.
static uint64_t largestPoolWithin(const ModelFootprint &model, const ProcessFootprint &process,
                                  const RunRequest &request, uint32_t chunk, uint64_t budgetBytes) {
  uint64_t low = smallestPoolPages(model.cache), high = largestPoolPages(model.cache);
  while (low < high) {
    uint64_t middle = low + (high - low + 1) / 2;
    if (accountMemory(model, process, request, chunk, middle).totalBytes() <= budgetBytes)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static std::optional<MemoryAccount> accountWithThreads(const ModelFootprint &model,
                                                       const ProcessFootprint &process,
                                                       const RunRequest &request,
                                                       const BudgetSize &budget) {
  uint64_t smallestPool = smallestPoolPages(model.cache);
  if (budget.expertFraction) {
    uint64_t wanted = static_cast<uint64_t>(*budget.expertFraction *
                                            static_cast<double>(model.expertPayloadBytes));
    const uint64_t allPages = largestPoolPages(model.cache);
    // 100% includes the padding, which is not counted as expert bytes.
    uint64_t pages =
        *budget.expertFraction >= 1 ? allPages : std::min(wanted / model.pageBytes, allPages);
    if (pages < smallestPool)
      return std::nullopt;
    uint32_t chunk =
        request.prefillChunk.value_or(std::max(request.sessions, request.planPrefillChunk));
    return accountMemory(model, process, request, chunk, pages);
  }
  const uint32_t leastChunk = request.prefillChunk.value_or(request.sessions);
  if (accountMemory(model, process, request, leastChunk, smallestPool).totalBytes() > budget.bytes)
    return std::nullopt;
  uint32_t chunk =
      request.prefillChunk.value_or(std::max(request.sessions, request.planPrefillChunk));
  if (!request.prefillChunk) {
    uint64_t fixed = accountMemory(model, process, request, 0, 0).totalBytes();
    uint64_t room = budget.bytes > fixed ? budget.bytes - fixed : 0;
    while (
        chunk > request.sessions &&
        (model.arenaBytesPerToken * chunk > room / 8 ||
         accountMemory(model, process, request, chunk, smallestPool).totalBytes() > budget.bytes))
      chunk = std::max(request.sessions, chunk / 2);
  }
  uint64_t pages = largestPoolWithin(model, process, request, chunk, budget.bytes);
  MemoryAccount account = accountMemory(model, process, request, chunk, pages);
  account.budgetBytes = budget.bytes;
  return account;
}

std::optional<MemoryAccount> accountForBudget(const ModelFootprint &model,
                                              const ProcessFootprint &process,
                                              const RunRequest &request, const BudgetSize &budget) {
  return withMostThreads(request, [&](const RunRequest &threaded) {
    return accountWithThreads(model, process, threaded, budget);
  });
}

} // namespace moert
