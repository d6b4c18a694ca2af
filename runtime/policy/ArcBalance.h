// Adaptive replacement (Megiddo and Modha, FAST 2003) for experts of any size: experts that were
// wanted once since they are remembered, and experts that were wanted again, share the pages of a
// layer; a target limits the pages of the former. An expert that had just been evicted from one
// side when it is wanted moves the target to that side's advantage.
//
// What differs from the paper: a layer pass wants several experts at once, and what it wants is
// never evicted while something else can be; sizes count in pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moert {

/// The paper's T1, T2, B1, B2.
enum class ArcList : uint8_t { kForgotten, kOnce, kAgain, kOnceGhost, kAgainGhost };

/// Invariants: listPages counts the pages that the experts of each list have or, for ghosts, had;
/// targetPages is at most the quota of the last use.
class ArcBalance {
public:
  /// The expert is wanted by a layer pass.
  void use(ArcList &list, uint64_t pages, uint64_t quotaPages);
  /// The expert was evicted; it becomes a ghost.
  void leave(ArcList &list, uint64_t pages);
  /// The expert is forgotten.
  void forget(ArcList &list, uint64_t pages) { move(list, ArcList::kForgotten, pages); }

  /// The list whose least recently used expert is to be forgotten, so that no more is remembered
  /// than twice the quota, and of experts wanted once no more than the quota; kForgotten: none.
  ArcList overfullGhosts(uint64_t quotaPages) const;

  /// How many pages experts wanted once may have.
  uint64_t targetPages() const { return target; }

private:
  uint64_t &pagesOf(ArcList list) { return listPages[static_cast<size_t>(list)]; }
  uint64_t pagesOf(ArcList list) const { return listPages[static_cast<size_t>(list)]; }
  void move(ArcList &list, ArcList to, uint64_t pages);

  uint64_t target = 0;
  std::array<uint64_t, 5> listPages = {};
};

} // namespace moert
