// Another budget for an engine that is at work.
#include "runtime/engine/EngineImpl.h"

#include "runtime/engine/ModelImpl.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/memory/MemoryRoom.h"

namespace moert {

CacheConfig Engine::Impl::cacheConfigOf(const Plan &plan, uint64_t poolPages,
                                        std::span<std::byte> memory) {
  CacheConfig config = makeCacheConfig(*model, moeLayers, plan, poolPages, cacheLayers);
  config.pool = memory;
  config.threads = threads.get();
  if (options.isExact) { // Every expert is waited for: neither reading others gains, nor parts.
    config.rules.exchange.everyTokens = 0;
    config.rules.baseSlices = 0;
  }
  return config;
}

Status Engine::Impl::resizePool(const Plan &plan, uint64_t poolPages) {
  const uint64_t before = poolMemory.bytes(), bytes = poolPages * artifact->pageBytes;
  const auto registerPool = [&] {
    const MemoryPiece pool = {poolMemory.data(), poolMemory.bytes()};
    queue->registerRegions({&pool, 1});
  };
  if (bytes <= before)
    MOERT_RETURN_IF_ERROR(
        cache->reconfigure(cacheConfigOf(plan, poolPages, poolMemory.span().first(bytes))));
  else
    MOERT_RETURN_IF_ERROR(cache->quiesce());
  // Registered memory is pinned: it could be neither given back nor moved.
  Status resized;
  if (bytes != before) {
    queue->registerRegions({});
    resized = poolMemory.resize(bytes);
    registerPool();
  }
  if (bytes > before && resized.isOk())
    resized = cache->reconfigure(cacheConfigOf(plan, poolPages, poolMemory.span()));
  return resized;
}

// Shrinks first, so that both budgets together are never held.
Status Engine::Impl::takeAccount(const MemoryAccount &next) {
  const Plan &plan = artifact->plans[next.plan];
  const bool poolGrows = next.poolPages * artifact->pageBytes > poolMemory.bytes();
  prefetchRules = {};
  if (next.prefillChunk < chunk)
    MOERT_RETURN_IF_ERROR(resizeStepMemory(next.prefillChunk));
  if (!poolGrows)
    MOERT_RETURN_IF_ERROR(resizePool(plan, next.poolPages));
  if (!usesPaths(plan)) {
    paths.reset();
    pathsSection = {};
  } else if (!paths) {
    MOERT_RETURN_IF_ERROR(loadPaths(model->impl->file));
  }
  if (poolGrows)
    MOERT_RETURN_IF_ERROR(resizePool(plan, next.poolPages));
  if (next.prefillChunk > chunk)
    MOERT_RETURN_IF_ERROR(resizeStepMemory(next.prefillChunk));
  MOERT_RETURN_IF_ERROR(pinAsPlanned(plan, *cache));
  prefetchRules = plan.prefetches;
  missRule = mayLose ? plan.miss : MissRule();
  weighAsPlanned(plan);
  account = next;
  return {};
}

const MemoryAccount &Engine::account() const {
  return impl->account;
}

Status Engine::setBudget(const BudgetSize &budget) {
  if (impl->isStepping)
    return failed("a budget within a step: an observer must not call the engine");
  if (impl->decodedCache)
    return failed("a budget for an engine that decodes in batches, whose cache is the plan's");
  EngineOptions options = impl->options;
  options.memory = budget;
  options.threads = options.fewestThreads = impl->account.threads; // They are running.
  const SystemMemory system = systemMemory();
  MOERT_RETURN_IF_ERROR(checkBudgetLimit(budget, system));
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount account, accountMemory(*impl->model, options));
  MOERT_RETURN_IF_ERROR(checkGrowth(impl->account, account, system));
  return impl->takeAccount(account);
}

} // namespace moert
