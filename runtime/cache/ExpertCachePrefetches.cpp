// The cache's reads of experts that nobody has asked for yet.
#include "runtime/cache/ExpertCache.h"

#include <cassert>

namespace moert {

void ExpertCache::prefetch(const LayerPrefetch &prefetched) {
  if (prefetchesUnderWay > 0)
    prefetches.name(prefetched);
}

/// The directory has decided on the layer pass of the layer.
void ExpertCache::beginPrefetches(uint32_t layer) {
  prefetches.beginPass(directory, layer);
  for (uint32_t id : prefetches.useful())
    passStats.ready += experts[id].slicesReady > 0;
  passStats.useful = prefetches.useful().size();
  for (uint32_t id : prefetches.cancelled())
    if (experts[id].slicesLoading > 0)
      experts[id].isCancelled = true;
    else
      letPrefetchGo(id);
  // Given up too early: what is cancelled is wanted after all and still on its way.
  for (uint32_t id : wanted)
    if (directory.at(id).isPrefetch) {
      directory.claimPrefetch(id);
      experts[id].isCancelled = false;
      ++passStats.useful;
    }
  prefetches.select(directory);
  passStats.prefetchesRetained += prefetches.retained().size();
  passStats.evictions += prefetches.retained().size();
}

Status ExpertCache::advanceReads() {
  if (!broken.isOk())
    return broken;
  Status advanced = queue.readsUnderWay() > 0 ? collect(false) : Status();
  if (advanced.isOk() && isPassOpen)
    advanced = startReads();
  if (!advanced.isOk())
    return isPassOpen ? fail(std::move(advanced)) : std::move(advanced);
  startPrefetches();
  return {};
}

/// As far as the demand leaves the disk and pages to them. What leaves anyway leaves early.
void ExpertCache::startPrefetches() {
  if (isPassOpen && nextRead < toRead.size())
    return;
  while (prefetches.hasNext() && prefetchesLoading < prefetchesUnderWay &&
         queue.readsUnderWay() < queue.maxReads()) {
    uint32_t id = prefetches.next();
    while (!directory.hasRoomForPrefetch(id) && isPassOpen && nextLeaving < leaving.size())
      evict(leaving[nextLeaving++]);
    if (!directory.hasRoomForPrefetch(id))
      return;
    startPrefetch(id);
  }
}

/// A read that cannot even be begun is not worth an error: nobody needs it yet.
void ExpertCache::startPrefetch(uint32_t id) {
  prefetches.begin(directory);
  if (!submitRead(id).isOk()) {
    if (!broken.isOk())
      return;
    prefetches.forget(id);
    directory.dropPrefetch(id);
    return;
  }
  experts[id].isReadAsPrefetch = true;
  ++prefetchesLoading;
  ++statsNow().prefetchesRead;
  statsNow().prefetchBytes += recordOf(id).bytes;
}

void ExpertCache::letPrefetchGo(uint32_t id) {
  prefetches.forget(id);
  givePagesBack(id);
  directory.dropPrefetch(id);
  ++statsNow().cancelled;
}

/// Nothing is being read.
void ExpertCache::letAllPrefetchesGo() {
  prefetches.cancelAll();
  for (uint32_t id : prefetches.cancelled())
    letPrefetchGo(id);
}

} // namespace moert
