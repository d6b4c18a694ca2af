#include "runtime/policy/ArcBalance.h"

#include <doctest/doctest.h>

using namespace moert;

// A quota of 4 pages, records of 1 unless said otherwise.

TEST_CASE("an expert wanted for the first time joins those wanted once, then those wanted again") {
  ArcBalance arc;
  ArcPlace list;
  arc.use(list, 1, 4);
  CHECK(list.list == ArcList::kOnce);
  arc.use(list, 1, 4);
  CHECK(list.list == ArcList::kAgain);
  arc.use(list, 1, 4);
  CHECK(list.list == ArcList::kAgain);
  CHECK(arc.targetPages() == 0);
}

TEST_CASE("a ghost of those wanted once moves the target up by its pages, at most to the quota") {
  ArcBalance arc;
  ArcPlace first, second;
  arc.use(first, 3, 4);
  arc.use(second, 3, 4);
  arc.leave(first);
  arc.leave(second);
  CHECK(first.list == ArcList::kOnceGhost);
  arc.use(first, 3, 4);
  CHECK(first.list == ArcList::kAgain);
  CHECK(arc.targetPages() == 3);
  arc.use(second, 3, 4);
  CHECK(arc.targetPages() == 4);
}

TEST_CASE("a ghost of those wanted again moves the target down, faster where it is the rarer one") {
  ArcBalance arc;
  ArcPlace again, once[5];
  arc.use(again, 1, 4);
  arc.use(again, 1, 4);
  arc.leave(again);
  for (ArcPlace &list : once) {
    arc.use(list, 1, 4);
    arc.leave(list);
  }
  // 5 ghosts against 1: up by 1, then 4 against 1: again.
  arc.use(once[0], 1, 4);
  arc.use(once[1], 1, 4);
  CHECK(arc.targetPages() == 2);
  // 3 against 1: down by 3, at most to 0.
  arc.use(again, 1, 4);
  CHECK(arc.targetPages() == 0);
  CHECK(again.list == ArcList::kAgain);
}

TEST_CASE("of experts wanted once no more is remembered than the quota, of all twice as much") {
  ArcBalance arc;
  ArcPlace once[5], again[4];
  for (ArcPlace &list : once)
    arc.use(list, 1, 4);
  arc.leave(once[0]);
  CHECK(arc.overfullGhosts(4) == ArcList::kOnceGhost);
  arc.forget(once[0]);
  CHECK(once[0].list == ArcList::kForgotten);
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  for (ArcPlace &list : again) {
    arc.use(list, 1, 4);
    arc.use(list, 1, 4);
    arc.leave(list);
  }
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  ArcPlace ninth;
  arc.forget(once[1]);
  arc.use(ninth, 1, 4);
  arc.use(ninth, 1, 4);
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  arc.use(once[1], 1, 4);
  CHECK(arc.overfullGhosts(4) == ArcList::kAgainGhost);
}

TEST_CASE("an expert counts with the pages of its last use, or those that were left to it") {
  ArcBalance arc;
  ArcPlace place, other;
  arc.resize(place, 3); // It is not remembered.
  CHECK(place.pages == 0);
  arc.use(place, 1, 4);
  arc.use(other, 4, 4);
  arc.leave(other);
  CHECK(arc.overfullGhosts(4) == ArcList::kOnceGhost); // 5 pages.
  arc.resize(other, 3);
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  arc.use(other, 2, 4); // The pages that it has now, and now is among those wanted again.
  CHECK(arc.targetPages() == 2);
  arc.use(place, 3, 4);
  arc.leave(place);
  arc.leave(other);
  CHECK(other.pages == 2);
  CHECK(arc.overfullGhosts(2) == ArcList::kAgainGhost); // 5 pages of twice the quota.
  arc.forget(other);
  CHECK(arc.overfullGhosts(2) == ArcList::kForgotten);
}
