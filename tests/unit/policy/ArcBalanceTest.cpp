#include "runtime/policy/ArcBalance.h"

#include <doctest/doctest.h>

using namespace moert;

// A quota of 4 pages, records of 1 unless said otherwise.

TEST_CASE("an expert wanted for the first time joins those wanted once, then those wanted again") {
  ArcBalance arc;
  ArcList list = ArcList::kForgotten;
  arc.use(list, 1, 4);
  CHECK(list == ArcList::kOnce);
  arc.use(list, 1, 4);
  CHECK(list == ArcList::kAgain);
  arc.use(list, 1, 4);
  CHECK(list == ArcList::kAgain);
  CHECK(arc.targetPages() == 0);
}

TEST_CASE("a ghost of those wanted once moves the target up by its pages, at most to the quota") {
  ArcBalance arc;
  ArcList first = ArcList::kForgotten, second = ArcList::kForgotten;
  arc.use(first, 3, 4);
  arc.use(second, 3, 4);
  arc.leave(first, 3);
  arc.leave(second, 3);
  CHECK(first == ArcList::kOnceGhost);
  arc.use(first, 3, 4);
  CHECK(first == ArcList::kAgain);
  CHECK(arc.targetPages() == 3);
  arc.use(second, 3, 4);
  CHECK(arc.targetPages() == 4);
}

TEST_CASE("a ghost of those wanted again moves the target down, faster where it is the rarer one") {
  ArcBalance arc;
  ArcList again = ArcList::kForgotten, once[5] = {};
  arc.use(again, 1, 4);
  arc.use(again, 1, 4);
  arc.leave(again, 1);
  for (ArcList &list : once) {
    arc.use(list, 1, 4);
    arc.leave(list, 1);
  }
  // 5 ghosts against 1: up by 1, then 4 against 1: again.
  arc.use(once[0], 1, 4);
  arc.use(once[1], 1, 4);
  CHECK(arc.targetPages() == 2);
  // 3 against 1: down by 3, at most to 0.
  arc.use(again, 1, 4);
  CHECK(arc.targetPages() == 0);
  CHECK(again == ArcList::kAgain);
}

TEST_CASE("of experts wanted once no more is remembered than the quota, of all twice as much") {
  ArcBalance arc;
  ArcList once[5] = {}, again[4] = {};
  for (ArcList &list : once)
    arc.use(list, 1, 4);
  arc.leave(once[0], 1);
  CHECK(arc.overfullGhosts(4) == ArcList::kOnceGhost);
  arc.forget(once[0], 1);
  CHECK(once[0] == ArcList::kForgotten);
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  for (ArcList &list : again) {
    arc.use(list, 1, 4);
    arc.use(list, 1, 4);
    arc.leave(list, 1);
  }
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  ArcList ninth = ArcList::kForgotten;
  arc.forget(once[1], 1);
  arc.use(ninth, 1, 4);
  arc.use(ninth, 1, 4);
  CHECK(arc.overfullGhosts(4) == ArcList::kForgotten);
  arc.use(once[1], 1, 4);
  CHECK(arc.overfullGhosts(4) == ArcList::kAgainGhost);
}
