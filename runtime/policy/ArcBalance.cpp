#include "runtime/policy/ArcBalance.h"

#include <algorithm>

namespace moert {

void ArcBalance::move(ArcPlace &place, ArcList to, uint32_t pages) {
  pagesOf(place.list) -= place.pages;
  pagesOf(to) += pages;
  place = {to, pages};
}

void ArcBalance::use(ArcPlace &place, uint32_t pages, uint64_t quotaPages) {
  uint64_t onceGhosts = pagesOf(ArcList::kOnceGhost), againGhosts = pagesOf(ArcList::kAgainGhost);
  if (place.list == ArcList::kOnceGhost)
    target = std::min(quotaPages, target + pages * std::max<uint64_t>(1, againGhosts / onceGhosts));
  if (place.list == ArcList::kAgainGhost)
    target -= std::min(target, pages * std::max<uint64_t>(1, onceGhosts / againGhosts));
  move(place, place.list == ArcList::kForgotten ? ArcList::kOnce : ArcList::kAgain, pages);
}

void ArcBalance::leave(ArcPlace &place) {
  if (place.list == ArcList::kOnce)
    move(place, ArcList::kOnceGhost, place.pages);
  else if (place.list == ArcList::kAgain)
    move(place, ArcList::kAgainGhost, place.pages);
}

ArcList ArcBalance::overfullGhosts(uint64_t quotaPages) const {
  uint64_t onceGhosts = pagesOf(ArcList::kOnceGhost), againGhosts = pagesOf(ArcList::kAgainGhost);
  uint64_t once = pagesOf(ArcList::kOnce) + onceGhosts;
  if (once > quotaPages && onceGhosts > 0)
    return ArcList::kOnceGhost;
  uint64_t all = once + pagesOf(ArcList::kAgain) + againGhosts;
  if (all <= 2 * quotaPages)
    return ArcList::kForgotten;
  return againGhosts > 0  ? ArcList::kAgainGhost
         : onceGhosts > 0 ? ArcList::kOnceGhost
                          : ArcList::kForgotten;
}

} // namespace moert
