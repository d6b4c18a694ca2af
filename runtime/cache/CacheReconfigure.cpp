// A cache gets other quotas and another pool while it is at work.
#include "runtime/cache/CacheConfigCheck.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace moert {

Status ExpertCache::quiesce() {
  MOERT_RETURN_IF_ERROR(checkCall(false, "quiesce"));
  drain();
  MOERT_RETURN_IF_ERROR(checkCall(false, "quiesce"));
  machine.cancelAllPrefetches();
  return act();
}

Status ExpertCache::reconfigure(const CacheConfig &config) {
  MOERT_RETURN_IF_ERROR(checkCacheConfig(config, queue));
  MOERT_RETURN_IF_ERROR(quiesce());
  CacheMachine next(directoryOf(config), {queue.maxReads(), config.prefetchesUnderWay});
  next.continueFrom(machine);
  assert(next.state().size().experts == experts.size());
  const std::vector<std::byte *> listsBefore = std::move(pageLists);
  std::vector<std::vector<uint32_t>> pagesBefore(experts.size());
  for (uint32_t id = 0; id < experts.size(); ++id) {
    Expert &entry = experts[id];
    if (entry.pageList == kNoPages)
      continue;
    const uint16_t present = next.at(id).unit.slicesPresent;
    const PageRange pages = next.state().pageRangeFor(id, present);
    for (uint64_t i = pages.first; i < pages.end; ++i)
      pagesBefore[id].push_back(static_cast<uint32_t>(
          (listsBefore[entry.pageList * listPages + i] - poolMemory) >> pageShift));
    entry = {kNoPages, pages, std::min(entry.verifiedSlices, present)};
  }
  machine = std::move(next);
  makeLists(mostExpertsHeld(config));
  layers.assign(config.layers.begin(), config.layers.end());
  moveExperts(pagesBefore, config.pool);
  return {};
}

/// Experts keep their pages that the pool still has; their other pages move to free ones.
void ExpertCache::moveExperts(std::span<std::vector<uint32_t>> pagesOfExperts,
                              std::span<std::byte> memory) {
  PagePool next(memory.size() >> pageShift);
  for (const std::vector<uint32_t> &pages : pagesOfExperts)
    for (uint32_t page : pages)
      if (page < next.pageCount())
        next.claim({&page, 1});
  for (uint32_t id = 0; id < pagesOfExperts.size(); ++id) {
    if (pagesOfExperts[id].empty())
      continue;
    experts[id].pageList = freeLists.back();
    freeLists.pop_back();
    std::span<std::byte *> pages = pagesOf(id);
    for (size_t i = 0; i < pages.size(); ++i) {
      uint32_t page = pagesOfExperts[id][i];
      if (page >= next.pageCount()) {
        assert(poolMemory == memory.data());
        const std::byte *source = poolMemory + (uint64_t(page) << pageShift);
        const bool isAllocated = next.allocate({&page, 1});
        assert(isAllocated && "the layers hold more than their quotas");
        (void)isAllocated;
        std::memcpy(memory.data() + (uint64_t(page) << pageShift), source,
                    uint64_t(1) << pageShift);
      }
      pages[i] = memory.data() + (uint64_t(page) << pageShift);
    }
  }
  pool = std::move(next);
  poolMemory = memory.data();
}

} // namespace moert
