// The table of a cache unit's states, cell by cell, and what holds of every unit.
#include "runtime/policy/CacheUnit.h"

#include <doctest/doctest.h>
#include <map>
#include <set>
#include <utility>

using namespace moert;

using State = UnitState;
using Event = UnitEvent;

namespace {

const std::map<std::pair<State, Event>, State> kAllowed = {
    {{State::kAbsent, Event::kDemanded}, State::kQueued},
    {{State::kAbsent, Event::kPrefetchBegun}, State::kPrefetching},
    {{State::kQueued, Event::kReadBegun}, State::kLoading},
    {{State::kQueued, Event::kCancelled}, State::kAbsent},
    {{State::kLoading, Event::kReadCompleted}, State::kReady},
    {{State::kLoading, Event::kReadFailed}, State::kAbsent},
    {{State::kPrefetching, Event::kDemanded}, State::kClaimed},
    {{State::kPrefetching, Event::kReadCompleted}, State::kPrefetched},
    {{State::kPrefetching, Event::kReadFailed}, State::kAbsent},
    {{State::kPrefetching, Event::kCancelled}, State::kCancelled},
    {{State::kClaimed, Event::kReadCompleted}, State::kReady},
    {{State::kClaimed, Event::kPartCompleted}, State::kLacking},
    {{State::kClaimed, Event::kReadFailed}, State::kQueued},
    {{State::kCancelled, Event::kDemanded}, State::kClaimed},
    {{State::kCancelled, Event::kReadCompleted}, State::kAbsent},
    {{State::kCancelled, Event::kReadFailed}, State::kAbsent},
    {{State::kPrefetched, Event::kDemanded}, State::kReady},
    {{State::kPrefetched, Event::kPromoted}, State::kReady},
    {{State::kPrefetched, Event::kCancelled}, State::kAbsent},
    {{State::kReady, Event::kDemanded}, State::kReady},
    {{State::kReady, Event::kReadFailed}, State::kAbsent},
    {{State::kReady, Event::kHandedOut}, State::kInUse},
    {{State::kReady, Event::kRetained}, State::kPrefetched},
    {{State::kReady, Event::kEvicted}, State::kAbsent},
    {{State::kReady, Event::kReduced}, State::kReady},
    {{State::kInUse, Event::kReleased}, State::kReady},
    {{State::kReady, Event::kMoreDemanded}, State::kLacking},
    {{State::kPrefetched, Event::kMoreDemanded}, State::kLacking},
    {{State::kLacking, Event::kReadBegun}, State::kUpgrading},
    {{State::kLacking, Event::kCancelled}, State::kReady},
    {{State::kUpgrading, Event::kReadCompleted}, State::kReady},
    {{State::kUpgrading, Event::kReadFailed}, State::kAbsent},
};

/// Calls check(state, event) for every cell of the table.
template <typename Check> void forEachCell(Check check) {
  for (size_t state = 0; state < kUnitStates; ++state)
    for (size_t event = 0; event < kUnitEvents; ++event) {
      CAPTURE(state);
      CAPTURE(event);
      check(static_cast<State>(state), static_cast<Event>(event));
    }
}

} // namespace

TEST_CASE("each state allows exactly the events of the specification") {
  forEachCell([](State state, Event event) {
    const auto allowed = kAllowed.find({state, event});
    CacheUnit unit{.state = state};
    CHECK(unit.apply(event) == (allowed != kAllowed.end()));
    CHECK(unit.state == (allowed == kAllowed.end() ? state : allowed->second));
  });
}

TEST_CASE("a unit in use keeps its pages, and so does one that is being read") {
  forEachCell([](State state, Event event) {
    const State next = transition(state, event);
    if (next == State::kForbidden)
      return;
    if (state == State::kInUse)
      CHECK(event == Event::kReleased);
    const bool endsRead = event == Event::kReadCompleted || event == Event::kPartCompleted ||
                          event == Event::kReadFailed;
    if (isBeingRead(state) && !endsRead)
      CHECK(isBeingRead(next));
    if (isBeingRead(next))
      CHECK(ownerOf(next) != PageOwner::kNobody);
  });
}

TEST_CASE("every state is reached from an absent unit and leads back to it") {
  auto reachedFrom = [](State first) {
    std::set<State> reached{first};
    for (size_t before = 0; before != reached.size();) {
      before = reached.size();
      forEachCell([&](State state, Event event) {
        const State next = transition(state, event);
        if (next != State::kForbidden && reached.contains(state))
          reached.insert(next);
      });
    }
    return reached;
  };
  CHECK(reachedFrom(State::kAbsent).size() == kUnitStates);
  for (size_t state = 0; state < kUnitStates; ++state)
    CHECK(reachedFrom(static_cast<State>(state)).contains(State::kAbsent));
}

namespace {

/// A unit of three slices after these events; with those of a demand, so many slices are wanted.
CacheUnit after(std::initializer_list<std::pair<Event, uint16_t>> events) {
  CacheUnit unit{.slices = 3};
  for (const auto &each : events) {
    CAPTURE(int(each.first));
    REQUIRE(unit.apply(each.first, each.second));
    CHECK(unit.slicesPresent <= unit.slicesWanted);
    CHECK(unit.slicesWanted <= unit.slices);
    if (unit.isResident() || unit.state == State::kPrefetched)
      CHECK(unit.slicesPresent == unit.slicesWanted);
    if (unit.state == State::kAbsent)
      CHECK(unit.slicesWanted == 0);
  }
  return unit;
}

const std::pair<Event, uint16_t> kBegun = {Event::kReadBegun, 0},
                                 kDone = {Event::kReadCompleted, 0},
                                 kPrefetched = {Event::kPrefetchBegun, 3},
                                 kPrefetchedLow = {Event::kPrefetchBegun, 1};

} // namespace

TEST_CASE("a demand reads the slices that it wants, and a later one those that are lacking") {
  CacheUnit unit = after({{Event::kDemanded, 1}, kBegun});
  CHECK(unit.slicesWanted == 1);
  CHECK(unit.slicesPresent == 0);
  unit = after({{Event::kDemanded, 1}, kBegun, kDone});
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.demandOf(1) == Event::kDemanded);
  CHECK(unit.demandOf(2) == Event::kMoreDemanded);
  unit = after({{Event::kDemanded, 1}, kBegun, kDone, {Event::kMoreDemanded, 3}, kBegun});
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.slicesWanted == 3);
  unit = after({{Event::kDemanded, 1}, kBegun, kDone, {Event::kMoreDemanded, 3}, kBegun, kDone});
  CHECK(unit.slicesPresent == 3);
}

TEST_CASE("a demand for less takes nothing from what stayed in memory") {
  const CacheUnit unit = after({{Event::kDemanded, 3}, kBegun, kDone, {Event::kDemanded, 1}});
  CHECK(unit.slicesPresent == 3);
}

TEST_CASE("a prefetch reads all slices and counts as those that are then demanded") {
  CHECK(after({kPrefetched, kDone}).slicesPresent == 3);
  CHECK(after({kPrefetched, kDone, {Event::kDemanded, 1}}).slicesPresent == 1);
  CHECK(after({kPrefetched, {Event::kDemanded, 1}, kDone}).slicesPresent == 1);
  CHECK(after({kPrefetched, {Event::kCancelled, 0}, {Event::kDemanded, 2}, kDone}).slicesPresent ==
        2);
}

TEST_CASE("a promotion joins with all slices") {
  CHECK(after({kPrefetched, kDone, {Event::kPromoted, 1}}).slicesPresent == 3);
  CHECK(after({kPrefetched, kDone, {Event::kPromoted, 1}}).isHeld());
}

TEST_CASE("an expert of few slices that is retained needs the others once it is demanded") {
  CacheUnit unit = after({{Event::kDemanded, 1}, kBegun, kDone, {Event::kRetained, 0}});
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.demandOf(3) == Event::kMoreDemanded);
  unit = after(
      {{Event::kDemanded, 1}, kBegun, kDone, {Event::kRetained, 0}, {Event::kMoreDemanded, 3}});
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.slicesWanted == 3);
}

TEST_CASE("slices that were not read yet are given up with their demand") {
  const CacheUnit unit = after(
      {{Event::kDemanded, 1}, kBegun, kDone, {Event::kMoreDemanded, 3}, {Event::kCancelled, 0}});
  CHECK(unit.state == State::kReady);
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.slicesWanted == 1);
}

TEST_CASE("a reduced unit keeps its first slices and reads the others again") {
  CacheUnit unit =
      after({{Event::kDemanded, 3}, kBegun, kDone, {Event::kReduced, 1}, {Event::kDemanded, 1}});
  CHECK(unit.state == State::kReady);
  CHECK(unit.slicesPresent == 1);
  CHECK(unit.demandOf(3) == Event::kMoreDemanded);
}

TEST_CASE("a unit has pages for what it reads, and for what stays") {
  CHECK(after({{Event::kDemanded, 1}}).slicesHeld() == 0);
  CHECK(after({{Event::kDemanded, 1}, kBegun}).slicesHeld() == 1);
  // What is lacking gets its pages with its read.
  CHECK(after({{Event::kDemanded, 1}, kBegun, kDone, {Event::kMoreDemanded, 3}}).slicesHeld() == 1);
  CHECK(after({{Event::kDemanded, 1}, kBegun, kDone, {Event::kMoreDemanded, 3}, kBegun})
            .slicesHeld() == 3);
  CHECK(after({{Event::kDemanded, 3}, kBegun, kDone, {Event::kReduced, 2}}).slicesHeld() == 2);
  // A prefetch reads the whole record, whatever is demanded of it meanwhile.
  CHECK(after({kPrefetched}).slicesHeld() == 3);
  CHECK(after({kPrefetched, {Event::kCancelled, 0}}).slicesHeld() == 3);
  CHECK(after({kPrefetched, {Event::kDemanded, 1}}).slicesHeld() == 3);
  CHECK(after({kPrefetched, {Event::kDemanded, 1}, kDone}).slicesHeld() == 1);
  CHECK(after({kPrefetched, kDone, {Event::kDemanded, 1}}).slicesHeld() == 1);
}

TEST_CASE("a prefetch of few slices is completed where more are demanded") {
  CHECK(after({kPrefetchedLow}).slicesHeld() == 1);
  CHECK(after({kPrefetchedLow, kDone, {Event::kDemanded, 1}}).slicesPresent == 1);
  CHECK(after({kPrefetchedLow, kDone}).demandOf(3) == Event::kMoreDemanded);
  const CacheUnit claimed = after({kPrefetchedLow, {Event::kDemanded, 3}});
  CHECK(claimed.completion() == Event::kPartCompleted);
  CHECK(claimed.slicesHeld() == 1);
  const CacheUnit lacking =
      after({kPrefetchedLow, {Event::kDemanded, 3}, {Event::kPartCompleted, 0}});
  CHECK(lacking.state == State::kLacking);
  CHECK(lacking.slicesPresent == 1);
  CHECK(lacking.slicesWanted == 3);
  CHECK(after({kPrefetchedLow, {Event::kDemanded, 1}}).completion() == Event::kReadCompleted);
  CHECK(after({kPrefetched, {Event::kDemanded, 3}}).completion() == Event::kReadCompleted);
}

namespace {

/// A unit of three slices, of which the first is a low copy, after these events.
CacheUnit copyAfter(std::initializer_list<std::pair<Event, uint16_t>> events) {
  CacheUnit unit{.slices = 3, .lowCopySlices = 1};
  for (const auto &each : events)
    REQUIRE(unit.apply(each.first, each.second));
  return unit;
}

} // namespace

TEST_CASE("a copy of high precision consists of the slices after the low copy") {
  const CacheUnit unit{.slices = 3, .lowCopySlices = 1};
  CHECK(unit.firstOf(1) == 0);
  CHECK(unit.firstOf(2) == 1);
  CHECK(unit.firstOf(3) == 1);
  CHECK(CacheUnit{.slices = 3}.firstOf(3) == 0);
}

TEST_CASE("a copy that stayed serves demands for as much or for less, a prefetched one no other") {
  const CacheUnit low = copyAfter({{Event::kDemanded, 1}, kBegun, kDone}),
                  high = copyAfter({{Event::kDemanded, 2}, kBegun, kDone}),
                  prefetched = copyAfter({kPrefetched, kDone}), reading = copyAfter({kPrefetched});
  CHECK_FALSE(low.hasOtherCopyThan(1));
  CHECK(low.hasOtherCopyThan(2));
  CHECK(low.hasOtherCopyThan(3));
  for (uint16_t demanded : {1, 2, 3})
    CHECK_FALSE(high.hasOtherCopyThan(demanded)); // With 3, one slice is lacking.
  for (const CacheUnit &prefetch : {prefetched, reading}) {
    CHECK(prefetch.hasOtherCopyThan(1));
    CHECK_FALSE(prefetch.hasOtherCopyThan(2));
    CHECK_FALSE(prefetch.hasOtherCopyThan(3));
  }
  CHECK(copyAfter({kPrefetchedLow}).hasOtherCopyThan(2));
  CHECK_FALSE(copyAfter({{Event::kDemanded, 2}}).hasOtherCopyThan(1)); // It has nothing yet.
}

TEST_CASE("a prefetch of one copy brings nothing for a demand for the other") {
  for (const auto &pair : {std::pair<uint16_t, uint16_t>{1, 2}, {1, 3}, {2, 1}, {3, 1}}) {
    const uint16_t read = pair.first, demanded = pair.second;
    CAPTURE(read);
    const CacheUnit unit = copyAfter({{Event::kPrefetchBegun, read}, {Event::kDemanded, demanded}});
    CHECK(unit.completion() == Event::kReadFailed);
  }
  CHECK(copyAfter({{Event::kPrefetchBegun, 2}, {Event::kDemanded, 3}}).completion() ==
        Event::kPartCompleted);
  CHECK(copyAfter({{Event::kPrefetchBegun, 3}, {Event::kDemanded, 2}}).completion() ==
        Event::kReadCompleted);
}
