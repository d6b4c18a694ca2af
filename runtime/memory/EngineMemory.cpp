#include "runtime/memory/EngineMemory.h"

#include "runtime/base/CheckedMath.h"

namespace moert {

static constexpr uint64_t kPageBytes = 4096, kMiB = 1 << 20;

// The processor's page tables: 8 bytes per 4 KiB page, one table page per 512 of them and so on;
// 1/500 covers all levels. The constant covers tables that a mapping uses only in part.
static uint64_t pageTableBytes(uint64_t mappedBytes) {
  return mappedBytes / 500 + 256 * 1024;
}

/// Each session's keys and values begin at a page.
static uint64_t keyAndValueBytes(const ModelFootprint &model, const RunRequest &request) {
  if (request.sessionTokens == 0)
    return roundUp(model.kvBytesPerToken * request.contextTokens, kPageBytes) * request.sessions;
  return roundUp(model.kvBytesPerToken * request.sessionTokens, kPageBytes) +
         uint64_t(request.sessions - 1) * kPageBytes;
}

static Status take(Reservation &of, Ledger &ledger, const char *owner, uint64_t bytes) {
  MOERT_ASSIGN_OR_RETURN(of, ledger.reserve(owner, bytes));
  return {};
}

static Status take(ReservedRegion &of, Ledger &ledger, const char *owner, uint64_t bytes,
                   Populate populate) {
  MOERT_ASSIGN_OR_RETURN(of, ReservedRegion::create(ledger, owner, bytes, populate));
  return {};
}

Result<StepMemory> StepMemory::create(Ledger &ledger, const ModelFootprint &model,
                                      const RunRequest &request, uint32_t tokens) {
  const uint64_t scratch = model.attentionScratchBytes +
                           model.attentionScratchBytesPerContextToken * request.contextTokens;
  StepMemory made;
  MOERT_RETURN_IF_ERROR(take(made.arena, ledger, owners::kActivations,
                             model.arenaBytesPerToken * tokens, Populate::kYes));
  MOERT_RETURN_IF_ERROR(take(made.scratch, ledger, owners::kActivations,
                             roundUp(scratch, kPageBytes) * request.threads, Populate::kYes));
  MOERT_RETURN_IF_ERROR(take(made.logits, ledger, owners::kLogits,
                             model.logitsBytes * request.logitsRows, Populate::kYes));
  return made;
}

Result<EngineMemory> EngineMemory::create(Ledger &ledger, const ModelFootprint &model,
                                          const ProcessFootprint &process,
                                          const RunRequest &request, uint32_t prefillChunk,
                                          uint64_t poolPages) {
  const uint64_t poolBytes = poolPages * model.pageBytes;
  EngineMemory made;
  MOERT_RETURN_IF_ERROR(
      take(made.threads, ledger, owners::kThreads, process.bytesPerThread * request.threads));
  MOERT_RETURN_IF_ERROR(
      take(made.weights, ledger, owners::kWeights, model.residentBytes, Populate::kNo));
  MOERT_RETURN_IF_ERROR(
      take(made.keysAndValues, ledger, owners::kKvCache, keyAndValueBytes(model, request)));
  MOERT_RETURN_IF_ERROR(take(made.states, ledger, owners::kStates,
                             roundUp(model.stateBytes, kPageBytes) * request.sessions));
  MOERT_ASSIGN_OR_RETURN(made.step, StepMemory::create(ledger, model, request, prefillChunk));
  MOERT_RETURN_IF_ERROR(
      take(made.io, ledger, owners::kIo,
           process.ioBytes + process.ioBytesPerPoolMiB * divideUp(poolBytes, kMiB)));
  MOERT_RETURN_IF_ERROR(take(made.pageTables, ledger, owners::kPageTables,
                             pageTableBytes(ledger.used() + poolBytes)));
  MOERT_RETURN_IF_ERROR(take(made.pool, ledger, owners::kExpertCache, poolBytes, Populate::kNo));
  return made;
}

} // namespace moert
