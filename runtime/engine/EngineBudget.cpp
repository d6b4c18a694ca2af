// Another budget for an engine that is at work.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/FloatMode.h"
#include "runtime/base/Size.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/memory/MemoryRoom.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <new>
#include <optional>
#include <utility>

namespace moert {

namespace {

/// Changes an engine's parts to another account, or nothing: what fails is made first, and every
/// step before it can be taken back without memory.
///
/// Memory is given back before other memory is taken, so that both budgets together are never held.
/// What is given back keeps its addresses (HostRegion::release) until nothing can fail any more.
class BudgetChange {
public:
  BudgetChange(EngineParts &changed, const Artifact &artifact, const MemoryAccount &accountBefore,
               const MemoryAccount &account)
      : parts(changed), before(accountBefore), next(account),
        planBefore(artifact.plans[before.plan]), plan(artifact.plans[next.plan]),
        poolBytes(next.poolPages * artifact.pageBytes),
        poolBytesBefore(before.poolPages * artifact.pageBytes),
        arenaBytes(parts.step.arenaBytesFor(next.prefillChunk)),
        arenaBytesBefore(parts.step.arenaBytesFor(parts.step.shape().tokens)) {
    parts.ledger->setCapacity(std::max(before.totalBytes(), next.totalBytes()));
  }
  ~BudgetChange() {
    if (!isDone)
      takeBack();
    parts.ledger->setCapacity((isDone ? next : before).totalBytes());
  }
  BudgetChange(const BudgetChange &) = delete;
  BudgetChange &operator=(const BudgetChange &) = delete;

  Status make();

private:
  bool poolShrinks() const { return poolBytes < poolBytesBefore; }
  bool loadsPaths() const { return usesPaths(plan) && !parts.experts->pathTable(); }
  Status prepare();
  /// Reserves what an account has for others than regions, once regions hold no more than it has.
  void reserveFor(const MemoryAccount &account) noexcept;
  void giveBack();
  Status take();
  void finish() noexcept;
  void takeBack() noexcept;

  EngineParts &parts;
  const MemoryAccount &before, &next;
  const Plan &planBefore, &plan;
  const uint64_t poolBytes, poolBytesBefore, arenaBytes, arenaBytesBefore;

  std::optional<CacheReconfiguration> cache;
  /// That of the account before, if the cache changes before something that may fail.
  std::optional<CacheReconfiguration> cacheBefore;
  std::optional<LoadedPaths> paths;
  bool hasNoPool = false; // The pool is not registered.
  bool isCacheChanged = false, isDone = false;
};

void BudgetChange::reserveFor(const MemoryAccount &account) noexcept {
  const std::array<std::pair<Reservation *, uint64_t>, 3> wanted = {
      {{&parts.held, account.heldBytes()},
       {&parts.memory.io, account.bytesOf(owners::kIo)},
       {&parts.memory.pageTables, account.bytesOf(owners::kPageTables)}}};
  for (const bool grows : {false, true}) // Room is made first.
    for (const auto &[reservation, bytes] : wanted)
      if ((bytes > reservation->bytes()) == grows) {
        [[maybe_unused]] const Status reserved = reservation->resize(bytes);
        assert(reserved.isOk() && "the ledger has room for either account");
      }
}

/// All tables.
Status BudgetChange::prepare() {
  MOERT_RETURN_IF_ERROR(parts.experts->cache().quiesce());
  MOERT_ASSIGN_OR_RETURN(cache, parts.experts->prepare(plan, next.poolPages));
  if (poolShrinks() && (arenaBytes > arenaBytesBefore || loadsPaths())) {
    MOERT_ASSIGN_OR_RETURN(cacheBefore, parts.experts->prepare(planBefore, before.poolPages));
  }
  return {};
}

void BudgetChange::giveBack() {
  if (poolBytes != poolBytesBefore) {
    hasNoPool = true;
    parts.experts->unregisterPool();
  }
  if (poolShrinks()) {
    parts.experts->apply(std::move(*cache));
    isCacheChanged = true;
    parts.experts->releasePool(poolBytes);
  }
  parts.step.memory.arena.release(arenaBytes);
  reserveFor(next);
  // They are not kept for a way back: without them nothing is predicted, and no bit changes.
  if (!usesPaths(plan))
    parts.experts->dropPaths();
}

Status BudgetChange::take() {
  if (loadsPaths()) {
    MOERT_ASSIGN_OR_RETURN(paths, parts.experts->loadPaths());
  }
  if (arenaBytes > arenaBytesBefore)
    MOERT_RETURN_IF_ERROR(parts.step.memory.arena.resize(arenaBytes).withContext("activations"));
  return poolBytes > poolBytesBefore ? parts.experts->growPool(poolBytes) : Status();
}

void BudgetChange::finish() noexcept {
  isDone = true;
  if (!isCacheChanged)
    parts.experts->apply(std::move(*cache));
  if (poolShrinks())
    parts.experts->shrinkPool(poolBytes);
  if (arenaBytes < arenaBytesBefore)
    (void)parts.step.memory.arena.resize(arenaBytes);
  parts.step.useArena(next.prefillChunk);
  parts.experts->takePlan(plan, std::move(paths));
  if (parts.misses)
    parts.misses->setRule(plan.miss);
  if (parts.importances)
    parts.importances->takePlan(plan);
  if (hasNoPool)
    parts.experts->registerPool(poolBytes);
  assert(parts.ledger->used() == next.totalBytes());
}

void BudgetChange::takeBack() noexcept {
  if (isCacheChanged)
    parts.experts->apply(std::move(*cacheBefore));
  if (arenaBytes > arenaBytesBefore)
    (void)parts.step.memory.arena.resize(arenaBytesBefore);
  reserveFor(before);
  (void)parts.step.memory.arena.takeBack();
  (void)parts.experts->takeBackPool();
  parts.step.useArena(parts.step.shape().tokens); // It may have moved.
  if (hasNoPool)
    parts.experts->registerPool(poolBytesBefore);
}

Status BudgetChange::make() {
  MOERT_RETURN_IF_ERROR(prepare());
  giveBack();
  MOERT_RETURN_IF_ERROR(take());
  finish();
  return {};
}

} // namespace

Status Engine::Impl::takeAccount(const MemoryAccount &next) {
  MemoryAccount taken = next;
  MOERT_RETURN_IF_ERROR(BudgetChange(*this, artifact(), account, next).make());
  account = std::move(taken);
  return {};
}

const MemoryAccount &Engine::account() const {
  return impl->account;
}

Status Engine::Impl::changeBudget(const BudgetSize &budget) {
  if (isStepping)
    return failed("a budget within a step: an observer must not call the engine");
  if (onDevice)
    return invalidInput("a budget for an engine on a device, whose memory is divided at loading");
  if (misses && misses->decoded())
    return failed("a budget for an engine that decodes in batches, whose cache is the plan's");
  EngineOptions wished = options;
  wished.memory = budget;
  wished.threads = wished.fewestThreads = account.threads; // They are running.
  const SystemMemory system = systemMemory();
  MOERT_RETURN_IF_ERROR(checkBudgetLimit(budget, system));
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount next, accountMemory(model, wished));
  MOERT_RETURN_IF_ERROR(checkGrowth(account, next, system));
  Status taken = takeAccount(next);
  if (taken.isOk())
    return taken;
  return std::move(taken).withContext(strCat("changing the memory budget from ",
                                             formatExactBytes(account.budgetBytes), " to ",
                                             formatExactBytes(next.budgetBytes)));
}

Status Engine::setBudget(const BudgetSize &budget) {
  const DefaultFloatMode mode;
  try {
    return impl->changeBudget(budget);
  } catch (const std::bad_alloc &) {
    return failed("changing the memory budget: there is no memory for the tables of another one");
  }
}

} // namespace moert
