#include "runtime/policy/CacheDirectory.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
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
  candidates.reserve(candidatesPerExpert() * mostCandidates(rules, size));
  passScratch.reserve(candidatesPerExpert() * mostCandidates(rules, size));
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.reserve(candidatesPerExpert() * size.experts);
  if (rules.baseSlices == 0)
    return;
  reducedIds.reserve(mostCandidates(rules, size));
  upperHistories.reserve(size.experts);
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
  entry.pages.whole = {0, pages};
  entry.layer = static_cast<uint32_t>(layers.size() - 1);
  entry.unit.slices = slices;
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.resize(candidatesPerExpert() * entries.size());
  if (rules.baseSlices > 0)
    upperHistories.emplace_back();
}

void CacheDirectory::addExpert(std::span<const uint64_t> ends, uint64_t pageBytes,
                               uint16_t lowCopySlices) {
  assert(lowCopySlices < ends.size());
  const uint16_t base = baseSlicesOf(ends.size(), lowCopySlices, rules.baseSlices);
  const uint64_t baseEnd = base == 0 ? 0 : ends[base - 1u];
  const ExpertPages pages = expertPagesOf(ends.back(), base, baseEnd, lowCopySlices > 0, pageBytes);
  addExpert(pages.most(), lowCopySlices > 0 ? ends.back() - baseEnd : ends.back(),
            static_cast<uint16_t>(ends.size()));
  if (ends.size() == 1)
    return;
  DirectoryEntry &entry = entries.back();
  entry.pages = pages;
  entry.unit.lowCopySlices = lowCopySlices;
  hasSomeCopies |= lowCopySlices > 0;
  entry.firstSliceEnd = static_cast<uint32_t>(sliceEnds.size());
  sliceEnds.insert(sliceEnds.end(), ends.begin(), ends.end());
}

uint64_t CacheDirectory::bytesOf(uint32_t id, uint16_t first, uint16_t end) const {
  const DirectoryEntry &entry = entries[id];
  if (end == entry.unit.slices && first == entry.unit.firstOf(end))
    return entry.bytes;
  assert(entry.firstSliceEnd != UINT32_MAX);
  auto endOf = [&](uint16_t slices) {
    return slices == 0 ? 0 : sliceEnds[entry.firstSliceEnd + slices - 1];
  };
  return endOf(end) - endOf(first);
}

uint32_t CacheDirectory::missingPages(uint32_t id) const {
  const uint32_t held = entries[id].isHeld() ? pagesHeldBy(id) : 0;
  return std::max(held, pagesFor(id, entries[id].slicesDuringPass())) - held;
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
  for (uint32_t id = layer.firstId; needsProbabilities && id < layer.firstId + layer.experts; ++id)
    forEachHistory(id, [&step](ExpertHistory &history) { step.fade(history); });
  for (uint32_t rank = 0; rank < wantedIds.size(); ++rank) {
    DirectoryEntry &entry = entries[wantedIds[rank]];
    const uint32_t uses = demand.uses.empty() ? 1 : demand.uses[rank];
    auto addTo = [&](ExpertHistory &history) {
      if (needsProbabilities)
        step.add(history, uses);
      history.lastUse = passes;
      history.rank = rank;
      history.lastTurn = layer.turn;
      history.tokens += std::min(uses, UINT32_MAX - history.tokens);
      history.lastToken = layer.tokens;
      if (entry.demanded == entry.unit.slices)
        history.fullTokens += std::min(uses, UINT32_MAX - history.fullTokens);
    };
    addTo(entry.history);
    if (!upperHistories.empty() && entry.pages.isUpper(entry.demanded))
      addTo(upperHistories[wantedIds[rank]]);
    if (rules.eviction == EvictionPolicy::kArc)
      groups[layer.group].arc.use(entry.arc, pagesFor(wantedIds[rank], entry.slicesDuringPass()),
                                  groups[layer.group].pages);
    entry.keptSlices = entry.unit.slices;
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
    forEachHistory(layer.firstId + expert,
                   [&](ExpertHistory &history) { step.apply(history, added); });
  }
}

void CacheDirectory::decide(uint32_t executed) {
  unkeptIds.clear();
  reducedIds.clear();
  const QuotaGroup &group = groups[layers[executed].group];
  uint64_t pages = group.heldPages, upperPages = group.heldUpperPages;
  for (uint32_t id : wantedIds) {
    const DirectoryEntry &entry = entries[id];
    const uint16_t before = entry.isHeld() ? entry.unit.slicesHeld() : uint16_t(0),
                   during = entry.slicesDuringPass();
    pages = pages - pagesFor(id, before) + pagesFor(id, during);
    upperPages = upperPages - entry.pages.upperOf(before) + entry.pages.upperOf(during);
  }
  const uint64_t surplus = surplusPages(group, pages, upperPages);
  if (surplus == 0)
    return; // All of it stays.

  PassLimits limits{group.pages, group.pages + stagingPages, layers[executed].largestRecordPages};
  // No layer gives up another expert once so many of its pages are gone. Experts that stay in part
  // take room from those that pass through.
  const uint64_t streamPages = kStreamedRecords * layers[executed].largestRecordPages;
  const uint64_t leavingPages =
      rules.baseSlices > 0 ? surplus + streamPages : std::max(surplus, streamPages);
  candidates.clear();
  limits.otherPages = group.heldPages;
  for (uint32_t layer = group.firstLayer; layer < group.endLayer; ++layer)
    limits.otherPages -= addCandidates(layer, leavingPages);
  limits.upperPages = upperPoolPages(group);
  limits.otherUpperPages = group.heldUpperPages;
  for (const PassCandidate &candidate : candidates)
    limits.otherUpperPages -= candidate.use.isUpper && candidate.isReady ? candidate.pages : 0;
  if (rules.eviction == EvictionPolicy::kArc)
    limits.onceTargetPages = group.arc.targetPages();
  planPass(limits, candidates, passScratch);
  takeAnswers();
}

std::optional<uint64_t> CacheDirectory::upperPoolPages(const QuotaGroup &group) const {
  if (rules.baseSlices == 0 || rules.upperPart == 0)
    return {};
  return group.pages / kFixedPointOne * rules.upperPart +
         group.pages % kFixedPointOne * rules.upperPart / kFixedPointOne;
}

/// How many of so many pages, with so many of them for upper slices, are beyond the quota's pools.
uint64_t CacheDirectory::surplusPages(const QuotaGroup &group, uint64_t pages,
                                      uint64_t upperPages) const {
  auto beyond = [](uint64_t held, uint64_t pool) { return held - std::min(held, pool); };
  const std::optional<uint64_t> upper = upperPoolPages(group);
  return upper ? beyond(upperPages, *upper) + beyond(pages - upperPages, group.pages - *upper)
               : beyond(pages, group.pages);
}

void CacheDirectory::takeAnswers() {
  for (const PassCandidate &candidate : candidates) {
    DirectoryEntry &entry = entries[candidate.use.expert];
    entry.keptSlices = entry.unit.slices;
  }
  // Upper slices leave alone, a copy does not.
  for (const PassCandidate &candidate : candidates)
    if (!candidate.isKept &&
        (!candidate.use.isUpper || entries[candidate.use.expert].hasCopies())) {
      entries[candidate.use.expert].keptSlices = 0;
      unkeptIds.push_back(candidate.use.expert);
    }
  for (const PassCandidate &candidate : candidates)
    if (!candidate.isKept && candidate.use.isUpper &&
        entries[candidate.use.expert].keptSlices > 0) {
      entries[candidate.use.expert].keptSlices = entries[candidate.use.expert].pages.baseSlices;
      reducedIds.push_back(candidate.use.expert);
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

/// Whether the base or the upper slices are held. A copy of high precision counts as upper slices.
static bool holdsPart(const DirectoryEntry &entry, bool isUpper) {
  const bool holdsUpper = entry.isHeld() && entry.pages.upperOf(entry.unit.slicesHeld()) > 0;
  return isUpper ? holdsUpper : entry.isHeld() && !(entry.hasCopies() && holdsUpper);
}

/// Returns the pages that are held of it or, where it is to take the place of another copy, of
/// that.
uint64_t CacheDirectory::addCandidate(uint32_t id, bool isUpper, const LayerDistance &distance) {
  const DirectoryEntry &entry = entries[id];
  const ExpertHistory &history = isUpper && !entry.hasCopies() ? upperHistories[id] : entry.history;
  const uint32_t pages = entry.pages.ofPart(isUpper);
  const bool isReady = holdsPart(entry, isUpper);
  candidates.push_back(
      {.use = {.expert = id,
               .lastUse = history.lastUse,
               .rank = history.rank,
               .value = keepingValue(rules.eviction, history, distance, rules.weights),
               .isUpper = isUpper},
       .pages = pages,
       .isReady = isReady,
       .isWanted =
           entry.isWanted && (!isUpper || entry.hasCopies() || entry.pages.isUpper(entry.demanded)),
       .isPinned = entry.pins > 0,
       .isUsedAgain = entry.arc.list == ArcList::kAgain});
  if (entry.hasCopies())
    return entry.isHeld() ? pagesHeldBy(id) : 0;
  return isReady ? pages : 0;
}

/// Adds the experts of a layer that are held or wanted; if another layer is executed, the first to
/// leave, until they have leavingPages of each pool. Returns the pages held by those added.
uint64_t CacheDirectory::addCandidates(uint32_t index, uint64_t leavingPages) {
  const Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  // Adaptive replacement has two orders, and its target decides between them.
  if (index == passLayer || rules.eviction == EvictionPolicy::kArc) {
    uint64_t pages = 0;
    for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
      pages += addParts(id, distance);
    return pages;
  }
  const bool hasTwoPools = upperPoolPages(groups[layer.group]).has_value();
  std::array<uint64_t, 2> pages = {}; // For one pool, or for experts and upper slices.
  for (uint32_t i = 0; i < layer.ordered; ++i) {
    const Leaving &next = leavingOrderOf(layer)[i];
    uint64_t &sum = pages[hasTwoPools && next.isUpper];
    if (holdsPart(entries[next.id], next.isUpper) && entries[next.id].pins == 0 &&
        sum < leavingPages)
      sum += addCandidate(next.id, next.isUpper, distance);
  }
  return pages[0] + pages[1];
}

/// Adds the expert, if it is held or wanted, and its upper slices, or the copy that it will have.
/// Returns the pages held by it.
uint64_t CacheDirectory::addParts(uint32_t id, const LayerDistance &distance) {
  const DirectoryEntry &entry = entries[id];
  const uint16_t slices = entry.slicesDuringPass();
  if (slices == 0)
    return 0;
  const bool hasUpper = entry.pages.upperOf(slices) > 0;
  const uint64_t pages = hasUpper && entry.hasCopies() ? 0 : addCandidate(id, false, distance);
  return pages + (hasUpper ? addCandidate(id, true, distance) : 0);
}

void CacheDirectory::orderLayer(uint32_t index) {
  Layer &layer = layers[index];
  LayerDistance distance = distanceTo(index);
  candidates.clear();
  for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
    (void)addParts(id, distance);
  std::sort(
      candidates.begin(), candidates.end(),
      [](const PassCandidate &a, const PassCandidate &b) { return leavesBefore(a.use, b.use); });
  layer.ordered = 0;
  for (const PassCandidate &candidate : candidates)
    leavingOrderOf(layer)[layer.ordered++] = {candidate.use.expert, candidate.use.isUpper};
}

void CacheDirectory::endPass() {
  QuotaGroup &group = groups[layers[passLayer].group];
  for (uint32_t id : wantedIds) {
    entries[id].isWanted = false;
    if (!entries[id].isHeld()) // It never was, where a layer pass has failed.
      group.arc.leave(entries[id].arc);
  }
  wantedIds.clear();
  unkeptIds.clear();
  reducedIds.clear();
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
  if (entry.pages.most() > group.pages)
    return false;
  uint64_t held = group.heldPages, value = 0;
  while (held + entry.pages.most() > group.pages) {
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
    held -= pagesHeldBy(least->expert);
  }
  return true;
}

void CacheDirectory::forgetGhosts(QuotaGroup &group) {
  for (ArcList list; (list = group.arc.overfullGhosts(group.pages)) != ArcList::kForgotten;) {
    DirectoryEntry *oldest = nullptr;
    for (uint32_t index = group.firstLayer; index < group.endLayer; ++index)
      for (uint32_t i = 0; i < layers[index].experts; ++i) {
        DirectoryEntry &entry = entries[layers[index].firstId + i];
        if (entry.arc.list == list && (!oldest || entry.history.lastUse < oldest->history.lastUse))
          oldest = &entry;
      }
    group.arc.forget(oldest->arc);
  }
}

//===-- Units and their pages
//------------------------------------------------------------------===//

UnitState CacheDirectory::apply(uint32_t id, UnitEvent event) {
  const DirectoryEntry &entry = entries[id];
  return apply(id, event, event == UnitEvent::kReduced ? entry.pages.baseSlices : entry.demanded);
}

void CacheDirectory::beginPrefetch(uint32_t id, uint16_t slices) {
  apply(id, UnitEvent::kPrefetchBegun, slices);
}

UnitState CacheDirectory::apply(uint32_t id, UnitEvent event, uint16_t slices) {
  DirectoryEntry &entry = entries[id];
  const CacheUnit before = entry.unit;
  if (!entry.unit.apply(event, slices)) {
    assert(false && "kUnitTable forbids it");
    ++forbidden;
    return entry.unit.state;
  }
  countPages(id, before, Change::kTaken);
  countPages(id, entry.unit, Change::kAdded);
  // One that is demanded again leaves with endPass, if it does.
  if (!entry.isWanted && (event == UnitEvent::kEvicted || event == UnitEvent::kRetained))
    groupOf(id).arc.leave(entry.arc);
  if (event == UnitEvent::kReduced)
    groupOf(id).arc.resize(entry.arc, pagesHeldBy(id));
  return entry.unit.state;
}

UnitState CacheDirectory::demand(uint32_t id) {
  return apply(id, entries[id].unit.demandOf(entries[id].demanded));
}

/// Those of the expert while it is in the unit's state.
void CacheDirectory::countPages(uint32_t id, const CacheUnit &unit, Change change) {
  const uint64_t pages = pagesFor(id, unit.slicesHeld());
  auto count = [change](uint64_t &sum, uint64_t number) {
    sum = change == Change::kAdded ? sum + number : sum - number;
  };
  if (ownerOf(unit.state) == PageOwner::kStaging)
    count(heldPrefetchPages, pages);
  if (ownerOf(unit.state) != PageOwner::kLayer)
    return;
  count(layers[entries[id].layer].heldPages, pages);
  count(groupOf(id).heldPages, pages);
  count(groupOf(id).heldUpperPages, entries[id].pages.upperOf(unit.slicesHeld()));
}

bool CacheDirectory::hasRoomFor(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  return group.heldPages + heldPrefetchPages + missingPages(id) <= group.pages + stagingPages;
}

bool CacheDirectory::hasRoomForPrefetch(uint32_t id, uint16_t slices) const {
  const uint64_t pages = heldPrefetchPages + pagesFor(id, slices);
  if (!isPrefetchable(entries[id].layer) || pages > stagingPages)
    return false;
  const QuotaGroup &executed = groups[layers[passLayer].group];
  return !isOpen || executed.heldPages + pages <= executed.pages + stagingPages;
}

bool CacheDirectory::canRetain(uint32_t id) const {
  uint64_t pages = heldPrefetchPages + pagesHeldBy(id);
  return pages <= stagingPages && demandFitsBeside(pages);
}

bool CacheDirectory::demandFitsBeside(uint64_t prefetchedPages) const {
  const QuotaGroup &group = groups[layers[passLayer].group];
  uint64_t pages = group.heldPages + prefetchedPages;
  for (uint32_t id : wantedIds)
    pages += missingPages(id);
  for (uint32_t id : unkeptIds)
    pages -= entries[id].isHeld() && !entries[id].isWanted ? pagesHeldBy(id) : 0;
  for (uint32_t id : reducedIds)
    pages -= entries[id].isHeld() && !entries[id].isWanted
                 ? pagesHeldBy(id) - pagesFor(id, entries[id].keptSlices)
                 : 0;
  return pages <= group.pages + stagingPages;
}

//===-- Pins, start, prompts ------------------------------------------------------------------===//

uint64_t CacheDirectory::pinLimitPages(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  if (upperPoolPages(group))
    return 0;
  return std::min(group.pages, group.pages + stagingPages - group.largestRecordPages);
}

bool CacheDirectory::pin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  uint64_t pages = entry.pins == 0 ? entry.pages.most() : 0;
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
    groupOf(id).pinnedPages -= entry.pages.most();
}

bool CacheDirectory::selectFitting(uint32_t layer, const PassDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const {
  const QuotaGroup &group = groups[layers[layer].group];
  const uint64_t upperPool = upperPoolPages(group).value_or(group.pages);
  uint64_t left = group.pages - std::min(group.pages, group.heldPages),
           upperLeft = upperPool - std::min(upperPool, group.heldUpperPages);
  for (size_t i = 0; i < demand.wanted.size(); ++i) {
    uint32_t expert = demand.wanted[i];
    auto before = demand.wanted.first(i);
    if (expert >= layers[layer].experts ||
        std::find(before.begin(), before.end(), expert) != before.end())
      return false;
    const DirectoryEntry &entry = entries[idOf(layer, expert)];
    uint64_t pages = entry.isHeld() ? 0 : entry.pages.most();
    if (pages > left || (entry.hasCopies() && pages > upperLeft))
      continue;
    left -= pages;
    upperLeft -= entry.hasCopies() ? pages : 0;
    fitting.push_back(expert);
    uses.push_back(demand.uses.empty() ? 1 : demand.uses[i]);
  }
  return true;
}

void CacheDirectory::forgetUse() {
  for (DirectoryEntry &entry : entries) {
    entry.history = {};
    entry.arc = {};
  }
  std::ranges::fill(upperHistories, ExpertHistory());
  for (QuotaGroup &group : groups)
    group.arc = {};
  for (Layer &layer : layers)
    layer.tokens = 0;
}

void CacheDirectory::beginPrompt() {
  if (rules.survival == PromptSurvival::kEverything)
    for (uint32_t id = 0; id < entries.size(); ++id)
      forEachHistory(id, fadeForPrompt);
  else
    forgetUse();
  for (uint32_t layer = 0; layer < layers.size() && !leavingOrder.empty(); ++layer)
    orderLayer(layer);
}

} // namespace moert
