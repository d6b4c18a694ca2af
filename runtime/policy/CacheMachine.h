// The expert cache as a state machine: decides which reads begin, whose pages are given back and
// which expert is computed next, and counts. It has no clock, disk or bytes; a driver carries out
// its actions and reports which reads have ended:
//   runtime/experts/ExpertCache       with pages, a read queue and checksums;
//   compiler/plan/CacheReplay       without time: each read completes at once;
//   compiler/plan/TimedReplay       with the clock of a simulated disk.
// What stays, what is hit, missed and evicted depends on the demand alone, so all three agree.
//
// There is one machine per tier: a read that it begins is a demand of the tier below, which for
// host memory is the disk.
#pragma once

#include "runtime/policy/CacheCounts.h"
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/PrefetchList.h"
#include "runtime/policy/PromotionList.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace moert {

/// How many reads may be under way at once.
struct CacheReadLimits {
  size_t reads = 0;
  size_t prefetchReads = 0; // Prefetches and promotions among them; 0: there are none.
};

/// What the driver has to do with slices of a unit: read them, or take back pages.
///
/// When they are read, the unit has the pages for firstSlice slices, or none if they are the first
/// of its copy (CacheUnit::firstOf); it gets those for endSlice slices. When pages are taken back,
/// it has those for endSlice slices, and those for firstSlice slices stay; 0: none.
struct CacheAction {
  uint32_t id = 0;
  bool isRead = false;
  uint16_t firstSlice = 0, endSlice = 0;
};

/// A layer pass: beginPass; handOut whenever ready() is not empty, and release, until all are
/// handed out; endPass; settlePromotions until it returns true. After each call, and between layer
/// passes as often as the driver likes, it carries out the actions of next() until there is none.
/// Reads may be reported completed at any time.
///
/// Allocates nothing after it was made. For one thread. Ids are the directory's; indices are places
/// in the demand of the open layer pass.
///
/// Invariants: a unit's state changes by kUnitTable alone; outside layer passes only prefetches are
/// being read; units that are being read are within the limits; the directory's limits of pages.
class CacheMachine {
public:
  /// Takes a directory that was filled and has no unit with pages.
  CacheMachine(CacheDirectory filled, const CacheReadLimits &limits);

  const CacheDirectory &state() const { return directory; }
  const DirectoryEntry &at(uint32_t id) const { return directory.at(id); }
  /// Slices of an expert that count as in memory for the next layer pass of its layer, whatever has
  /// arrived: those that stayed after an earlier layer pass, or those that are expected
  /// (PrefetchList.h).
  uint16_t slicesCounted(uint32_t id) const {
    const CacheUnit &unit = directory.at(id).unit;
    const uint16_t expected = prefetches.slicesExpected(id);
    return expected > 0 ? expected : unit.isHeld() ? unit.slicesPresent : uint16_t(0);
  }

  /// Records prefetch candidates for a later layer; the layer pass that begins next decides which
  /// of them are read (PrefetchList.h). Ignored by a cache that exchanges experts.
  void prefetch(const LayerPrefetch &prefetch);
  /// Returns false, without side effects, for an unknown or duplicate expert.
  [[nodiscard]] bool beginPass(uint32_t layer, const PassDemand &demand);
  /// The next action. It counts as done: its unit's state has changed.
  std::optional<CacheAction> next();
  /// A read that next() began has ended. Returns false if the open layer pass cannot go on without
  /// it, or if it was a promotion's; the driver then reports an error and calls abandonPass if a
  /// layer pass is open. The failed read of a prefetch is repeated once the expert is demanded.
  [[nodiscard]] bool completed(uint32_t id, bool isOk);
  size_t readsUnderWay() const { return reading; }
  bool hasPrefetchToRead() const { return prefetches.hasNext() || promotions.hasNext(); }

  uint32_t idOf(size_t index) const { return directory.wanted()[index]; }
  /// Indices of ready experts that were not handed out, in the order to hand them out: those that
  /// were resident first, then those whose reads have completed.
  std::span<const uint32_t> ready() const { return std::span(arrived).subspan(handedOut); }
  bool isAllHandedOut() const { return handedOut == directory.wanted().size(); }
  size_t releasedCount() const { return released; }
  size_t inUseCount() const { return handedOut - released; }
  /// Hands out ready().front(). `stalled`: it was waited for.
  uint32_t handOut(bool stalled);
  /// The bytes of a ready expert are wrong. The driver then calls abandonPass.
  void discard(uint32_t id);
  void release(uint32_t index);

  /// All were released. Evicts what the policy did not choose to keep, and may ask for a promotion.
  void endPass();
  /// After endPass: exchanges experts for promotions whose time has come. Returns false while one
  /// of them is not read yet: the driver then carries out actions and waits for a read.
  [[nodiscard]] bool settlePromotions();
  /// Ends a layer pass that cannot go on. No read is under way. Cancels all prefetches and
  /// promotions, too.
  void abandonPass();

  /// Before each prompt, outside layer passes: cancels all prefetches and promotions and forgets,
  /// evicts or fades by the rules. These evictions are not counted.
  void beginPrompt();
  /// Between layer passes: cancels all prefetches and promotions.
  void cancelAllPrefetches();
  /// Continues a machine of the same experts that has no prefetch and no read under way; this one
  /// was just made (CacheDirectory::continueFrom). Evictions by smaller quotas are not counted.
  void continueFrom(const CacheMachine &before);
  [[nodiscard]] bool pin(uint32_t id) { return directory.pin(id); }
  void unpin(uint32_t id) { directory.unpin(id); }

  /// Everything since the last takeCounts.
  const CacheCounts &counts() const { return countsNow; }
  CacheCounts takeCounts() { return std::exchange(countsNow, {}); }

private:
  void demandUnits();
  void listUnits();
  std::optional<CacheAction> evictForRoom();
  std::optional<CacheAction> evictLacking();
  void cancel(std::span<const uint32_t> begun);
  std::optional<CacheAction> beginPrefetch();
  CacheAction beginRead(uint32_t id);
  UnitState apply(uint32_t id, UnitEvent event);
  UnitState demand(uint32_t id);
  void giveBack(uint32_t id, uint16_t slicesBefore);
  void evict(uint32_t id);
  void letGo(uint32_t id);

  CacheDirectory directory;
  PrefetchList prefetches;
  PromotionList promotions;
  CacheReadLimits limits;
  size_t reading = 0;
  size_t readingPrefetches = 0; // Reads that were begun as prefetches or for promotions.

  // The open layer pass. Vectors keep the room of the largest layer.
  /// Lacking and queued units in the order of their reads; the first nextRead of them were begun.
  std::vector<uint32_t> toRead;
  size_t nextRead = 0;
  size_t claimedInPart = 0; // Reads after which what is still missing is added to toRead.
  /// Indices in the order in which they became ready; the first handedOut of them were handed out.
  std::vector<uint32_t> arrived;
  size_t handedOut = 0, released = 0;
  /// Ready units that will not stay, or without their upper slices, and are not needed any more;
  /// the first nextLeaving have left.
  std::vector<uint32_t> leaving;
  size_t nextLeaving = 0;
  std::vector<uint32_t> exchanged; // For a promotion.

  /// Slices whose pages the driver has to take back; the first nextGivenBack were passed on.
  std::vector<CacheAction> givenBack;
  size_t nextGivenBack = 0;
  CacheCounts countsNow;
};

} // namespace moert
