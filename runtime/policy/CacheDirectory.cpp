#include "runtime/policy/CacheDirectory.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace moert {

//===-- Making --------------------------------------------------------------------------------===//

CacheDirectory::CacheDirectory(const CacheRules &cacheRules, uint64_t pagesInStaging,
                               const DirectorySize &size)
    : CacheHoldings(cacheRules, pagesInStaging, size) {
  turns.reserve(size.layers);
  candidates.reserve(candidatesPerExpert() * mostCandidates(rules, size));
  passScratch.reserve(candidatesPerExpert() * mostCandidates(rules, size));
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.reserve(candidatesPerExpert() * size.experts);
  if (rules.baseSlices > 0)
    upperHistories.reserve(size.experts);
  if (rules.eviction == EvictionPolicy::kArc)
    adaptive.emplace(size.layers, size.experts);
}

void CacheDirectory::addLayer(uint64_t quotaPages, bool repeatsEveryStep) {
  CacheHoldings::addLayer(quotaPages);
  turns.push_back({.place = cycleLayers, .repeatsEveryStep = repeatsEveryStep});
  cycleLayers += repeatsEveryStep;
  if (adaptive)
    adaptive->addGroup();
}

void CacheDirectory::addMemory() {
  if (rules.sharing == CacheSharing::kOnePool)
    leavingOrder.resize(candidatesPerExpert() * entries.size());
  if (rules.baseSlices > 0)
    upperHistories.emplace_back();
  if (adaptive)
    adaptive->addExpert();
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
  const Layer &layer = layers[layerIndex];
  LayerTurns &turn = turns[layerIndex];
  ++passes;
  ++turn.turn;
  turn.tokens += std::min(demand.tokens, UINT32_MAX - turn.tokens);
  tokensOfPass = demand.tokens;
  const EvictionScore &score = scoreOf(rules.eviction);
  const FrequencyStep step(score.needsFrequencies ? demand.tokens : 1);
  for (uint32_t id = layer.firstId; score.needsFrequencies && id < layer.firstId + layer.experts;
       ++id)
    forEachHistory(id, [&step](ExpertHistory &history) { step.fade(history); });
  for (uint32_t rank = 0; rank < wantedIds.size(); ++rank) {
    DirectoryEntry &entry = entries[wantedIds[rank]];
    const uint32_t uses = demand.uses.empty() ? 1 : demand.uses[rank];
    auto addTo = [&](ExpertHistory &history) {
      if (score.needsFrequencies)
        step.add(history, uses);
      history.lastUse = passes;
      history.rank = rank;
      history.lastTurn = turn.turn;
      history.tokens += std::min(uses, UINT32_MAX - history.tokens);
      history.lastToken = turn.tokens;
      if (entry.demanded == entry.unit.slices)
        history.fullTokens += std::min(uses, UINT32_MAX - history.fullTokens);
    };
    addTo(entry.history);
    if (!upperHistories.empty() && entry.pages.isUpper(entry.demanded))
      addTo(upperHistories[wantedIds[rank]]);
    if (adaptive)
      adaptive->use(layer.group, wantedIds[rank],
                    pagesFor(wantedIds[rank], entry.slicesDuringPass()), groups[layer.group].pages);
    entry.keptSlices = entry.unit.slices;
  }
  if (score.data == ScoreData::kExchanges)
    addImportances(layer, demand);
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
  if (adaptive)
    limits.onceTargetPages = adaptive->targetPages(layers[executed].group);
  planPass(limits, candidates, passScratch);
  takeAnswers();
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
  const LayerTurns &layer = turns[index], &executed = turns[passLayer];
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
       .isUsedAgain = adaptive && adaptive->isUsedAgain(id)});
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
  if (index == passLayer || adaptive) {
    uint64_t pages = 0;
    for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
      pages += addParts(id, distance);
    return pages;
  }
  const bool hasTwoPools = upperPoolPages(groups[layer.group]).has_value();
  std::array<uint64_t, 2> pages = {}; // For one pool, or for experts and upper slices.
  for (uint32_t i = 0; i < turns[index].ordered; ++i) {
    const Leaving &next = leavingOrderOf(index)[i];
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
  const Layer &layer = layers[index];
  const LayerDistance distance = distanceTo(index);
  candidates.clear();
  for (uint32_t id = layer.firstId; id < layer.firstId + layer.experts; ++id)
    (void)addParts(id, distance);
  std::sort(
      candidates.begin(), candidates.end(),
      [](const PassCandidate &a, const PassCandidate &b) { return leavesBefore(a.use, b.use); });
  uint32_t &ordered = turns[index].ordered = 0;
  for (const PassCandidate &candidate : candidates)
    leavingOrderOf(index)[ordered++] = {candidate.use.expert, candidate.use.isUpper};
}

void CacheDirectory::endPass() {
  const uint32_t group = layers[passLayer].group;
  for (uint32_t id : wantedIds) {
    entries[id].isWanted = false;
    if (adaptive && !entries[id].isHeld()) // It never was, where a layer pass has failed.
      adaptive->leave(group, id);
  }
  wantedIds.clear();
  unkeptIds.clear();
  reducedIds.clear();
  isOpen = false;
  if (adaptive)
    adaptive->forgetGhosts(group, groups[group].pages, layers[groups[group].firstLayer].firstId,
                           endIdOf(groups[group]),
                           [this](uint32_t id) { return entries[id].history.lastUse; });
  else if (rules.sharing == CacheSharing::kOnePool)
    orderLayer(passLayer);
}

UnitState CacheDirectory::apply(uint32_t id, UnitEvent event) {
  const uint64_t forbiddenBefore = forbiddenEvents();
  const UnitState state = changeUnit(id, event);
  if (!adaptive || forbiddenEvents() > forbiddenBefore)
    return state;
  const uint32_t group = layers[entries[id].layer].group;
  // A unit that is demanded again leaves with endPass, if it does.
  if (!entries[id].isWanted && (event == UnitEvent::kEvicted || event == UnitEvent::kRetained))
    adaptive->leave(group, id);
  if (event == UnitEvent::kReduced)
    adaptive->resize(group, id, pagesHeldBy(id));
  return state;
}

//===-- Start, prompts ------------------------------------------------------------------------===//

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
  for (DirectoryEntry &entry : entries)
    entry.history = {};

  std::ranges::fill(upperHistories, ExpertHistory());
  if (adaptive)
    adaptive->forgetAll();
  for (LayerTurns &layer : turns)
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
