#include "runtime/policy/CacheDirectory.h"

#include <algorithm>
#include <cassert>

namespace moert {

//===-- Making --------------------------------------------------------------------------------===//

// With one pool every expert in memory competes in every layer pass.
static size_t mostCandidates(const CacheRules &rules, const DirectorySize &size) {
  return rules.sharing == CacheSharing::kOnePool ? size.experts : size.widestLayer;
}

static size_t quotaCount(const CacheRules &rules, const DirectorySize &size) {
  return rules.sharing == CacheSharing::kOnePool ? 1 : size.layers;
}

CacheDirectory::CacheDirectory(const CacheRules &cacheRules, uint64_t pagesInStaging,
                               const DirectorySize &size)
    : rules(cacheRules), stagingPages(pagesInStaging) {
  layers.reserve(size.layers);
  quotas.reserve(quotaCount(rules, size));
  entries.reserve(size.experts);
  wantedIds.reserve(size.widestLayer);
  unkeptIds.reserve(mostCandidates(rules, size));
  candidates.reserve(mostCandidates(rules, size));
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.resize(size.experts);
}

void CacheDirectory::addLayer(uint64_t quotaPages, bool repeatsEveryStep) {
  uint32_t index = static_cast<uint32_t>(layers.size());
  if (quotas.empty() || rules.sharing == CacheSharing::kLayerQuotas)
    quotas.emplace_back().firstLayer = index;
  quotas.back().endLayer = index + 1;
  quotas.back().pages += quotaPages;
  layers.push_back({.firstId = static_cast<uint32_t>(entries.size()),
                    .place = cycleLayers,
                    .quota = static_cast<uint32_t>(quotas.size() - 1),
                    .repeatsEveryStep = repeatsEveryStep});
  cycleLayers += repeatsEveryStep;
}

void CacheDirectory::addExpert(uint32_t pages) {
  Layer &layer = layers.back();
  PageQuota &quota = quotas.back();
  ++layer.experts;
  layer.largestRecordPages = std::max<uint64_t>(layer.largestRecordPages, pages);
  quota.largestRecordPages = std::max<uint64_t>(quota.largestRecordPages, pages);
  DirectoryEntry &entry = entries.emplace_back();
  entry.pages = pages;
  entry.layer = static_cast<uint32_t>(layers.size() - 1);
}

//===-- A layer pass
//--------------------------------------------------------------------------------===//

bool CacheDirectory::isExecutable(uint32_t layer, std::span<const uint32_t> wanted) {
  wantedIds.clear();
  for (uint32_t expert : wanted) {
    if (expert >= layers[layer].experts || entries[idOf(layer, expert)].isWanted)
      break;
    wantedIds.push_back(idOf(layer, expert));
    entries[wantedIds.back()].isWanted = true;
  }
  if (wantedIds.size() == wanted.size())
    return true;
  for (uint32_t id : wantedIds)
    entries[id].isWanted = false;
  return false;
}

bool CacheDirectory::beginPass(uint32_t layer, const PassDemand &demand) {
  assert(demand.tokens > 0 && (demand.uses.empty() || demand.uses.size() == demand.wanted.size()));
  if (!isExecutable(layer, demand.wanted))
    return false;
  passLayer = layer;
  isPassOpen = true;
  remember(layer, demand);
  decide(layer);
  return true;
}

void CacheDirectory::remember(uint32_t layerIndex, const PassDemand &demand) {
  Layer &layer = layers[layerIndex];
  ++passes;
  ++layer.turn;
  bool needsProbabilities = rules.eviction == EvictionPolicy::kReuseDistance;
  FrequencyStep step(needsProbabilities ? demand.tokens : 1);
  if (needsProbabilities)
    for (uint32_t expert = 0; expert < layer.experts; ++expert)
      step.fade(entries[layer.firstId + expert].history);
  for (uint32_t rank = 0; rank < wantedIds.size(); ++rank) {
    DirectoryEntry &entry = entries[wantedIds[rank]];
    uint32_t uses = demand.uses.empty() ? 1 : demand.uses[rank];
    if (needsProbabilities)
      step.add(entry.history, uses);
    entry.history.lastUse = passes;
    entry.history.rank = rank;
    entry.history.lastTurn = layer.turn;
    entry.history.tokens += std::min(uses, UINT32_MAX - entry.history.tokens);
    if (rules.eviction == EvictionPolicy::kArc)
      quotas[layer.quota].arc.use(entry.arcList, entry.pages, quotas[layer.quota].pages);
    entry.isKept = true;
  }
}

void CacheDirectory::decide(uint32_t executed) {
  unkeptIds.clear();
  const PageQuota &quota = quotas[layers[executed].quota];
  uint64_t pages = quota.heldPages;
  for (uint32_t id : wantedIds)
    pages += entries[id].isHeld ? 0 : entries[id].pages;
  if (pages <= quota.pages)
    return; // All of it stays.

  PassLimits limits{quota.pages, quota.pages + stagingPages, layers[executed].largestRecordPages};
  // No layer gives up another expert once so many of its pages are gone.
  uint64_t leavingPages =
      std::max(pages - quota.pages, kStreamedRecords * layers[executed].largestRecordPages);
  candidates.clear();
  limits.otherPages = quota.heldPages;
  for (uint32_t layer = quota.firstLayer; layer < quota.endLayer; ++layer)
    limits.otherPages -= addCandidates(layer, leavingPages);
  if (rules.eviction == EvictionPolicy::kArc)
    limits.onceTargetPages = quota.arc.targetPages();
  planPass(limits, candidates);
  for (const PassCandidate &candidate : candidates) {
    entries[candidate.use.expert].isKept = candidate.isKept;
    if (!candidate.isKept)
      unkeptIds.push_back(candidate.use.expert);
  }
}

LayerDistance CacheDirectory::distanceTo(uint32_t index) const {
  const Layer &layer = layers[index], &executed = layers[passLayer];
  uint32_t cycle = std::max(1u, cycleLayers);
  uint32_t next = executed.place + executed.repeatsEveryStep;
  return {.layersAhead = (layer.place + cycle - next) % cycle + 1,
          .layers = cycle,
          .turn = layer.turn,
          .repeatsEveryStep = layer.repeatsEveryStep};
}

void CacheDirectory::addCandidate(uint32_t id, const LayerDistance &distance) {
  const DirectoryEntry &entry = entries[id];
  candidates.push_back({.use = {.expert = id,
                                .lastUse = entry.history.lastUse,
                                .rank = entry.history.rank,
                                .value = keepingValue(rules.eviction, entry.history, distance)},
                        .pages = entry.pages,
                        .isReady = entry.isHeld,
                        .isWanted = entry.isWanted,
                        .isPinned = entry.pins > 0,
                        .isUsedAgain = entry.arcList == ArcList::kAgain});
}

/// Of a layer what is held or wanted; of a layer whose turn it is not, the first to leave until
/// they have leavingPages. The pages held by those added.
uint64_t CacheDirectory::addCandidates(uint32_t index, uint64_t leavingPages) {
  const Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  uint64_t pages = 0;
  // Adaptive replacement has two orders, and the target says which one counts.
  bool takesAll = index == passLayer || rules.eviction == EvictionPolicy::kArc;
  uint32_t count = takesAll ? layer.experts : layer.ordered;
  for (uint32_t i = 0; i < count && (takesAll || pages < leavingPages); ++i) {
    uint32_t id = takesAll ? layer.firstId + i : leavingOrder[layer.firstId + i];
    const DirectoryEntry &entry = entries[id];
    if (!entry.isHeld && !entry.isWanted)
      continue;
    if (!takesAll && entry.pins > 0)
      continue;
    addCandidate(id, distance);
    pages += entry.isHeld ? entry.pages : 0;
  }
  return pages;
}

void CacheDirectory::orderLayer(uint32_t index) {
  Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  candidates.clear();
  for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
    if (entries[id].isHeld)
      addCandidate(id, distance);
  std::sort(
      candidates.begin(), candidates.end(),
      [](const PassCandidate &a, const PassCandidate &b) { return leavesBefore(a.use, b.use); });
  layer.ordered = 0;
  for (const PassCandidate &candidate : candidates)
    leavingOrder[layer.firstId + layer.ordered++] = candidate.use.expert;
}

bool CacheDirectory::hasRoomFor(uint32_t id) const {
  const PageQuota &quota = quotaOf(id);
  return quota.heldPages + heldPrefetchPages + entries[id].pages <= quota.pages + stagingPages;
}

void CacheDirectory::hold(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(!entry.isHeld && !entry.isPrefetch);
  entry.isHeld = true;
  layers[entry.layer].heldPages += entry.pages;
  quotaOf(id).heldPages += entry.pages;
}

void CacheDirectory::takePages(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(entry.isHeld);
  entry.isHeld = false;
  layers[entry.layer].heldPages -= entry.pages;
  quotaOf(id).heldPages -= entry.pages;
}

void CacheDirectory::drop(uint32_t id) {
  takePages(id);
  quotaOf(id).arc.leave(entries[id].arcList, entries[id].pages);
}

void CacheDirectory::endPass() {
  PageQuota &quota = quotas[layers[passLayer].quota];
  for (uint32_t id : wantedIds) {
    entries[id].isWanted = false;
    if (!entries[id].isHeld) // Nor ever was, where a layer pass has failed.
      quota.arc.leave(entries[id].arcList, entries[id].pages);
  }
  wantedIds.clear();
  unkeptIds.clear();
  isPassOpen = false;
  if (rules.eviction == EvictionPolicy::kArc)
    forgetGhosts(quota);
  else if (rules.sharing == CacheSharing::kOnePool)
    orderLayer(passLayer);
}

void CacheDirectory::forgetGhosts(PageQuota &quota) {
  for (ArcList list; (list = quota.arc.overfullGhosts(quota.pages)) != ArcList::kForgotten;) {
    DirectoryEntry *oldest = nullptr;
    for (uint32_t index = quota.firstLayer; index < quota.endLayer; ++index)
      for (uint32_t i = 0; i < layers[index].experts; ++i) {
        DirectoryEntry &entry = entries[layers[index].firstId + i];
        if (entry.arcList == list && (!oldest || entry.history.lastUse < oldest->history.lastUse))
          oldest = &entry;
      }
    quota.arc.forget(oldest->arcList, oldest->pages);
  }
}

//===-- Prefetches
//-------------------------------------------------------------------------------===//

bool CacheDirectory::hasRoomForPrefetch(uint32_t id) const {
  const DirectoryEntry &entry = entries[id];
  uint64_t pages = heldPrefetchPages + entry.pages;
  if (!isPrefetchable(entry.layer) || pages > stagingPages)
    return false;
  const PageQuota &executed = quotas[layers[passLayer].quota];
  return !isPassOpen || executed.heldPages + pages <= executed.pages + stagingPages;
}

void CacheDirectory::holdPrefetch(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(!entry.isHeld && !entry.isPrefetch);
  entry.isPrefetch = true;
  heldPrefetchPages += entry.pages;
}

void CacheDirectory::dropPrefetch(uint32_t id) {
  assert(entries[id].isPrefetch);
  entries[id].isPrefetch = false;
  heldPrefetchPages -= entries[id].pages;
}

bool CacheDirectory::canRetain(uint32_t id) const {
  uint64_t pages = heldPrefetchPages + entries[id].pages;
  return pages <= stagingPages && demandFitsBeside(pages);
}

void CacheDirectory::retainAsPrefetch(uint32_t id) {
  assert(isPassOpen && !entries[id].isWanted);
  drop(id);
  holdPrefetch(id);
}

void CacheDirectory::claimPrefetch(uint32_t id) {
  assert(entries[id].isWanted);
  dropPrefetch(id);
  hold(id);
}

void CacheDirectory::disownPrefetch(uint32_t id) {
  assert(entries[id].isWanted);
  takePages(id);
}

bool CacheDirectory::demandFitsBeside(uint64_t prefetchedPages) const {
  const PageQuota &quota = quotas[layers[passLayer].quota];
  uint64_t pages = quota.heldPages + prefetchedPages;
  for (uint32_t id : wantedIds)
    pages += entries[id].isHeld ? 0 : entries[id].pages;
  for (uint32_t id : unkeptIds)
    pages -= entries[id].isHeld && !entries[id].isWanted ? entries[id].pages : 0;
  return pages <= quota.pages + stagingPages;
}

//===-- Pins, start, prompts ------------------------------------------------------------------===//

uint64_t CacheDirectory::pinLimitPages(uint32_t id) const {
  const PageQuota &quota = quotaOf(id);
  return std::min(quota.pages, quota.pages + stagingPages - quota.largestRecordPages);
}

bool CacheDirectory::pin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  uint64_t pages = entry.pins == 0 ? entry.pages : 0;
  if (pages > 0 && pinnedPages(id) + pages > pinLimitPages(id))
    return false;
  quotaOf(id).pinnedPages += pages;
  ++entry.pins;
  return true;
}

void CacheDirectory::unpin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(entry.pins > 0);
  if (--entry.pins == 0)
    quotaOf(id).pinnedPages -= entry.pages;
}

bool CacheDirectory::selectFitting(uint32_t layer, const PassDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const {
  const PageQuota &quota = quotas[layers[layer].quota];
  uint64_t left = quota.pages - std::min(quota.pages, quota.heldPages);
  for (size_t i = 0; i < demand.wanted.size(); ++i) {
    uint32_t expert = demand.wanted[i];
    auto before = demand.wanted.first(i);
    if (expert >= layers[layer].experts ||
        std::find(before.begin(), before.end(), expert) != before.end())
      return false;
    const DirectoryEntry &entry = entries[idOf(layer, expert)];
    uint64_t pages = entry.isHeld ? 0 : entry.pages;
    if (pages > left)
      continue;
    left -= pages;
    fitting.push_back(expert);
    uses.push_back(demand.uses.empty() ? 1 : demand.uses[i]);
  }
  return true;
}

void CacheDirectory::forgetUse() {
  for (DirectoryEntry &entry : entries) {
    entry.history = {};
    entry.arcList = ArcList::kForgotten;
  }
  for (PageQuota &quota : quotas)
    quota.arc = {};
}

void CacheDirectory::beginPrompt() {
  if (rules.survival == PromptSurvival::kEverything)
    for (DirectoryEntry &entry : entries)
      fadeForPrompt(entry.history);
  else
    forgetUse();
  for (uint32_t layer = 0; layer < layers.size() && !leavingOrder.empty(); ++layer)
    orderLayer(layer);
}

} // namespace moert
