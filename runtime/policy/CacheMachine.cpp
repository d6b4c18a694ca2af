#include "runtime/policy/CacheMachine.h"

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
  givenBack.reserve(directory.size().experts);
  exchanged.reserve(directory.size().widestLayer);
}

void CacheMachine::prefetch(const LayerPrefetch &prefetch) {
  if (limits.prefetchReads > 0 && !promotions.exchanges())
    prefetches.name(prefetch);
}

//===-- A layer pass --------------------------------------------------------------------------===//

bool CacheMachine::beginPass(uint32_t layer, const PassDemand &demand) {
  if (!directory.beginPass(layer, demand))
    return false;
  for (std::vector<uint32_t> *perPass : {&toRead, &arrived, &leaving})
    perPass->clear();
  nextRead = handedOut = released = nextLeaving = 0;
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
    const bool isHeld = directory.at(id).isHeld(), isPrefetch = directory.at(id).isPrefetch();
    const bool isLow = directory.at(id).demanded < directory.at(id).unit.slices;
    const bool isHit = isHeld && directory.demand(id) == UnitState::kReady;
    if (!isHeld)
      directory.demand(id);
    countsNow.hits += isHit;
    countsNow.misses += !isHit;
    countsNow.lowHits += isLow && isHit;
    countsNow.lowMisses += isLow && !isHit;
    countsNow.useful += isPrefetch;
  }
}

/// Slices that are lacking need no pages, so they come first and wait for no room. Then experts
/// that pass through, then those that stay: until the latter have pages, their room serves the
/// former.
void CacheMachine::listUnits() {
  for (uint32_t id : directory.unkept())
    if (directory.at(id).isHeld() && !directory.at(id).isWanted)
      leaving.push_back(id);
  const std::span<const uint32_t> wanted = directory.wanted();
  for (uint32_t id : wanted)
    if (directory.at(id).unit.state == UnitState::kLacking)
      toRead.push_back(id);
  for (bool isKept : {false, true})
    for (uint32_t id : wanted)
      if (directory.at(id).unit.state == UnitState::kQueued && directory.at(id).isKept == isKept)
        toRead.push_back(id);
  for (uint32_t index = 0; index < wanted.size(); ++index)
    if (directory.at(wanted[index]).unit.state == UnitState::kReady)
      arrived.push_back(index);
}

std::optional<CacheAction> CacheMachine::next() {
  if (nextGivenBack < givenBack.size())
    return CacheAction{givenBack[nextGivenBack++], false};
  givenBack.clear();
  nextGivenBack = 0;
  if (reading >= limits.reads)
    return {};
  if (directory.isPassOpen() && nextRead < toRead.size()) {
    const uint32_t id = toRead[nextRead];
    const bool hasPages = directory.at(id).isHeld();
    if (!hasPages && !directory.hasRoomFor(id))
      return evictForRoom();
    ++nextRead;
    return beginRead(id, UnitEvent::kReadBegun);
  }
  // Prefetches get what the demand leaves of the disk and of the pages.
  return readingPrefetches < limits.prefetchReads ? beginPrefetch() : std::nullopt;
}

std::optional<CacheAction> CacheMachine::beginPrefetch() {
  const bool isPromotion = promotions.hasNext();
  if (!isPromotion && !prefetches.hasNext())
    return {};
  const uint32_t id = isPromotion ? promotions.next() : prefetches.next();
  if (!directory.hasRoomForPrefetch(id))
    return evictForRoom();
  ++readingPrefetches;
  if (isPromotion) {
    promotions.begin();
    ++countsNow.promotionsRead;
  } else {
    prefetches.begin();
    ++countsNow.prefetchesRead;
    countsNow.prefetchBytes += directory.at(id).bytes;
  }
  return beginRead(id, UnitEvent::kPrefetchBegun);
}

/// An expert that will not stay leaves early. There may be none.
std::optional<CacheAction> CacheMachine::evictForRoom() {
  if (!directory.isPassOpen() || nextLeaving == leaving.size())
    return {};
  evict(leaving[nextLeaving++]);
  return CacheAction{givenBack[nextGivenBack++], false};
}

CacheAction CacheMachine::beginRead(uint32_t id, UnitEvent event) {
  directory.apply(id, event);
  ++reading;
  const CacheUnit &unit = directory.at(id).unit;
  countsNow.bytesRead += directory.bytesOf(id, unit.slicesPresent, unit.slicesWanted);
  return {id, true, unit.slicesPresent, unit.slicesWanted};
}

bool CacheMachine::completed(uint32_t id, bool isOk) {
  const UnitState before = directory.at(id).unit.state;
  --reading;
  readingPrefetches -= !isDemandedRead(before);
  const UnitState after =
      directory.apply(id, isOk ? UnitEvent::kReadCompleted : UnitEvent::kReadFailed);
  if (after == UnitState::kReady)
    arrived.push_back(directory.at(id).history.rank);
  if (isOk && after != UnitState::kAbsent)
    return true;
  givenBack.push_back(id);
  if (after == UnitState::kQueued) {
    toRead.push_back(id);
    return true;
  }
  if (isDemandedRead(before) || promotions.remove(id))
    return false;
  prefetches.forget(id);
  ++countsNow.cancelled;
  return true;
}

uint32_t CacheMachine::handOut(bool stalled) {
  assert(!ready().empty());
  const uint32_t index = arrived[handedOut++];
  directory.apply(idOf(index), UnitEvent::kHandedOut);
  countsNow.stalled += stalled;
  return index;
}

void CacheMachine::release(uint32_t index) {
  const uint32_t id = idOf(index);
  directory.apply(id, UnitEvent::kReleased);
  ++released;
  if (!directory.at(id).isKept)
    leaving.push_back(id);
}

void CacheMachine::discard(uint32_t id) {
  directory.apply(id, UnitEvent::kReadFailed);
  givenBack.push_back(id);
}

void CacheMachine::endPass() {
  assert(released == directory.wanted().size());
  for (uint32_t id : directory.unkept())
    if (directory.at(id).unit.state == UnitState::kReady)
      evict(id);
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
    directory.apply(id, UnitEvent::kPromoted);
    ++countsNow.promoted;
  }
  return true;
}

void CacheMachine::abandonPass() {
  assert(reading == 0);
  for (uint32_t id : directory.wanted())
    if (directory.at(id).unit.state == UnitState::kInUse)
      directory.apply(id, UnitEvent::kReleased);
    else if (directory.at(id).unit.state == UnitState::kQueued ||
             directory.at(id).unit.state == UnitState::kLacking)
      directory.apply(id, UnitEvent::kCancelled);
  released = directory.wanted().size();
  endPass();
  cancelAllPrefetches();
}

//===-- Prefetches, prompts -------------------------------------------------------------------===//

/// One that is being read gives its pages back when its read has ended.
void CacheMachine::cancel(std::span<const uint32_t> begun) {
  for (uint32_t id : begun)
    if (directory.apply(id, UnitEvent::kCancelled) == UnitState::kAbsent) {
      givenBack.push_back(id);
      ++countsNow.cancelled;
    }
}

void CacheMachine::evict(uint32_t id) {
  directory.apply(id, UnitEvent::kEvicted);
  givenBack.push_back(id);
  ++countsNow.evictions;
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
