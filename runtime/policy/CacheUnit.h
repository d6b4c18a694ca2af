// The state machine of one unit of the expert cache, an expert with the slices that are wanted: its
// states, the events that change them, and one table that allows or forbids each pair. The table is
// the specification: whoever drives the cache, a unit changes its state through apply() alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace moert {

/// Whose pages a unit has.
enum class PageOwner : uint8_t {
  kNobody,
  kLayer,   // Pages of its layer's quota, or staging pages while its layer is executed: it is held.
  kStaging, // Staging pages, as a prefetch.
};

/// Ordered by the owner of the unit's pages.
enum class UnitState : uint8_t {
  kAbsent,      // No pages.
  kQueued,      // Demanded by the open layer pass, without pages: its read waits for room.
  kLoading,     // Being read on demand.
  kClaimed,     // Being read as a prefetch, and demanded meanwhile.
  kReady,       // Resident.
  kInUse,       // Resident and handed out.
  kLacking,     // Demanded with more slices than are present: the read of the others waits.
  kUpgrading,   // Its other slices are being read on demand.
  kPrefetching, // Being read as a prefetch, or for a promotion (Promotions.h).
  kCancelled,   // Being read as one that nobody needs any more.
  kPrefetched,  // Complete, not demanded or promoted yet.
  kForbidden,   // No state of a unit: what the table has where an event may not happen.
};
constexpr size_t kUnitStates = 11;

enum class UnitEvent : uint8_t {
  kDemanded,      // A layer pass that demands it begins.
  kMoreDemanded,  // The same, with more slices than are present.
  kReadBegun,     // The demand's read begins.
  kPrefetchBegun, // A read begins that no layer pass has asked for.
  kReadCompleted,
  /// Also: the bytes of a ready unit do not match their checksum; a claimed prefetch brings another
  /// copy than is demanded.
  kReadFailed,
  kHandedOut,
  kReleased,  // It was computed, or its layer pass was abandoned.
  kRetained,  // It would be evicted, and stays as a prefetch instead.
  kCancelled, // Nobody needs the prefetch any more, or the layer pass was abandoned.
  kEvicted,
  kPromoted,      // The planned time of a promotion has come: it joins the experts of its layer.
  kReduced,       // Its upper slices are evicted.
  kPartCompleted, // The read of a prefetch has ended that brings fewer slices than are demanded.
};
constexpr size_t kUnitEvents = 14;

using UnitTable = std::array<std::array<UnitState, kUnitEvents>, kUnitStates>;

/// The state that follows. If a claimed read fails, the demand reads again.
inline constexpr UnitTable kUnitTable = [] {
  using enum UnitState;
  constexpr UnitState no = kForbidden;
  // clang-format off
  return UnitTable{{
    //               demanded  more      begun       prefetch      completed    failed   handedOut  released  retained     cancelled   evicted  promoted  reduced   part
    /* absent      */ {kQueued,  no,       no,         kPrefetching, no,          no,      no,        no,       no,          no,         no,      no, no,       no},
    /* queued      */ {no,       no,       kLoading,   no,           no,          no,      no,        no,       no,          kAbsent,    no,      no, no,       no},
    /* loading     */ {no,       no,       no,         no,           kReady,      kAbsent, no,        no,       no,          no,         no,      no, no,       no},
    /* claimed     */ {no,       no,       no,         no,           kReady,      kQueued, no,        no,       no,          no,         no,      no, no,       kLacking},
    /* ready       */ {kReady,   kLacking, no,         no,           no,          kAbsent, kInUse,    no,       kPrefetched, no,         kAbsent,      no, kReady,   no},
    /* inUse       */ {no,       no,       no,         no,           no,          no,      no,        kReady,   no,          no,         no,      no, no,       no},
    /* lacking     */ {no,       no,       kUpgrading, no,           no,          no,      no,        no,       no,          kReady,     no,      no, no,       no},
    /* upgrading   */ {no,       no,       no,         no,           kReady,      kAbsent, no,        no,       no,          no,         no,      no, no,       no},
    /* prefetching */ {kClaimed, no,       no,         no,           kPrefetched, kAbsent, no,        no,       no,          kCancelled, no,      no, no,       no},
    /* cancelled   */ {kClaimed, no,       no,         no,           kAbsent,     kAbsent, no,        no,       no,          no,         no,      no, no,       no},
    /* prefetched  */ {kReady,   kLacking, no,         no,           no,          no,      no,        no,       no,          kAbsent,    no,      kReady, no,       no},
  }};
  // clang-format on
}();

constexpr UnitState transition(UnitState from, UnitEvent event) {
  return kUnitTable[static_cast<size_t>(from)][static_cast<size_t>(event)];
}

constexpr PageOwner ownerOf(UnitState state) {
  return state < UnitState::kLoading       ? PageOwner::kNobody
         : state < UnitState::kPrefetching ? PageOwner::kLayer
                                           : PageOwner::kStaging;
}

constexpr bool isBeingRead(UnitState state) {
  using enum UnitState;
  return state == kLoading || state == kUpgrading || state == kPrefetching || state == kClaimed ||
         state == kCancelled;
}

/// Whether the unit's read was begun by a demand, and not as a prefetch.
constexpr bool isDemandedRead(UnitState state) {
  return state == UnitState::kLoading || state == UnitState::kUpgrading;
}

/// Invariants: slicesPresent <= slicesWanted <= slices. A complete unit (ready, in use, prefetched)
/// has all that are wanted; one that is absent, queued, loading or being prefetched has none. A
/// demand takes as many as it wants of those that a prefetch reads; the others are given back.
///
/// With separate copies, so many slices are those of the low copy, or those of the high one without
/// the low one. A unit has one copy; a demand for the other one reads it anew, except that a high
/// copy that stayed in memory serves a demand for less.
struct CacheUnit {
  UnitState state = UnitState::kAbsent;
  uint16_t slices = 1;        // In the record.
  uint16_t lowCopySlices = 0; // The first ones, of the low copy; 0: there are no separate copies.
  uint16_t slicesWanted = 0;
  uint16_t slicesPresent = 0;
  uint16_t slicesPrefetched = 0; // Brought by the read of a prefetch.

  bool isHeld() const { return state >= UnitState::kLoading && state < UnitState::kPrefetching; }
  bool isPrefetch() const { return state >= UnitState::kPrefetching; }
  bool isResident() const { return state == UnitState::kReady || state == UnitState::kInUse; }

  /// The first slice that an expert with so many slices consists of.
  constexpr uint16_t firstOf(uint16_t count) const {
    return count > lowCopySlices ? lowCopySlices : uint16_t(0);
  }
  /// Whether what it has, or is being read, is a copy that does not serve a demand for so many
  /// slices. Whether a prefetch has arrived must not matter, so one at high precision does not
  /// serve a demand for less.
  bool hasOtherCopyThan(uint16_t demanded) const {
    const uint16_t held = slicesHeld();
    return held > 0 && firstOf(held) != firstOf(demanded) && (isPrefetch() || held < demanded);
  }

  /// Slices that it has pages for. What a demand lacks gets pages when its read begins.
  constexpr uint16_t slicesHeld() const {
    if (ownerOf(state) == PageOwner::kNobody)
      return 0;
    return state == UnitState::kLacking   ? slicesPresent
           : state == UnitState::kClaimed ? slicesPrefetched
                                          : slicesWanted;
  }

  /// The event of a demand for so many slices.
  constexpr UnitEvent demandOf(uint16_t demanded) const {
    const bool isComplete = state == UnitState::kReady || state == UnitState::kPrefetched;
    return isComplete && slicesPresent < demanded ? UnitEvent::kMoreDemanded : UnitEvent::kDemanded;
  }

  /// The event of a read that has ended well. A prefetch of the other copy than is demanded
  /// brought nothing.
  constexpr UnitEvent completion() const {
    if (state == UnitState::kClaimed && firstOf(slicesPrefetched) != firstOf(slicesWanted))
      return UnitEvent::kReadFailed;
    return state == UnitState::kClaimed && slicesPrefetched < slicesWanted
               ? UnitEvent::kPartCompleted
               : UnitEvent::kReadCompleted;
  }

  /// False, and nothing changed, if the table forbids the event. `demanded`, 1 to `slices`: with
  /// the events of a demand what it wants, with kPrefetchBegun what is read, with kReduced what
  /// stays.
  [[nodiscard]] constexpr bool apply(UnitEvent event, uint16_t demanded) {
    const UnitState before = state, next = transition(before, event);
    if (next == UnitState::kForbidden)
      return false;
    state = next;
    // What stayed in memory is not reduced. A complete prefetch counts as the slices demanded, as
    // if they had been read now: whether it arrived must not matter to a later layer pass.
    if (event == UnitEvent::kMoreDemanded ||
        (event == UnitEvent::kDemanded && before != UnitState::kReady))
      slicesWanted = demanded;
    if (event == UnitEvent::kPrefetchBegun)
      slicesWanted = slicesPrefetched = demanded;
    if (event == UnitEvent::kPartCompleted)
      slicesPresent = slicesPrefetched;
    if (event == UnitEvent::kReadCompleted ||
        (event == UnitEvent::kDemanded && before == UnitState::kPrefetched))
      slicesPresent = slicesWanted;
    if (before == UnitState::kLacking && event == UnitEvent::kCancelled)
      slicesWanted = slicesPresent;
    if (event == UnitEvent::kReduced)
      slicesWanted = slicesPresent = std::min(slicesPresent, demanded);
    if (state == UnitState::kAbsent)
      slicesWanted = slicesPresent = 0;
    return true;
  }
  [[nodiscard]] constexpr bool apply(UnitEvent event) { return apply(event, slices); }
};

} // namespace moert
