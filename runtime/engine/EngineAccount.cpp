#include "runtime/engine/EngineAccount.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/FloatMode.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/MissDecisions.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/engine/ProcessFootprint.h"
#include "runtime/memory/EngineMemory.h"

#include <algorithm>

namespace moert {

namespace {

// Far more than any use needs, and far below where an account's numbers would wrap.
constexpr uint32_t kMostSessions = 4096;

/// A copy of the cache's tables, and what is kept of the rows of a batch.
uint64_t decodedBatchBytes(const Artifact &artifact, uint64_t rows) {
  uint64_t experts = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    experts += layer.experts.size();
  constexpr uint64_t kBytesPerExpert = sizeof(DirectoryEntry) + 72; // And its places in lists.
  return experts * kBytesPerExpert + MissDecisions::batchBytes(artifact, rows);
}

/// What a plan with a miss rule loses was stated for its cache.
Status refuseLossyBudget(const Model &model, const EngineOptions &options,
                         const MemoryAccount &smallest, const BudgetSize &budget) {
  const Artifact &artifact = model.artifact();
  const Plan &plan = artifact.plans[smallest.plan];
  const std::string found =
      budget.expertFraction
          ? strCat("a memory budget of ", *budget.expertFraction * 100, "%")
          : strCat(options.memory ? "a memory budget of " : "available memory of ",
                   formatExactBytes(budget.bytes));
  return invalidInput(
      found, " is less than plan '", plan.name, "' of ", model.path(),
      " was made for: its miss rule '", nameOf(plan.miss.action),
      "' changes the output with the size of the cache, so this run needs ",
      formatExactBytes(smallest.totalBytes()), ", with ",
      formatExactBytes(smallest.poolPages * artifact.pageBytes),
      " for experts; exact mode (--exact) waits for every expert and runs with less");
}

/// A rule that lowers experts of prompts decides by the experts of a whole chunk.
Status checkPromptChunk(const Model &model, const EngineOptions &options, const Plan &plan) {
  const uint32_t planned = std::min(plan.prefillChunk, options.contextTokens);
  if (options.isExact || !plan.miss.changesPrompts() ||
      std::min(options.prefillChunk.value_or(planned), options.contextTokens) == planned)
    return {};
  return invalidInput("a prefill chunk of ", *options.prefillChunk, " tokens, but plan '",
                      plan.name, "' of ", model.path(), " lowers experts by chunks of ",
                      plan.prefillChunk,
                      " tokens, with which its loss was measured; expected no other "
                      "chunk, or exact mode (--exact)");
}

} // namespace

Result<AccountInput> accountInputOf(const Model &model, const EngineOptions &options) {
  const Artifact &artifact = model.artifact();
  if (options.contextTokens == 0 || options.contextTokens > artifact.model.maxPositions)
    return invalidInput(model.path(), ": a context of ", options.contextTokens,
                        " tokens, expected 1 to ", artifact.model.maxPositions,
                        ", the positions of this model");
  AccountInput input;
  MOERT_ASSIGN_OR_RETURN(input.plans, plansToChooseFrom(model, options));
  if (options.prefillChunk && *options.prefillChunk == 0)
    return invalidInput("a prefill chunk of 0 tokens, expected at least 1");
  if (options.sessions == 0 || options.sessions > kMostSessions)
    return invalidInput(options.sessions, " sessions, expected 1 to ", kMostSessions);
  const uint64_t contextTokens = roundUp(options.contextTokens, kKvBlockTokens);
  if (options.sessionTokens != 0 && options.sessionTokens < contextTokens)
    return invalidInput("sessions of ", options.sessionTokens,
                        " tokens together, expected at least one context of ", contextTokens);
  if (options.logitsRows == 0 || options.threads == 0)
    return invalidInput(options.logitsRows, " rows of logits and ", options.threads,
                        " threads, expected at least 1 of each");
  RunRequest &request = input.request;
  request.contextTokens = static_cast<uint32_t>(contextTokens);
  // No chunk has more rows than there are tokens; memory for more would stay unused.
  request.planPrefillChunk = options.contextTokens;
  if (options.prefillChunk)
    request.prefillChunk = std::min(*options.prefillChunk, options.contextTokens);
  if (computesWholeCalls(artifact)) {
    if (options.prefillChunk && *options.prefillChunk < options.contextTokens)
      return invalidInput("a prefill chunk of ", *options.prefillChunk, " tokens, but ",
                          model.path(), " computes an input as a whole; expected no chunk");
    request.prefillChunk = options.contextTokens;
  }
  request.threads = options.threads;
  request.fewestThreads =
      std::min(options.threads, options.fewestThreads ? options.fewestThreads : kPlannedThreads);
  request.logitsRows = options.logitsRows;
  request.extraBytes = options.extraBytes;
  // By all plans, as the engine does: another budget may switch to any of them.
  const bool mayLose = !options.isExact && losesWithAny(artifact.plans);
  if (options.decodesInBatches && mayLose)
    request.extraBytes += decodedBatchBytes(artifact, request.planPrefillChunk);
  request.sessions = options.sessions;
  request.sessionTokens = options.sessionTokens;
  input.process = processFootprint(readQueueOptions(artifact, options.io, {}));
  if (options.sharesProcess)
    input.process.imageBytes = input.process.heapBytes = input.process.reserveBytes =
        input.process.reserveBytesPerThread = 0;
  input.footprint = footprintOf(model, mayLose);
  return input;
}

std::string largestItems(const MemoryAccount &account) {
  constexpr size_t kShown = 4;
  std::vector<MemoryItem> items = account.items;
  std::stable_sort(items.begin(), items.end(),
                   [](const MemoryItem &a, const MemoryItem &b) { return a.bytes > b.bytes; });
  std::string text;
  uint64_t rest = account.totalBytes();
  for (size_t i = 0; i < kShown && i < items.size(); ++i) {
    const bool isKv = items[i].name == owners::kKvCache;
    text += strCat(i == 0 ? ": " : ", ", items[i].name,
                   isKv ? strCat(" for ", account.sessionTokens, " tokens ") : " ",
                   formatBytes(items[i].bytes));
    rest -= items[i].bytes;
  }
  return strCat(text, ", everything else ", formatBytes(rest));
}

Result<MemoryAccount> accountMemory(const Model &model, const EngineOptions &options) {
  const DefaultFloatMode mode;
  MOERT_ASSIGN_OR_RETURN(const AccountInput input, accountInputOf(model, options));
  const Artifact &artifact = model.artifact();
  BudgetSize budget = options.memory.value_or(BudgetSize{availableMemoryBytes(), {}});
  std::optional<MemoryAccount> account =
      accountOfLargestPlan(artifact, input.plans, input.footprint, input.process, input.request,
                           budget, !options.isExact);
  if (account) {
    MOERT_RETURN_IF_ERROR(checkPromptChunk(model, options, artifact.plans[account->plan]));
    return *account;
  }
  const MemoryAccount smallestPlan = smallestPlanAccount(
      artifact, input.plans, input.footprint, input.process, input.request, !options.isExact);
  const uint64_t smallest = smallestPlan.totalBytes();
  if (const Plan &plan = artifact.plans[smallestPlan.plan]; plan.miss.isLossy() && !options.isExact)
    return refuseLossyBudget(model, options, smallestPlan, budget);
  if (budget.expertFraction)
    return invalidInput(
        "a memory budget of ", *budget.expertFraction * 100, "%: the expert cache would hold ",
        formatExactBytes(static_cast<uint64_t>(
            *budget.expertFraction * static_cast<double>(input.footprint.expertPayloadBytes))),
        ", less than the largest expert; the smallest budget that works is ",
        formatExactBytes(smallest), largestItems(smallestPlan));
  return invalidInput(options.memory ? "a memory budget of " : "available memory of ",
                      formatExactBytes(budget.bytes),
                      " is not enough; the smallest budget that works is ",
                      formatExactBytes(smallest), largestItems(smallestPlan));
}

Result<uint64_t> smallestBudget(const Model &model, const EngineOptions &options) {
  const DefaultFloatMode mode;
  MOERT_ASSIGN_OR_RETURN(const AccountInput input, accountInputOf(model, options));
  return smallestPlanAccount(model.artifact(), input.plans, input.footprint, input.process,
                             input.request, !options.isExact)
      .totalBytes();
}

} // namespace moert
