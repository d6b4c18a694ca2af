#include "runtime/policy/ArcBalance.h"

#include <algorithm>

namespace moert {

void ArcBalance::move(ArcList &list, ArcList to, uint64_t pages) {
  if (list != ArcList::kForgotten)
    pagesOf(list) -= pages;
  if (to != ArcList::kForgotten)
    pagesOf(to) += pages;
  list = to;
}

void ArcBalance::use(ArcList &list, uint64_t pages, uint64_t quotaPages) {
  uint64_t onceGhosts = pagesOf(ArcList::kOnceGhost), againGhosts = pagesOf(ArcList::kAgainGhost);
  if (list == ArcList::kOnceGhost)
    target = std::min(quotaPages, target + pages * std::max<uint64_t>(1, againGhosts / onceGhosts));
  if (list == ArcList::kAgainGhost)
    target -= std::min(target, pages * std::max<uint64_t>(1, onceGhosts / againGhosts));
  move(list, list == ArcList::kForgotten ? ArcList::kOnce : ArcList::kAgain, pages);
}

void ArcBalance::leave(ArcList &list, uint64_t pages) {
  if (list == ArcList::kOnce || list == ArcList::kAgain)
    move(list, list == ArcList::kOnce ? ArcList::kOnceGhost : ArcList::kAgainGhost, pages);
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
