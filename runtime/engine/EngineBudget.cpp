// Another budget for an engine that is at work.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/FloatMode.h"
#include "runtime/base/Size.h"
#include "runtime/engine/ModelImpl.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/memory/MemoryRoom.h"

#include <new>
#include <optional>
#include <utility>

namespace moert {

CacheConfig Engine::Impl::cacheConfigOf(const Plan &plan, uint64_t poolPages,
                                        std::span<std::byte> memory,
                                        std::vector<CacheLayer> &layers) const {
  CacheConfig config = makeCacheConfig(*model, moeLayers, plan, poolPages, layers);
  config.pool = memory;
  config.threads = threads.get();
  if (options.isExact) { // Every expert is waited for: neither reading others gains, nor parts.
    config.rules.exchange.everyTokens = 0;
    config.rules.baseSlices = 0;
  }
  return config;
}

void Engine::Impl::registerPool(uint64_t bytes) noexcept {
  const MemoryPiece pool = {poolMemory.data(), bytes};
  try {
    queue->registerRegions({&pool, bytes > 0 ? size_t(1) : 0});
  } catch (const std::bad_alloc &) { // There is no memory for its lists.
  }
}

namespace {

/// Changes an engine to another account, or nothing: what fails is made first, and every step
/// before it can be taken back without memory.
///
/// Memory is given back before other memory is taken, so that both budgets together are never held.
/// What is given back keeps its addresses (HostRegion::release) until nothing can fail any more.
class BudgetChange {
public:
  BudgetChange(Engine::Impl &changed, const MemoryAccount &account)
      : engine(changed), next(account), plan(engine.artifact->plans[next.plan]),
        poolBytes(next.poolPages * engine.artifact->pageBytes),
        poolBytesBefore(engine.account.poolPages * engine.artifact->pageBytes),
        arenaBytes(engine.arenaBytesFor(next.prefillChunk)),
        arenaBytesBefore(engine.arenaBytesFor(engine.chunk)) {}
  ~BudgetChange() {
    if (!isDone)
      takeBack();
  }
  BudgetChange(const BudgetChange &) = delete;
  BudgetChange &operator=(const BudgetChange &) = delete;

  Status make();

private:
  bool poolShrinks() const { return poolBytes < poolBytesBefore; }
  bool loadsPaths() const { return usesPaths(plan) && !engine.paths.table; }
  Result<CacheReconfiguration> prepareCache(const MemoryAccount &account) const;
  Status prepare();
  void giveBack();
  Status take();
  void finish() noexcept;
  void takeBack() noexcept;

  Engine::Impl &engine;
  const MemoryAccount &next;
  const Plan &plan;
  const uint64_t poolBytes, poolBytesBefore, arenaBytes, arenaBytesBefore;

  StepTables tables;
  std::optional<CacheReconfiguration> cache;
  /// That of the account before, if the cache changes before something that may fail.
  std::optional<CacheReconfiguration> cacheBefore;
  std::optional<LoadedPaths> paths;
  bool hasNoPool = false; // The pool is not registered.
  bool isCacheChanged = false, isDone = false;
};

Result<CacheReconfiguration> BudgetChange::prepareCache(const MemoryAccount &account) const {
  const Plan &planned = engine.artifact->plans[account.plan];
  std::vector<CacheLayer> layers;
  const std::span<std::byte> pool = {engine.poolMemory.data(),
                                     account.poolPages * engine.artifact->pageBytes};
  MOERT_ASSIGN_OR_RETURN(
      CacheReconfiguration prepared,
      engine.cache->prepare(engine.cacheConfigOf(planned, account.poolPages, pool, layers)));
  CacheMachine &machine = prepared.machine;
  MOERT_RETURN_IF_ERROR(pinAsPlanned(planned, [&machine](uint32_t layer, uint32_t expert) {
    return machine.pin(machine.state().idOf(layer, expert)) ? Status()
                                                            : Status(StatusCode::kInvalidInput, "");
  }));
  return prepared;
}

/// All tables.
Status BudgetChange::prepare() {
  MOERT_RETURN_IF_ERROR(engine.cache->quiesce());
  tables = engine.makeStepTables(next.prefillChunk, usesPaths(plan));
  MOERT_ASSIGN_OR_RETURN(cache, prepareCache(next));
  if (poolShrinks() && (arenaBytes > arenaBytesBefore || loadsPaths())) {
    MOERT_ASSIGN_OR_RETURN(cacheBefore, prepareCache(engine.account));
  }
  return {};
}

void BudgetChange::giveBack() {
  if (poolBytes != poolBytesBefore) {
    // Registered memory is pinned: it could be neither given back nor moved.
    hasNoPool = true;
    engine.queue->registerRegions({});
  }
  if (poolShrinks()) {
    engine.cache->apply(std::move(*cache));
    isCacheChanged = true;
    engine.poolMemory.release(poolBytes);
  }
  engine.arena.release(arenaBytes);
  // They are not kept for a way back: without them nothing is predicted, and no bit changes.
  if (!usesPaths(plan)) {
    if (engine.paths.table)
      engine.prefetchRules = {};
    engine.paths = {};
  }
}

Status BudgetChange::take() {
  if (loadsPaths()) {
    MOERT_ASSIGN_OR_RETURN(paths, engine.loadPaths());
  }
  if (arenaBytes > arenaBytesBefore)
    MOERT_RETURN_IF_ERROR(engine.arena.resize(arenaBytes).withContext("activations"));
  if (poolBytes > poolBytesBefore) {
    Status grown = engine.poolMemory.resize(poolBytes);
    engine.cache->movePool(engine.poolMemory.data());
    MOERT_RETURN_IF_ERROR(std::move(grown).withContext("the expert cache"));
  }
  return {};
}

void BudgetChange::finish() noexcept {
  isDone = true;
  if (!isCacheChanged)
    engine.cache->apply(std::move(*cache));
  if (poolShrinks())
    (void)engine.poolMemory.resize(poolBytes);
  if (arenaBytes < arenaBytesBefore)
    (void)engine.arena.resize(arenaBytes);
  static_cast<StepTables &>(engine) = std::move(tables);
  engine.useArena(next.prefillChunk);
  if (paths)
    engine.paths = std::move(*paths);
  engine.prefetchRules = plan.prefetches;
  engine.missRule = engine.mayLose ? plan.miss : MissRule();
  engine.weighAsPlanned(plan);
  if (hasNoPool)
    engine.registerPool(poolBytes);
}

void BudgetChange::takeBack() noexcept {
  if (isCacheChanged)
    engine.cache->apply(std::move(*cacheBefore));
  if (arenaBytes > arenaBytesBefore)
    (void)engine.arena.resize(arenaBytesBefore);
  engine.useArena(engine.chunk); // It may have moved.
  if (hasNoPool)
    engine.registerPool(poolBytesBefore);
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
  MOERT_RETURN_IF_ERROR(BudgetChange(*this, next).make());
  account = std::move(taken);
  return {};
}

const MemoryAccount &Engine::account() const {
  return impl->account;
}

Status Engine::Impl::changeBudget(const BudgetSize &budget) {
  if (isStepping)
    return failed("a budget within a step: an observer must not call the engine");
  if (decodedCache)
    return failed("a budget for an engine that decodes in batches, whose cache is the plan's");
  EngineOptions wished = options;
  wished.memory = budget;
  wished.threads = wished.fewestThreads = account.threads; // They are running.
  const SystemMemory system = systemMemory();
  MOERT_RETURN_IF_ERROR(checkBudgetLimit(budget, system));
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount next, accountMemory(*model, wished));
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
