#include "runtime/policy/CacheDirectory.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace moert {

//===-- Making --------------------------------------------------------------------------------===//

// With one pool every expert in memory competes in every layer pass.
static size_t mostCandidates(const CacheRules &rules, const DirectorySize &size) {
  return rules.sharing == CacheSharing::kOnePool ? size.experts : size.widestLayer;
}

static size_t groupCount(const CacheRules &rules, const DirectorySize &size) {
  return rules.sharing == CacheSharing::kOnePool ? 1 : size.layers;
}

CacheDirectory::CacheDirectory(const CacheRules &cacheRules, uint64_t pagesInStaging,
                               const DirectorySize &size)
    : rules(cacheRules), stagingPages(pagesInStaging) {
  layers.reserve(size.layers);
  groups.reserve(groupCount(rules, size));
  entries.reserve(size.experts);
  wantedIds.reserve(size.widestLayer);
  unkeptIds.reserve(mostCandidates(rules, size));
  candidates.reserve(mostCandidates(rules, size));
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.reserve(size.experts);
}

void CacheDirectory::addLayer(uint64_t quotaPages, bool repeatsEveryStep) {
  uint32_t index = static_cast<uint32_t>(layers.size());
  if (groups.empty() || rules.sharing == CacheSharing::kLayerQuotas)
    groups.emplace_back().firstLayer = index;
  groups.back().endLayer = index + 1;
  groups.back().pages += quotaPages;
  layers.push_back({.firstId = static_cast<uint32_t>(entries.size()),
                    .place = cycleLayers,
                    .group = static_cast<uint32_t>(groups.size() - 1),
                    .repeatsEveryStep = repeatsEveryStep});
  cycleLayers += repeatsEveryStep;
}

void CacheDirectory::addExpert(uint32_t pages, uint64_t bytes, uint16_t slices) {
  Layer &layer = layers.back();
  QuotaGroup &group = groups.back();
  widestLayer = std::max<size_t>(widestLayer, ++layer.experts);
  layer.largestRecordPages = std::max<uint64_t>(layer.largestRecordPages, pages);
  group.largestRecordPages = std::max<uint64_t>(group.largestRecordPages, pages);
  DirectoryEntry &entry = entries.emplace_back();
  entry.bytes = bytes;
  entry.pages = pages;
  entry.layer = static_cast<uint32_t>(layers.size() - 1);
  entry.unit.slices = slices;
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.push_back(0);
}

void CacheDirectory::addExpert(uint32_t pages, std::span<const uint64_t> ends) {
  addExpert(pages, ends.back(), static_cast<uint16_t>(ends.size()));
  if (ends.size() == 1)
    return;
  entries.back().firstSliceEnd = static_cast<uint32_t>(sliceEnds.size());
  sliceEnds.insert(sliceEnds.end(), ends.begin(), ends.end());
}

uint64_t CacheDirectory::bytesOf(uint32_t id, uint16_t first, uint16_t end) const {
  const DirectoryEntry &entry = entries[id];
  if (first == 0 && end == entry.unit.slices)
    return entry.bytes;
  assert(entry.firstSliceEnd != UINT32_MAX);
  auto endOf = [&](uint16_t slices) {
    return slices == 0 ? 0 : sliceEnds[entry.firstSliceEnd + slices - 1];
  };
  return endOf(end) - endOf(first);
}

//===-- A layer pass -------------------------------------------------------------------------===//

bool CacheDirectory::isExecutable(uint32_t layer, const PassDemand &demand) {
  wantedIds.clear();
  for (size_t i = 0; i < demand.wanted.size(); ++i) {
    const uint32_t expert = demand.wanted[i];
    if (expert >= layers[layer].experts || entries[idOf(layer, expert)].isWanted)
      break;
    wantedIds.push_back(idOf(layer, expert));
    DirectoryEntry &entry = entries[wantedIds.back()];
    entry.isWanted = true;
    entry.demanded = demand.slices.empty() ? entry.unit.slices : demand.slices[i];
    assert(entry.demanded >= 1 && entry.demanded <= entry.unit.slices);
  }
  if (wantedIds.size() == demand.wanted.size())
    return true;
  for (uint32_t id : wantedIds)
    entries[id].isWanted = false;
  return false;
}

bool CacheDirectory::beginPass(uint32_t layer, const PassDemand &demand) {
  assert(demand.tokens > 0 && (demand.uses.empty() || demand.uses.size() == demand.wanted.size()));
  assert(demand.slices.empty() || demand.slices.size() == demand.wanted.size());
  if (!isExecutable(layer, demand))
    return false;
  passLayer = layer;
  isOpen = true;
  remember(layer, demand);
  decide(layer);
  return true;
}

void CacheDirectory::remember(uint32_t layerIndex, const PassDemand &demand) {
  Layer &layer = layers[layerIndex];
  ++passes;
  ++layer.turn;
  layer.tokens += std::min(demand.tokens, UINT32_MAX - layer.tokens);
  tokensOfPass = demand.tokens;
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
    entry.history.lastToken = layer.tokens;
    if (entry.demanded == entry.unit.slices)
      entry.history.fullTokens += std::min(uses, UINT32_MAX - entry.history.fullTokens);
    if (rules.eviction == EvictionPolicy::kArc)
      groups[layer.group].arc.use(entry.arcList, entry.pages, groups[layer.group].pages);
    entry.isKept = true;
  }
  if (rules.eviction == EvictionPolicy::kImportance)
    addImportances(layer, demand);
}

/// Without importances, each use counts as one.
void CacheDirectory::addImportances(const Layer &layer, const PassDemand &demand) {
  assert(demand.importances.empty() || demand.importances.size() == layer.experts);
  const ImportanceStep step(demand.tokens, rules.exchange.fadeShift);
  auto usesOf = [&demand](size_t rank) { return demand.uses.empty() ? 1 : demand.uses[rank]; };
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    const DirectoryEntry &entry = entries[layer.firstId + expert];
    uint64_t added = demand.importances.empty() ? 0 : demand.importances[expert];
    if (demand.importances.empty() && entry.isWanted)
      added = usesOf(entry.history.rank) * kImportanceOne;
    step.apply(entries[layer.firstId + expert].history, added);
  }
}

void CacheDirectory::decide(uint32_t executed) {
  unkeptIds.clear();
  const QuotaGroup &group = groups[layers[executed].group];
  uint64_t pages = group.heldPages;
  for (uint32_t id : wantedIds)
    pages += entries[id].isHeld() ? 0 : entries[id].pages;
  if (pages <= group.pages)
    return; // All of it stays.

  PassLimits limits{group.pages, group.pages + stagingPages, layers[executed].largestRecordPages};
  // No layer gives up another expert once so many of its pages are gone.
  uint64_t leavingPages =
      std::max(pages - group.pages, kStreamedRecords * layers[executed].largestRecordPages);
  candidates.clear();
  limits.otherPages = group.heldPages;
  for (uint32_t layer = group.firstLayer; layer < group.endLayer; ++layer)
    limits.otherPages -= addCandidates(layer, leavingPages);
  if (rules.eviction == EvictionPolicy::kArc)
    limits.onceTargetPages = group.arc.targetPages();
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
          .repeatsEveryStep = layer.repeatsEveryStep,
          .tokens = layer.tokens};
}

void CacheDirectory::addCandidate(uint32_t id, const LayerDistance &distance) {
  const DirectoryEntry &entry = entries[id];
  candidates.push_back(
      {.use = {.expert = id,
               .lastUse = entry.history.lastUse,
               .rank = entry.history.rank,
               .value = keepingValue(rules.eviction, entry.history, distance, rules.weights)},
       .pages = entry.pages,
       .isReady = entry.isHeld(),
       .isWanted = entry.isWanted,
       .isPinned = entry.pins > 0,
       .isUsedAgain = entry.arcList == ArcList::kAgain});
}

/// Adds the experts of a layer that are held or wanted; if another layer is executed, the first to
/// leave until they have leavingPages. Returns the pages held by those added.
uint64_t CacheDirectory::addCandidates(uint32_t index, uint64_t leavingPages) {
  const Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  uint64_t pages = 0;
  // Adaptive replacement has two orders, and its target decides between them.
  bool takesAll = index == passLayer || rules.eviction == EvictionPolicy::kArc;
  uint32_t count = takesAll ? layer.experts : layer.ordered;
  for (uint32_t i = 0; i < count && (takesAll || pages < leavingPages); ++i) {
    uint32_t id = takesAll ? layer.firstId + i : leavingOrder[layer.firstId + i];
    const DirectoryEntry &entry = entries[id];
    if (!entry.isHeld() && !entry.isWanted)
      continue;
    if (!takesAll && entry.pins > 0)
      continue;
    addCandidate(id, distance);
    pages += entry.isHeld() ? entry.pages : 0;
  }
  return pages;
}

void CacheDirectory::orderLayer(uint32_t index) {
  Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  candidates.clear();
  for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
    if (entries[id].isHeld())
      addCandidate(id, distance);
  std::sort(
      candidates.begin(), candidates.end(),
      [](const PassCandidate &a, const PassCandidate &b) { return leavesBefore(a.use, b.use); });
  layer.ordered = 0;
  for (const PassCandidate &candidate : candidates)
    leavingOrder[layer.firstId + layer.ordered++] = candidate.use.expert;
}

void CacheDirectory::endPass() {
  QuotaGroup &group = groups[layers[passLayer].group];
  for (uint32_t id : wantedIds) {
    entries[id].isWanted = false;
    if (!entries[id].isHeld()) // It never was, where a layer pass has failed.
      group.arc.leave(entries[id].arcList, entries[id].pages);
  }
  wantedIds.clear();
  unkeptIds.clear();
  isOpen = false;
  if (rules.eviction == EvictionPolicy::kArc)
    forgetGhosts(group);
  else if (rules.sharing == CacheSharing::kOnePool)
    orderLayer(passLayer);
}

bool CacheDirectory::selectLeaving(uint32_t id, std::vector<uint32_t> &leavingIds) const {
  const DirectoryEntry &entry = entries[id];
  const QuotaGroup &group = groupOf(id);
  const LayerDistance distance = distanceTo(entry.layer);
  auto useOf = [&](uint32_t one) {
    const ExpertHistory &history = entries[one].history;
    return EvictionCandidate{one, history.lastUse, history.rank,
                             keepingValue(rules.eviction, history, distance, rules.weights)};
  };
  leavingIds.clear();
  if (entry.pages > group.pages)
    return false;
  uint64_t held = group.heldPages, value = 0;
  while (held + entry.pages > group.pages) {
    std::optional<EvictionCandidate> least;
    for (uint32_t i = 0; i < layers[entry.layer].experts; ++i) {
      const uint32_t one = layers[entry.layer].firstId + i;
      const bool canLeave =
          entries[one].unit.state == UnitState::kReady && entries[one].pins == 0 &&
          std::find(leavingIds.begin(), leavingIds.end(), one) == leavingIds.end();
      if (canLeave && (!least || leavesBefore(useOf(one), *least)))
        least = useOf(one);
    }
    if (!least || (value += least->value) >= useOf(id).value)
      return false;
    leavingIds.push_back(least->expert);
    held -= entries[least->expert].pages;
  }
  return true;
}

void CacheDirectory::forgetGhosts(QuotaGroup &group) {
  for (ArcList list; (list = group.arc.overfullGhosts(group.pages)) != ArcList::kForgotten;) {
    DirectoryEntry *oldest = nullptr;
    for (uint32_t index = group.firstLayer; index < group.endLayer; ++index)
      for (uint32_t i = 0; i < layers[index].experts; ++i) {
        DirectoryEntry &entry = entries[layers[index].firstId + i];
        if (entry.arcList == list && (!oldest || entry.history.lastUse < oldest->history.lastUse))
          oldest = &entry;
      }
    group.arc.forget(oldest->arcList, oldest->pages);
  }
}

//===-- Units and their pages
//------------------------------------------------------------------===//

UnitState CacheDirectory::apply(uint32_t id, UnitEvent event) {
  DirectoryEntry &entry = entries[id];
  const PageOwner owner = ownerOf(entry.unit.state);
  if (!entry.unit.apply(event, entry.demanded)) {
    assert(false && "kUnitTable forbids it");
    ++forbidden;
    return entry.unit.state;
  }
  if (owner != ownerOf(entry.unit.state))
    movePages(id, owner, ownerOf(entry.unit.state));
  if (event == UnitEvent::kEvicted || event == UnitEvent::kRetained)
    groupOf(id).arc.leave(entry.arcList, entry.pages);
  return entry.unit.state;
}

UnitState CacheDirectory::demand(uint32_t id) {
  return apply(id, entries[id].unit.demandOf(entries[id].demanded));
}

void CacheDirectory::movePages(uint32_t id, PageOwner from, PageOwner to) {
  const uint64_t pages = entries[id].pages;
  uint64_t &layerPages = layers[entries[id].layer].heldPages, &groupPages = groupOf(id).heldPages;
  layerPages -= from == PageOwner::kLayer ? pages : 0;
  groupPages -= from == PageOwner::kLayer ? pages : 0;
  heldPrefetchPages -= from == PageOwner::kStaging ? pages : 0;
  layerPages += to == PageOwner::kLayer ? pages : 0;
  groupPages += to == PageOwner::kLayer ? pages : 0;
  heldPrefetchPages += to == PageOwner::kStaging ? pages : 0;
}

bool CacheDirectory::hasRoomFor(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  return group.heldPages + heldPrefetchPages + entries[id].pages <= group.pages + stagingPages;
}

bool CacheDirectory::hasRoomForPrefetch(uint32_t id) const {
  const DirectoryEntry &entry = entries[id];
  uint64_t pages = heldPrefetchPages + entry.pages;
  if (!isPrefetchable(entry.layer) || pages > stagingPages)
    return false;
  const QuotaGroup &executed = groups[layers[passLayer].group];
  return !isOpen || executed.heldPages + pages <= executed.pages + stagingPages;
}

bool CacheDirectory::canRetain(uint32_t id) const {
  uint64_t pages = heldPrefetchPages + entries[id].pages;
  return pages <= stagingPages && demandFitsBeside(pages);
}

bool CacheDirectory::demandFitsBeside(uint64_t prefetchedPages) const {
  const QuotaGroup &group = groups[layers[passLayer].group];
  uint64_t pages = group.heldPages + prefetchedPages;
  for (uint32_t id : wantedIds)
    pages += entries[id].isHeld() ? 0 : entries[id].pages;
  for (uint32_t id : unkeptIds)
    pages -= entries[id].isHeld() && !entries[id].isWanted ? entries[id].pages : 0;
  return pages <= group.pages + stagingPages;
}

//===-- Pins, start, prompts ------------------------------------------------------------------===//

uint64_t CacheDirectory::pinLimitPages(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  return std::min(group.pages, group.pages + stagingPages - group.largestRecordPages);
}

bool CacheDirectory::pin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  uint64_t pages = entry.pins == 0 ? entry.pages : 0;
  if (pages > 0 && pinnedPages(id) + pages > pinLimitPages(id))
    return false;
  groupOf(id).pinnedPages += pages;
  ++entry.pins;
  return true;
}

void CacheDirectory::unpin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(entry.pins > 0);
  if (--entry.pins == 0)
    groupOf(id).pinnedPages -= entry.pages;
}

bool CacheDirectory::selectFitting(uint32_t layer, const PassDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const {
  const QuotaGroup &group = groups[layers[layer].group];
  uint64_t left = group.pages - std::min(group.pages, group.heldPages);
  for (size_t i = 0; i < demand.wanted.size(); ++i) {
    uint32_t expert = demand.wanted[i];
    auto before = demand.wanted.first(i);
    if (expert >= layers[layer].experts ||
        std::find(before.begin(), before.end(), expert) != before.end())
      return false;
    const DirectoryEntry &entry = entries[idOf(layer, expert)];
    uint64_t pages = entry.isHeld() ? 0 : entry.pages;
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
  for (QuotaGroup &group : groups)
    group.arc = {};
  for (Layer &layer : layers)
    layer.tokens = 0;
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
