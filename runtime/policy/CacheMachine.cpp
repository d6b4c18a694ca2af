#include "runtime/policy/CacheMachine.h"

#include <algorithm>
#include <cassert>

namespace moert {

// With one pool, experts of all layers may leave during a layer pass.
static size_t mostLeaving(const CacheDirectory &directory) {
  const DirectorySize size = directory.size();
  const bool isOnePool = directory.cacheRules().sharing == CacheSharing::kOnePool;
  return isOnePool ? size.experts : size.widestLayer;
}

CacheMachine::CacheMachine(CacheDirectory filled, const CacheReadLimits &readLimits)
    : directory(std::move(filled)), prefetches(directory.size()),
      promotions(readLimits.prefetchReads > 0 ? directory.cacheRules().exchange : ExchangeRule(),
                 directory.size()),
      limits(readLimits) {
  toRead.reserve(directory.size().widestLayer);
  arrived.reserve(directory.size().widestLayer);
  leaving.reserve(mostLeaving(directory));
  // Upper slices, and then the others.
  const size_t partsPerExpert = directory.cacheRules().baseSlices > 0 ? 2 : 1;
  givenBack.reserve(partsPerExpert * directory.size().experts);
  exchanged.reserve(directory.size().widestLayer);
}

void CacheMachine::prefetch(const LayerPrefetch &prefetch) {
  if (limits.prefetchReads > 0 && !promotions.exchanges())
    prefetches.nominate(directory, prefetch);
}

//===-- A layer pass --------------------------------------------------------------------------===//

bool CacheMachine::beginPass(uint32_t layer, const PassDemand &demand) {
  if (!directory.beginPass(layer, demand))
    return false;
  for (std::vector<uint32_t> *perPass : {&toRead, &arrived, &leaving})
    perPass->clear();
  nextRead = claimedInPart = handedOut = released = nextLeaving = 0;
  prefetches.beginPass(directory, layer);
  cancel(prefetches.cancelled());
  promotions.beginPass(directory, layer);
  cancel(promotions.cancelled());
  demandUnits();
  const uint32_t retained = prefetches.select(directory);
  countsNow.prefetchesRetained += retained;
  countsNow.evictions += retained;
  listUnits();
  countsNow.ready += arrived.size();
  return true;
}

/// A cancelled prefetch that is demanded while its read is under way is useful, too.
void CacheMachine::demandUnits() {
  for (uint32_t id : directory.wanted()) {
    const DirectoryEntry &entry = directory.at(id);
    const bool isHeld = entry.isHeld(), isLow = entry.demanded < entry.unit.slices;
    const bool isOtherCopy = entry.unit.hasOtherCopyThan(entry.demanded);
    const bool isUseful = entry.isPrefetch() && !isOtherCopy;
    // Further slices might find no room beside the first ones, which do not stay either: the whole
    // record is read.
    if (isHeld && (isOtherCopy || (entry.keptSlices == 0 && directory.missingPages(id) > 0)))
      evict(id);
    if (isOtherCopy && entry.unit.state == UnitState::kPrefetched)
      cancel({&id, 1});
    const bool isHit = demand(id) == UnitState::kReady && isHeld;
    claimedInPart += entry.unit.completion() != UnitEvent::kReadCompleted;
    countsNow.hits += isHit;
    countsNow.misses += !isHit;
    countsNow.lowHits += isLow && isHit;
    countsNow.lowMisses += isLow && !isHit;
    countsNow.useful += isUseful;
  }
}

/// What needs no pages comes first and waits for no room. Then experts that pass through, then
/// those that stay: until the latter have pages, their room serves the former. Of both, those come
/// first that lack slices only.
void CacheMachine::listUnits() {
  for (std::span<const uint32_t> ids : {directory.unkept(), directory.reduced()})
    for (uint32_t id : ids)
      if (directory.at(id).isHeld() && !directory.at(id).isWanted)
        leaving.push_back(id);
  const std::span<const uint32_t> wanted = directory.wanted();
  auto stateOf = [this](uint32_t id) { return directory.at(id).unit.state; };
  for (uint32_t id : wanted)
    if (stateOf(id) == UnitState::kLacking && directory.missingPages(id) == 0)
      toRead.push_back(id);
  for (bool isKept : {false, true})
    for (UnitState state : {UnitState::kLacking, UnitState::kQueued})
      for (uint32_t id : wanted)
        if (stateOf(id) == state && directory.at(id).isKept() == isKept &&
            directory.missingPages(id) > 0)
          toRead.push_back(id);
  for (uint32_t index = 0; index < wanted.size(); ++index)
    if (directory.at(wanted[index]).unit.state == UnitState::kReady)
      arrived.push_back(index);
}

std::optional<CacheAction> CacheMachine::next() {
  if (nextGivenBack < givenBack.size())
    return givenBack[nextGivenBack++];
  givenBack.clear();
  nextGivenBack = 0;
  if (reading >= limits.reads)
    return {};
  if (directory.isPassOpen() && nextRead < toRead.size()) {
    const uint32_t id = toRead[nextRead];
    if (!directory.hasRoomFor(id)) {
      const std::optional<CacheAction> evicted = evictForRoom();
      return evicted ? evicted : evictLacking();
    }
    ++nextRead;
    apply(id, UnitEvent::kReadBegun);
    return beginRead(id);
  }
  // Prefetches get what the demand leaves of the disk and of the pages.
  if (claimedInPart > 0)
    return {};
  return readingPrefetches < limits.prefetchReads ? beginPrefetch() : std::nullopt;
}

std::optional<CacheAction> CacheMachine::beginPrefetch() {
  const bool isPromotion = promotions.hasNext();
  if (!isPromotion && !prefetches.hasNext())
    return {};
  const uint32_t id = isPromotion ? promotions.next() : prefetches.next();
  const CacheUnit &unit = directory.at(id).unit;
  const uint16_t slices = isPromotion ? unit.slices : prefetches.slicesOfNext();
  if (!directory.hasRoomForPrefetch(id, slices))
    return evictForRoom();
  ++readingPrefetches;
  if (isPromotion) {
    promotions.begin();
    ++countsNow.promotionsRead;
  } else {
    prefetches.begin();
    ++countsNow.prefetchesRead;
    countsNow.prefetchBytes += directory.bytesOf(id, unit.firstOf(slices), slices);
  }
  directory.beginPrefetch(id, slices);
  return beginRead(id);
}

/// What will not stay leaves early. There may be nothing.
std::optional<CacheAction> CacheMachine::evictForRoom() {
  if (!directory.isPassOpen() || nextLeaving == leaving.size())
    return {};
  letGo(leaving[nextLeaving++]);
  return givenBack[nextGivenBack++];
}

CacheAction CacheMachine::beginRead(uint32_t id) {
  ++reading;
  const CacheUnit &unit = directory.at(id).unit;
  const uint16_t first = std::max(unit.slicesPresent, unit.firstOf(unit.slicesWanted));
  countsNow.bytesRead += directory.bytesOf(id, first, unit.slicesWanted);
  return {id, true, first, unit.slicesWanted};
}

/// Prefetches that brought too few slices hold pages, and together may leave no room to read the
/// rest of any. When nothing else can free pages, the last of them gives up its pages and is read
/// anew.
std::optional<CacheAction> CacheMachine::evictLacking() {
  if (reading > 0 || inUseCount() > 0 || !ready().empty())
    return {};
  for (size_t i = toRead.size(); i > nextRead + 1; --i) {
    const uint32_t id = toRead[i - 1];
    if (directory.at(id).unit.state != UnitState::kLacking)
      continue;
    for (UnitEvent event : {UnitEvent::kCancelled, UnitEvent::kEvicted})
      apply(id, event);
    demand(id);
    return givenBack[nextGivenBack++];
  }
  return {};
}

bool CacheMachine::completed(uint32_t id, bool isOk) {
  const UnitState before = directory.at(id).unit.state;
  --reading;
  readingPrefetches -= !isDemandedRead(before);
  const UnitEvent completion = directory.at(id).unit.completion();
  claimedInPart -= completion != UnitEvent::kReadCompleted;
  const UnitState after = apply(id, isOk ? completion : UnitEvent::kReadFailed);
  countsNow.cancelled += isOk && completion == UnitEvent::kReadFailed; // The other copy's.
  if (after == UnitState::kReady)
    arrived.push_back(directory.at(id).history.rank);
  if (after == UnitState::kQueued || after == UnitState::kLacking) {
    toRead.push_back(id);
    return true;
  }
  if (isOk && after != UnitState::kAbsent)
    return true;
  if (isDemandedRead(before) || promotions.remove(id))
    return false;
  prefetches.forget(id);
  ++countsNow.cancelled;
  return true;
}

uint32_t CacheMachine::handOut(bool stalled) {
  assert(!ready().empty());
  const uint32_t index = arrived[handedOut++];
  apply(idOf(index), UnitEvent::kHandedOut);
  countsNow.stalled += stalled;
  return index;
}

void CacheMachine::release(uint32_t index) {
  const uint32_t id = idOf(index);
  apply(id, UnitEvent::kReleased);
  ++released;
  if (directory.holdsMoreThanKept(id))
    leaving.push_back(id);
}

void CacheMachine::discard(uint32_t id) {
  apply(id, UnitEvent::kReadFailed);
}

void CacheMachine::endPass() {
  assert(released == directory.wanted().size());
  for (std::span<const uint32_t> ids : {directory.unkept(), directory.reduced()})
    for (uint32_t id : ids)
      if (directory.at(id).unit.state == UnitState::kReady && directory.holdsMoreThanKept(id))
        letGo(id);
  directory.endPass();
  promotions.endPass(directory);
}

bool CacheMachine::settlePromotions() {
  while (const PromotionList::Promotion *due = promotions.due(directory)) {
    const uint32_t id = due->id;
    if (directory.at(id).unit.state != UnitState::kPrefetched)
      return false;
    (void)promotions.remove(id);
    if (!directory.selectLeaving(id, exchanged)) { // It is not more important any more.
      cancel({&id, 1});
      continue;
    }
    for (uint32_t leavingId : exchanged)
      evict(leavingId);
    apply(id, UnitEvent::kPromoted);
    ++countsNow.promoted;
  }
  return true;
}

void CacheMachine::abandonPass() {
  assert(reading == 0);
  for (uint32_t id : directory.wanted())
    if (directory.at(id).unit.state == UnitState::kInUse)
      apply(id, UnitEvent::kReleased);
    else if (directory.at(id).unit.state == UnitState::kQueued ||
             directory.at(id).unit.state == UnitState::kLacking)
      apply(id, UnitEvent::kCancelled);
  released = directory.wanted().size();
  endPass();
  cancelAllPrefetches();
}

//===-- Prefetches, prompts -------------------------------------------------------------------===//

/// A prefetch that is being read gives its pages back when its read has ended.
void CacheMachine::cancel(std::span<const uint32_t> begun) {
  for (uint32_t id : begun)
    if (apply(id, UnitEvent::kCancelled) == UnitState::kAbsent)
      ++countsNow.cancelled;
}

void CacheMachine::evict(uint32_t id) {
  apply(id, UnitEvent::kEvicted);
  ++countsNow.evictions;
}

//===-- Units and their pages -----------------------------------------------------------------===//

UnitState CacheMachine::apply(uint32_t id, UnitEvent event) {
  const uint16_t slices = directory.at(id).unit.slicesHeld();
  const UnitState after = directory.apply(id, event);
  giveBack(id, slices);
  return after;
}

UnitState CacheMachine::demand(uint32_t id) {
  const DirectoryEntry &entry = directory.at(id);
  return apply(id, entry.unit.demandOf(entry.demanded));
}

/// The driver takes back the pages that it has no more.
void CacheMachine::giveBack(uint32_t id, uint16_t slicesBefore) {
  const uint16_t slices = directory.at(id).unit.slicesHeld();
  if (directory.pagesFor(id, slices) < directory.pagesFor(id, slicesBefore))
    givenBack.push_back({id, false, slices, slicesBefore});
}

/// What the layer pass did not choose to keep of it.
void CacheMachine::letGo(uint32_t id) {
  if (directory.at(id).keptSlices == 0)
    return evict(id);
  apply(id, UnitEvent::kReduced);
}

void CacheMachine::cancelAllPrefetches() {
  prefetches.cancelAll();
  cancel(prefetches.cancelled());
  promotions.cancelAll();
  cancel(promotions.cancelled());
}

void CacheMachine::continueFrom(const CacheMachine &before) {
  assert(before.reading == 0 && before.directory.prefetchPages() == 0);
  directory.continueFrom(before.directory);
  countsNow = before.countsNow;
}

void CacheMachine::beginPrompt() {
  cancelAllPrefetches();
  const uint64_t evictions = countsNow.evictions;
  if (directory.cacheRules().survival == PromptSurvival::kPins)
    for (uint32_t id = 0; id < directory.size().experts; ++id)
      if (directory.at(id).unit.state == UnitState::kReady && directory.at(id).pins == 0)
        evict(id);
  countsNow.evictions = evictions;
  directory.beginPrompt();
}

} // namespace moert
