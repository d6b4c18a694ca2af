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
    {{State::kClaimed, Event::kReadFailed}, State::kQueued},
    {{State::kCancelled, Event::kDemanded}, State::kClaimed},
    {{State::kCancelled, Event::kReadCompleted}, State::kAbsent},
    {{State::kCancelled, Event::kReadFailed}, State::kAbsent},
    {{State::kPrefetched, Event::kDemanded}, State::kReady},
    {{State::kPrefetched, Event::kCancelled}, State::kAbsent},
    {{State::kReady, Event::kDemanded}, State::kReady},
    {{State::kReady, Event::kReadFailed}, State::kAbsent},
    {{State::kReady, Event::kHandedOut}, State::kInUse},
    {{State::kReady, Event::kRetained}, State::kPrefetched},
    {{State::kReady, Event::kEvicted}, State::kAbsent},
    {{State::kInUse, Event::kReleased}, State::kReady},
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
    if (isBeingRead(state) && event != Event::kReadCompleted && event != Event::kReadFailed)
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

TEST_CASE("slices are present if and only if the unit's read is complete") {
  forEachCell([](State state, Event event) {
    CacheUnit unit{.state = state, .slices = 3};
    if (!unit.apply(event))
      return;
    const bool isComplete = unit.isResident() || unit.state == State::kPrefetched;
    CHECK(unit.slicesPresent == (isComplete ? 3 : 0));
    CHECK(unit.slicesWanted == (unit.state == State::kAbsent ? 0 : 3));
    CHECK(unit.tier == MemoryTier::kHost);
    CHECK(isComplete == (ownerOf(unit.state) != PageOwner::kNobody && !isBeingRead(unit.state)));
  });
}
