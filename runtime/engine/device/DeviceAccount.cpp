#include "runtime/engine/device/DeviceAccount.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/engine/device/DeviceExecutor.h"
#include "runtime/memory/EngineMemory.h"

#include <algorithm>

namespace moert {

uint64_t attendScratchFloats(const Artifact &artifact, uint32_t contextTokens) {
  uint32_t widest = 0;
  for (const KvSlot &slot : artifact.kvSlots)
    widest = std::max(widest, slot.valueDim);
  return roundUp(device::AttendRows::scratchFloats(contextTokens, widest), 16);
}

DeviceNeeds deviceNeedsOf(const Artifact &artifact, const MemoryAccount &host) {
  const uint64_t chunk = host.prefillChunk;
  DeviceNeeds needs;
  needs.weights = artifact.residentBytes;
  needs.weightPages = artifact.residents.size() * sizeof(std::byte *);
  needs.keysAndValues = kvBytesPerToken(artifact) * host.sessionTokens;
  needs.arena = arenaBytesPerToken(artifact, false).total() * chunk;
  needs.scratch = attendScratchFloats(artifact, host.contextTokens) * kAttendBlocks * sizeof(float);
  needs.tokens = chunk * sizeof(device::TokenRow);
  needs.pairs = chunk * largestTopK(artifact) * sizeof(uint32_t);
  needs.logits = roundUp(artifact.model.vocabularySize, 16) * host.logitsRows * sizeof(float);
  needs.pageLists = DeviceExperts::listBytes(cacheShapeOf(artifact));
  return needs;
}

static Status checkPrograms(const Model &model, const EngineOptions &options) {
  const Artifact &artifact = model.artifact();
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions)
      if (!DeviceExecutor::isOnDevice(instruction))
        return invalidInput(model.path(), " has the instruction '", nameOf(instruction),
                            "', which devices do not have");
  for (const KvSlot &slot : artifact.kvSlots)
    if (slot.valueDim == 0)
      return invalidInput(model.path(), " keeps values in keys, which devices do not");
  if (!options.isExact && losesWithAny(artifact.plans))
    return invalidInput(model.path(), " has a plan with a miss rule, which devices do not apply; "
                                      "exact mode (--exact) waits for every expert");
  if (weighsWithAny(artifact.plans))
    return invalidInput(model.path(), " has a plan that evicts by importance, which devices do "
                                      "not measure");
  return {};
}

Result<MemoryAccount> accountDevice(const Model &model, const EngineOptions &options,
                                    const MemoryAccount &host, const char *deviceName,
                                    uint64_t freeBytes) {
  const Artifact &artifact = model.artifact();
  MOERT_RETURN_IF_ERROR(checkPrograms(model, options));
  const DeviceNeeds needs = deviceNeedsOf(artifact, host);
  const CacheShape shape = cacheShapeOf(artifact);
  const uint64_t smallest = needs.total() + smallestPoolPages(shape) * artifact.pageBytes;
  const BudgetSize budget = options.deviceMemory.value_or(BudgetSize{freeBytes, {}});
  uint64_t budgetBytes = budget.bytes;
  if (budget.expertFraction)
    budgetBytes =
        needs.total() +
        static_cast<uint64_t>(*budget.expertFraction *
                              static_cast<double>(footprintOf(artifact).expertPayloadBytes));
  if (budgetBytes < smallest)
    return invalidInput("a memory budget of ", formatExactBytes(budgetBytes), " of ", deviceName,
                        " is not enough; the smallest budget that works is ",
                        formatExactBytes(smallest));
  MemoryAccount account = host;
  account.poolPages =
      std::min((budgetBytes - needs.total()) / artifact.pageBytes, largestPoolPages(shape));
  account.items = {{owners::kWeights, needs.weights + needs.weightPages},
                   {owners::kKvCache, needs.keysAndValues},
                   {owners::kActivations, needs.arena + needs.scratch + needs.tokens + needs.pairs},
                   {owners::kLogits, needs.logits},
                   {"page lists", needs.pageLists},
                   {owners::kExpertCache, account.poolPages * artifact.pageBytes}};
  account.budgetBytes = budget.expertFraction ? account.totalBytes() : budgetBytes;
  return account;
}

} // namespace moert
