#include "compiler/plan/CacheReplay.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cassert>
#include <utility>

using namespace moert;

namespace moec {

static uint64_t pagesOf(uint64_t bytes, uint64_t pageBytes) {
  return divideUp(bytes, pageBytes);
}

// The limits of the runtime's own check (runtime/cache/CacheConfigCheck.h) that depend on a plan.
static Status check(const ReplayCache &cache) {
  if (cache.pageBytes == 0)
    return invalidInput("a cache has pages of no bytes");
  uint64_t quotas = 0;
  for (const ReplayLayer &layer : cache.layers)
    quotas += layer.quotaPages;
  for (size_t i = 0; i < cache.layers.size(); ++i) {
    const ReplayLayer &layer = cache.layers[i];
    uint64_t largest = 0;
    for (uint64_t bytes : layer.recordBytes)
      largest = std::max(largest, pagesOf(bytes, cache.pageBytes));
    bool isOnePool = cache.rules.sharing == CacheSharing::kOnePool;
    uint64_t pages = (isOnePool ? quotas : layer.quotaPages) + cache.stagingPages;
    if (pages < largest || largest > UINT32_MAX)
      return invalidInput("MoE layer ", i, " may hold ", pages, " pages, its largest record needs ",
                          largest);
    for (const std::vector<uint32_t> *list : {&layer.pinned, &layer.start})
      for (uint32_t expert : *list)
        if (expert >= layer.recordBytes.size())
          return invalidInput("MoE layer ", i, " has ", layer.recordBytes.size(),
                              " experts, its plan names ", expert);
    if (layer.startTokens == 0 ||
        (!layer.startUses.empty() && layer.startUses.size() != layer.start.size()))
      return invalidInput("MoE layer ", i, " starts with ", layer.start.size(),
                          " experts, uses are ", "given of ", layer.startUses.size(), " and ",
                          layer.startTokens, " tokens");
  }
  return {};
}

CacheReplay::CacheReplay(const ReplayCache &cache, const DirectorySize &size)
    : directory(cache.rules, cache.stagingPages, size), prefetchList(size) {
  for (const ReplayLayer &layer : cache.layers) {
    directory.addLayer(layer.quotaPages, layer.repeatsEveryStep);
    for (uint64_t recordBytes : layer.recordBytes) {
      directory.addExpert(static_cast<uint32_t>(pagesOf(recordBytes, cache.pageBytes)));
      bytes.push_back(recordBytes);
    }
  }
}

DirectorySize directorySizeOf(const ReplayCache &cache) {
  DirectorySize size{.layers = cache.layers.size()};
  for (const ReplayLayer &layer : cache.layers) {
    size.experts += layer.recordBytes.size();
    size.widestLayer = std::max(size.widestLayer, layer.recordBytes.size());
  }
  return size;
}

Result<CacheReplay> CacheReplay::create(const ReplayCache &cache) {
  MOERT_RETURN_IF_ERROR(check(cache));
  CacheReplay replay(cache, directorySizeOf(cache));
  MOERT_RETURN_IF_ERROR(replay.pinAndFill(cache));
  return replay;
}

Status CacheReplay::pinAndFill(const ReplayCache &cache) {
  for (uint32_t l = 0; l < cache.layers.size(); ++l)
    for (uint32_t expert : cache.layers[l].pinned) {
      uint32_t id = directory.idOf(l, expert);
      if (!directory.pin(id))
        return invalidInput("MoE layer ", l, " expert ", expert, " cannot be pinned: it has ",
                            directory.at(id).pages, " pages, ", directory.pinnedPages(id), " of ",
                            directory.pinLimitPages(id), " are pinned");
    }
  for (uint32_t l = 0; l < cache.layers.size(); ++l) {
    const ReplayLayer &layer = cache.layers[l];
    if (layer.start.empty())
      continue;
    std::vector<uint32_t> fitting, uses;
    PassDemand demand{layer.start, layer.startUses, layer.startTokens};
    if (!directory.selectFitting(l, demand, fitting, uses))
      return invalidInput("MoE layer ", l, " is to start with an expert twice");
    bytesAtStart += runPass(l, {fitting, uses, layer.startTokens}).bytesRead;
  }
  return {};
}

ReplayCounts &ReplayCounts::operator+=(const ReplayCounts &other) {
  hits += other.hits;
  misses += other.misses;
  evictions += other.evictions;
  bytesRead += other.bytesRead;
  prefetchesRead += other.prefetchesRead;
  prefetchBytes += other.prefetchBytes;
  prefetchesRetained += other.prefetchesRetained;
  useful += other.useful;
  cancelled += other.cancelled;
  return *this;
}

ReplayCounts CacheReplay::runPass(uint32_t layer, const PassDemand &demand,
                                  std::span<const LayerPrefetch> prefetches) {
  ReplayCounts counts;
  for (const LayerPrefetch &prefetch : prefetches)
    prefetchList.name(prefetch);
  bool isExecutable = directory.beginPass(layer, demand);
  assert(isExecutable);
  (void)isExecutable;
  for (uint32_t expert : demand.wanted)
    counts.hits += directory.at(directory.idOf(layer, expert)).isHeld;
  counts.misses = demand.wanted.size() - counts.hits;

  prefetchList.beginPass(directory, layer);
  counts.useful = prefetchList.useful().size();
  counts.cancelled = std::exchange(cancelledBetween, 0) + dropCancelled();
  prefetchList.select(directory);
  counts.prefetchesRetained = prefetchList.retained().size();

  for (uint32_t expert : demand.wanted) {
    uint32_t id = directory.idOf(layer, expert);
    if (directory.at(id).isHeld)
      continue;
    counts.bytesRead += bytes[id];
    directory.hold(id);
  }
  for (uint32_t id : directory.unkept())
    if (directory.at(id).isHeld)
      directory.drop(id);
  counts.evictions = directory.unkept().size();
  directory.endPass();
  readPrefetches(counts);
  return counts;
}

uint64_t CacheReplay::dropCancelled() {
  for (uint32_t id : prefetchList.cancelled())
    directory.dropPrefetch(id);
  return prefetchList.cancelled().size();
}

void CacheReplay::readPrefetches(ReplayCounts &counts) {
  while (prefetchList.hasNext() && directory.hasRoomForPrefetch(prefetchList.next())) {
    ++counts.prefetchesRead;
    counts.prefetchBytes += bytes[prefetchList.next()];
    counts.bytesRead += bytes[prefetchList.next()];
    prefetchList.begin(directory);
  }
}

uint64_t CacheReplay::beginPrompt() {
  prefetchList.cancelAll();
  cancelledBetween += dropCancelled();
  return beginPromptIn(directory);
}

uint64_t beginPromptIn(CacheDirectory &directory) {
  uint64_t evictions = 0;
  const bool onlyPinsStay = directory.cacheRules().survival == PromptSurvival::kPins;
  for (uint32_t layer = 0; onlyPinsStay && layer < directory.layerCount(); ++layer)
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert) {
      uint32_t id = directory.idOf(layer, expert);
      if (!directory.at(id).isHeld || directory.at(id).pins > 0)
        continue;
      directory.drop(id);
      ++evictions;
    }
  directory.beginPrompt();
  return evictions;
}

Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache) {
  bool isSame = trace.layerExperts.size() == cache.layers.size();
  for (size_t l = 0; isSame && l < cache.layers.size(); ++l)
    isSame = trace.layerExperts[l] == cache.layers[l].recordBytes.size();
  if (!isSame)
    return invalidInput("the trace and the cache are of different layers");
  MOERT_ASSIGN_OR_RETURN(CacheReplay replay, CacheReplay::create(cache));
  ReplayResult result;
  result.startBytes = replay.startBytes();
  result.passes.reserve(trace.passes.size());
  for (const RoutingPass &pass : trace.passes) {
    if (pass.beginsPrompt)
      replay.beginPrompt();
    ReplayCounts counts = replay.runPass(pass.layer, trace.demandOf(pass));
    result.total += counts;
    result.passes.push_back(counts);
  }
  return result;
}

} // namespace moec
