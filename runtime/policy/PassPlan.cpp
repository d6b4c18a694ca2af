#include "runtime/policy/PassPlan.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moert {

static bool isStreamed(const PassCandidate &candidate) {
  return candidate.isWanted && !candidate.isReady && !candidate.isKept;
}

static uint64_t poolPages(const PassLimits &limits, bool isUpper) {
  if (!limits.upperPages)
    return limits.quotaPages;
  return isUpper ? *limits.upperPages : limits.quotaPages - *limits.upperPages;
}

/// Without two pools, those of one pool are all of them.
static bool isInPool(const PassLimits &limits, const PassCandidate &candidate, bool isUpper) {
  return !limits.upperPages || candidate.use.isUpper == isUpper;
}

namespace {

class PassPlanner {
public:
  PassPlanner(const PassLimits &passLimits, std::span<PassCandidate> all, PassScratch &room)
      : limits(passLimits), candidates(all), scratch(room) {}

  void plan();

private:
  void findOtherParts();
  bool leavesBefore(uint32_t a, uint32_t b) {
    ++scratch.comparisons;
    return moert::leavesBefore(candidates[a].use, candidates[b].use);
  }

  /// The expert whose upper slices these are; null if it is no candidate, and so stays.
  const PassCandidate *expertOf(uint32_t upper) const {
    const uint32_t other = scratch.otherPart[upper];
    return other == PassScratch::kNoPart ? nullptr : &candidates[other];
  }
  /// The upper slices of an expert, if they are a candidate.
  PassCandidate *upperSlicesOf(uint32_t expert) const {
    const uint32_t other = scratch.otherPart[expert];
    return candidates[expert].use.isUpper || other == PassScratch::kNoPart ? nullptr
                                                                           : &candidates[other];
  }
  /// Whether its record passes through, which counts once.
  bool isStreamedRecord(uint32_t index) const {
    if (!isStreamed(candidates[index]))
      return false;
    const PassCandidate *expert = candidates[index].use.isUpper ? expertOf(index) : nullptr;
    return !expert || !isStreamed(*expert);
  }
  /// Whether its pages are taken while records pass through: it is in memory, or it stays when its
  /// own record has passed through without its upper slices.
  bool isHeldMeanwhile(uint32_t index) const {
    const PassCandidate &candidate = candidates[index];
    if (candidate.isReady || !candidate.isWanted || candidate.use.isUpper)
      return candidate.isReady;
    const PassCandidate *upper = upperSlicesOf(index);
    return upper && isStreamed(*upper);
  }

  uint64_t keptPages(bool isUpper) const;
  void letGo(uint32_t index);
  template <typename Counts> void fit(uint64_t kept, uint64_t pages, Counts counts);
  void keepWhatPasses();

  const PassLimits &limits;
  std::span<PassCandidate> candidates;
  PassScratch &scratch;
};

} // namespace

void PassPlanner::findOtherParts() {
  scratch.otherPart.assign(candidates.size(), PassScratch::kNoPart);
  if (std::ranges::none_of(candidates, [](const PassCandidate &one) { return one.use.isUpper; }))
    return;
  std::vector<uint32_t> &order = scratch.order;
  order.clear();
  for (uint32_t i = 0; i < candidates.size(); ++i)
    order.push_back(i);
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    ++scratch.comparisons;
    const EvictionCandidate &left = candidates[a].use, &right = candidates[b].use;
    return left.expert != right.expert ? left.expert < right.expert : left.isUpper < right.isUpper;
  });
  for (size_t i = 1; i < order.size(); ++i)
    if (candidates[order[i - 1]].use.expert == candidates[order[i]].use.expert) {
      scratch.otherPart[order[i - 1]] = order[i];
      scratch.otherPart[order[i]] = order[i - 1];
    }
}

/// Pages of the kept candidates of a pool, and of what always stays in it.
uint64_t PassPlanner::keptPages(bool isUpper) const {
  uint64_t kept = limits.otherPages;
  if (limits.upperPages)
    kept = isUpper ? limits.otherUpperPages : kept - limits.otherUpperPages;
  for (const PassCandidate &candidate : candidates)
    kept += candidate.isKept && isInPool(limits, candidate, isUpper) ? candidate.pages : 0;
  return kept;
}

/// An expert takes along its upper slices.
void PassPlanner::letGo(uint32_t index) {
  candidates[index].isKept = false;
  if (PassCandidate *upper = upperSlicesOf(index))
    upper->isKept = false;
}

/// Lets go as few as possible of the kept candidates that `counts` admits, which have `kept` pages
/// with what always stays, until the rest fits.
///
/// Candidates are in three heaps, each with the first to leave on top: with adaptive replacement
/// those demanded once, those demanded again, and the wanted ones, which leave last; without it,
/// all are in the last heap. Who is counted does not change meanwhile, but for those that are let
/// go.
template <typename Counts> void PassPlanner::fit(uint64_t kept, uint64_t pages, Counts counts) {
  if (kept <= pages)
    return;
  constexpr size_t kOnce = 0, kAgain = 1, kOthers = 2;
  const bool isAdaptive = limits.onceTargetPages.has_value();
  const auto heapOf = [&](const PassCandidate &candidate) {
    return !isAdaptive || candidate.isWanted ? kOthers : candidate.isUsedAgain ? kAgain : kOnce;
  };
  std::vector<uint32_t> &order = scratch.order;
  order.clear();
  std::array<size_t, 4> begins = {};
  for (size_t heap : {kOnce, kAgain, kOthers}) {
    for (uint32_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].isKept && !candidates[i].isPinned && heapOf(candidates[i]) == heap &&
          counts(i))
        order.push_back(i);
    begins[heap + 1] = order.size();
  }
  // Heaps have the largest on top: here the first to leave.
  const auto leavesAfter = [this](uint32_t a, uint32_t b) { return leavesBefore(b, a); };
  const auto at = [&](size_t place) { return order.begin() + static_cast<ptrdiff_t>(place); };
  std::array<size_t, 3> ends;
  for (size_t heap : {kOnce, kAgain, kOthers}) {
    ends[heap] = begins[heap + 1];
    std::make_heap(at(begins[heap]), at(ends[heap]), leavesAfter);
  }
  uint64_t oncePages = 0;
  for (const PassCandidate &candidate : candidates)
    oncePages += candidate.isKept && heapOf(candidate) == kOnce ? candidate.pages : 0;
  const auto letGoCounted = [&](uint32_t index) {
    const PassCandidate *upper = upperSlicesOf(index);
    for (const PassCandidate *part : {&std::as_const(candidates[index]), upper})
      oncePages -= part && part->isKept && heapOf(*part) == kOnce ? part->pages : 0;
    letGo(index);
  };
  while (kept > pages) {
    const bool leavesUsedAgain = isAdaptive && oncePages <= *limits.onceTargetPages;
    const std::array<size_t, 3> turns = {leavesUsedAgain ? kAgain : kOnce,
                                         leavesUsedAgain ? kOnce : kAgain, kOthers};
    bool hasLeft = false;
    for (size_t heap : turns) {
      while (!hasLeft && ends[heap] > begins[heap]) {
        std::pop_heap(at(begins[heap]), at(ends[heap]), leavesAfter);
        const uint32_t index = order[--ends[heap]];
        if (!candidates[index].isKept) // It left with its expert.
          continue;
        letGoCounted(index);
        kept -= candidates[index].pages;
        hasLeft = true;
      }
      if (hasLeft)
        break;
    }
    if (!hasLeft)
      return;
  }
}

/// Keeps experts that pass through where the quota has pages left: what made room for them leaves
/// it free when the layer pass is over. The last to leave comes first. A record stays with all that
/// is demanded of it, since one that stays in part would be read while others pass through.
///
/// A record that has no room has none later either, so each is tried once.
void PassPlanner::keepWhatPasses() {
  std::array<uint64_t, 2> left; // For experts and for upper slices.
  for (bool isUpper : {false, true}) {
    const uint64_t kept = keptPages(isUpper), pages = poolPages(limits, isUpper);
    left[isUpper] = pages - std::min(pages, kept);
  }
  auto take = [&](PassCandidate &candidate) {
    candidate.isKept = true;
    for (bool isUpper : {false, true})
      left[isUpper] -= isInPool(limits, candidate, isUpper) ? candidate.pages : 0;
  };
  std::vector<uint32_t> &order = scratch.order;
  order.clear();
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    const PassCandidate *expert = candidates[i].use.isUpper ? expertOf(i) : nullptr;
    if (isStreamedRecord(i) && (!expert || expert->isKept) &&
        candidates[i].pages <= left[candidates[i].use.isUpper])
      order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return leavesBefore(b, a); });
  for (uint32_t index : order) {
    PassCandidate &candidate = candidates[index];
    if (candidate.pages > left[candidate.use.isUpper])
      continue;
    PassCandidate *upper = upperSlicesOf(index);
    upper = upper && isStreamed(*upper) ? upper : nullptr;
    const uint64_t room = limits.upperPages ? left[true] : left[true] - candidate.pages;
    if (upper && upper->pages > room)
      continue;
    take(candidate);
    if (upper)
      take(*upper);
  }
}

void PassPlanner::plan() {
  findOtherParts();
  for (PassCandidate &candidate : candidates)
    candidate.isKept = true;
  for (uint32_t i = 0; i < candidates.size(); ++i)
    if (!candidates[i].isPinned &&
        candidates[i].pages > poolPages(limits, candidates[i].use.isUpper))
      letGo(i);
  for (bool isUpper : {true, false})
    fit(keptPages(isUpper), poolPages(limits, isUpper),
        [&](uint32_t index) { return isInPool(limits, candidates[index], isUpper); });

  uint64_t streamed = 0;
  for (uint32_t i = 0; i < candidates.size(); ++i)
    streamed += isStreamedRecord(i);
  if (streamed == 0)
    return;
  uint64_t streamPages = std::min(streamed, kStreamedRecords) * limits.largestRecordPages;
  uint64_t stayPages = limits.limitPages - std::min(limits.limitPages, streamPages);
  auto isHeld = [this](uint32_t index) { return isHeldMeanwhile(index); };
  uint64_t heldPages = limits.otherPages;
  for (uint32_t i = 0; i < candidates.size(); ++i)
    heldPages += candidates[i].isKept && isHeld(i) ? candidates[i].pages : 0;
  fit(heldPages, stayPages, isHeld);
  keepWhatPasses();
}

void planPass(const PassLimits &limits, std::span<PassCandidate> candidates, PassScratch &scratch) {
  PassPlanner(limits, candidates, scratch).plan();
}

} // namespace moert
