// Adaptive replacement (Megiddo and Modha, FAST 2003) for experts of any size. The pages of a layer
// are divided between experts that were demanded once since they are remembered and experts that
// were demanded again; a target limits the pages of the former. A demand for an expert that one
// side has just evicted moves the target in favour of that side.
//
// Differences from the paper: a layer pass demands several experts at once, which are not evicted
// while another expert can be; sizes are counted in pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moert {

/// The paper's T1, T2, B1, B2.
enum class ArcList : uint8_t { kForgotten, kOnce, kAgain, kOnceGhost, kAgainGhost };

/// An expert's place: its list, and the pages that it has or, as a ghost, had; 0 once forgotten.
struct ArcPlace {
  ArcList list = ArcList::kForgotten;
  uint32_t pages = 0;
};

/// Invariants: listPages are the sums over the places of each list; targetPages is at most the
/// quota of the last use.
class ArcBalance {
public:
  /// A layer pass demands the expert, which has so many pages then.
  void use(ArcPlace &place, uint32_t pages, uint64_t quotaPages);
  /// The expert has other pages; no effect on a forgotten one.
  void resize(ArcPlace &place, uint32_t pages) {
    if (place.list != ArcList::kForgotten)
      move(place, place.list, pages);
  }
  /// The expert was evicted; it becomes a ghost.
  void leave(ArcPlace &place);
  /// The expert is forgotten.
  void forget(ArcPlace &place) { move(place, ArcList::kForgotten, 0); }

  /// The list whose least recently used expert is to be forgotten: at most twice the quota is
  /// remembered, and at most the quota of experts demanded once. kForgotten: none.
  ArcList overfullGhosts(uint64_t quotaPages) const;

  /// How many pages experts demanded once may have.
  uint64_t targetPages() const { return target; }

private:
  uint64_t &pagesOf(ArcList list) { return listPages[static_cast<size_t>(list)]; }
  uint64_t pagesOf(ArcList list) const { return listPages[static_cast<size_t>(list)]; }
  void move(ArcPlace &place, ArcList to, uint32_t pages);

  uint64_t target = 0;
  std::array<uint64_t, 5> listPages = {};
};

} // namespace moert
