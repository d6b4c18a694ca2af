// A cache gets other quotas and another pool while it is at work.
#include "runtime/experts/CacheConfigCheck.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace moert {

Status ExpertCache::quiesce() {
  MOERT_RETURN_IF_ERROR(checkCall(false, "quiesce"));
  drain();
  MOERT_RETURN_IF_ERROR(checkCall(false, "quiesce"));
  machine.cancelAllPrefetches();
  return act();
}

Result<CacheReconfiguration> ExpertCache::prepare(const CacheConfig &config) const {
  MOERT_RETURN_IF_ERROR(checkCacheConfig(config, queue));
  CacheReconfiguration next = {
      {config.layers.begin(), config.layers.end()},
      CacheMachine(directoryOf(config), {queue.maxReads(), config.prefetchesUnderWay}),
      PagePool(config.pool.size() >> pageShift),
      {},
      {}};
  assert(next.machine.state().size().experts == experts.size());
  makeLists(config, listPages, next.pageLists, next.freeLists);
  return next;
}

Status ExpertCache::reconfigure(const CacheConfig &config) {
  MOERT_ASSIGN_OR_RETURN(CacheReconfiguration next, prepare(config));
  MOERT_RETURN_IF_ERROR(quiesce());
  movePool(config.pool.data());
  apply(std::move(next));
  return {};
}

void ExpertCache::movePool(std::byte *memory) noexcept {
  for (uint32_t id = 0; id < experts.size(); ++id)
    if (experts[id].pageList != kNoPages)
      for (std::byte *&page : pagesOf(id))
        page = memory + (page - poolMemory);
  poolMemory = memory;
}

void ExpertCache::apply(CacheReconfiguration &&next) noexcept {
  next.machine.continueFrom(machine);
  // Pages that the pool still has stay where they are; the others move to free ones.
  for (uint32_t id = 0; id < experts.size(); ++id) {
    if (experts[id].pageList == kNoPages)
      continue;
    const PageRange pages =
        next.machine.state().pageRangeFor(id, next.machine.at(id).unit.slicesPresent);
    for (uint64_t i = pages.first; i < pages.end; ++i) {
      const auto page = static_cast<uint32_t>((pageListOf(id)[i] - poolMemory) >> pageShift);
      if (page < next.pool.pageCount())
        next.pool.claim({&page, 1});
    }
  }
  for (uint32_t id = 0; id < experts.size(); ++id)
    if (experts[id].pageList != kNoPages)
      keepPages(id, next);
  layers = std::move(next.layers);
  machine = std::move(next.machine);
  pool = std::move(next.pool);
  pageLists = std::move(next.pageLists);
  freeLists = std::move(next.freeLists);
}

/// Gives an expert a list of `next` with the pages that it keeps.
void ExpertCache::keepPages(uint32_t id, CacheReconfiguration &next) noexcept {
  const uint16_t present = next.machine.at(id).unit.slicesPresent;
  const PageRange pages = next.machine.state().pageRangeFor(id, present);
  Expert &entry = experts[id];
  std::byte *const *before = pageListOf(id);
  entry = {kNoPages, pages, std::min(entry.verifiedSlices, present)};
  if (pages.count() == 0)
    return;
  entry.pageList = next.freeLists.back();
  next.freeLists.pop_back();
  std::byte **list = &next.pageLists[entry.pageList * listPages];
  for (uint64_t i = pages.first; i < pages.end; ++i) {
    const auto pageBefore = static_cast<uint32_t>((before[i] - poolMemory) >> pageShift);
    uint32_t page = pageBefore;
    if (pageBefore >= next.pool.pageCount()) {
      const bool isAllocated = next.pool.allocate({&page, 1});
      assert(isAllocated && "the layers hold more than their quotas");
      (void)isAllocated;
      std::memcpy(poolMemory + (uint64_t(page) << pageShift), before[i], uint64_t(1) << pageShift);
    }
    list[i] = poolMemory + (uint64_t(page) << pageShift);
  }
}

} // namespace moert
