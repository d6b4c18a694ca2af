#include "compiler/plan/CacheReplay.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/policy/InstantReads.h"

#include <algorithm>
#include <utility>

using namespace moert;

namespace moec {

static Status checkSlices(size_t index, const ReplayLayer &layer) {
  if (layer.sliceEnds.empty())
    return {};
  bool isGood =
      layer.sliceEnds.size() == layer.recordBytes.size() &&
      (layer.lowCopySlices.empty() || layer.lowCopySlices.size() == layer.recordBytes.size());
  for (size_t i = 0; isGood && i < layer.sliceEnds.size(); ++i) {
    const std::vector<uint64_t> &ends = layer.sliceEnds[i];
    const size_t low = layer.lowCopySlicesOf(i);
    isGood = low < ends.size() && ends.size() <= UINT16_MAX &&
             std::is_sorted(ends.begin(), ends.end()) &&
             ends.back() - (low == 0 ? 0 : ends[low - 1]) == layer.recordBytes[i];
  }
  return isGood ? Status()
                : invalidInput("MoE layer ", index, " has slices that do not fill its records");
}

/// The most pages that an expert needs.
static uint64_t mostPagesOf(const ReplayLayer &layer, size_t expert, uint64_t pageBytes) {
  const uint16_t low = layer.lowCopySlicesOf(expert);
  if (low == 0)
    return divideUp(layer.recordBytes[expert], pageBytes);
  const std::vector<uint64_t> &ends = layer.sliceEnds[expert];
  const uint64_t pages = divideUp(ends.back(), pageBytes);
  if (pages > UINT32_MAX) // Beyond the numbers of pages.
    return pages;
  return expertPagesOf(ends.back(), low, ends[low - 1u], true, pageBytes).most();
}

// The limits of the runtime's own check (runtime/experts/CacheConfigCheck.h) that depend on a plan.
static Status check(const ReplayCache &cache) {
  if (cache.pageBytes == 0)
    return invalidInput("a cache has pages of no bytes");
  uint64_t quotas = 0;
  for (const ReplayLayer &layer : cache.layers)
    quotas += layer.quotaPages;
  for (size_t i = 0; i < cache.layers.size(); ++i) {
    const ReplayLayer &layer = cache.layers[i];
    uint64_t largest = 0;
    MOERT_RETURN_IF_ERROR(checkSlices(i, layer));
    for (size_t expert = 0; expert < layer.recordBytes.size(); ++expert)
      largest = std::max(largest, mostPagesOf(layer, expert, cache.pageBytes));
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

static CacheDirectory directoryOf(const ReplayCache &cache) {
  DirectorySize size{.layers = cache.layers.size()};
  for (const ReplayLayer &layer : cache.layers) {
    size.experts += layer.recordBytes.size();
    size.widestLayer = std::max(size.widestLayer, layer.recordBytes.size());
  }
  CacheDirectory directory(cache.rules, cache.stagingPages, size);
  for (const ReplayLayer &layer : cache.layers) {
    directory.addLayer(layer.quotaPages, layer.repeatsEveryStep);
    for (size_t expert = 0; expert < layer.recordBytes.size(); ++expert) {
      const uint64_t bytes = layer.recordBytes[expert];
      if (layer.sliceEnds.empty())
        directory.addExpert(static_cast<uint32_t>(divideUp(bytes, cache.pageBytes)), bytes);
      else
        directory.addExpert(layer.sliceEnds[expert], cache.pageBytes,
                            layer.lowCopySlicesOf(expert));
    }
  }
  return directory;
}

CacheReplay::CacheReplay(const ReplayCache &cache)
    : machine(directoryOf(cache), {kMostReads, kMostPrefetchReads}) {}

Result<CacheReplay> CacheReplay::create(const ReplayCache &cache) {
  MOERT_RETURN_IF_ERROR(check(cache));
  CacheReplay replay(cache);
  MOERT_RETURN_IF_ERROR(replay.pinAndFill(cache));
  return replay;
}

Status CacheReplay::pinAndFill(const ReplayCache &cache) {
  const CacheDirectory &directory = machine.state();
  for (uint32_t l = 0; l < cache.layers.size(); ++l)
    for (uint32_t expert : cache.layers[l].pinned) {
      uint32_t id = directory.idOf(l, expert);
      if (!machine.pin(id))
        return invalidInput("MoE layer ", l, " expert ", expert, " cannot be pinned: it has ",
                            directory.at(id).pages.most(), " pages, ", directory.pinnedPages(id),
                            " of ", directory.pinLimitPages(id), " are pinned");
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

CacheCounts CacheReplay::runPass(uint32_t layer, const PassDemand &demand,
                                 std::span<const LayerPrefetch> prefetches) {
  for (const LayerPrefetch &prefetch : prefetches)
    machine.prefetch(prefetch);
  executeInstantly(machine, layer, demand);
  return machine.takeCounts();
}

void CacheReplay::beginPrompt() {
  machine.beginPrompt();
  actInstantly(machine);
}

Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache,
                                 const MissRule &miss, std::span<const LayerScores> scores) {
  bool isSame = trace.layerExperts.size() == cache.layers.size();
  for (size_t l = 0; isSame && l < cache.layers.size(); ++l)
    isSame = trace.layerExperts[l] == cache.layers[l].recordBytes.size();
  if (!isSame)
    return invalidInput("the trace and the cache are of different layers");
  MOERT_ASSIGN_OR_RETURN(CacheReplay replay, CacheReplay::create(cache));
  ReplayResult result;
  result.startBytes = replay.startBytes();
  result.passes.reserve(trace.passes.size());
  result.changes.reserve(trace.passes.size());
  TracedMisses misses(miss, scores);
  uint64_t token = 0; // The first one of the layer pass.
  for (const RoutingPass &pass : trace.passes) {
    if (pass.beginsPrompt)
      replay.beginPrompt();
    const PassDemand demand = misses.demandOf(replay.cache(), trace, pass, pass.layer, token);
    const MissCounts changes = misses.counts();
    const CacheCounts counts = replay.runPass(pass.layer, demand);
    result.total += counts;
    result.totalChanges += changes;
    result.passes.push_back(counts);
    result.changes.push_back(changes);
    token += pass.layer + 1 == trace.layerExperts.size() ? pass.tokens : 0;
  }
  return result;
}

} // namespace moec
