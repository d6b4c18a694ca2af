// What planPass() decides, in plain loops: each victim and each record that stays is searched among
// all candidates. Cubic, and written to be read; the fast version is compared with it.
#pragma once

#include "runtime/policy/PassPlan.h"

#include <algorithm>
#include <array>

namespace moert::test {

inline bool isStreamed(const PassCandidate &candidate) {
  return candidate.isWanted && !candidate.isReady && !candidate.isKept;
}

/// Who leaves first among the candidates as they stand now.
class LeavingOrder {
public:
  LeavingOrder(const PassLimits &limits, std::span<const PassCandidate> candidates)
      : isAdaptive(limits.onceTargetPages) {
    if (!isAdaptive)
      return;
    uint64_t oncePages = 0;
    for (const PassCandidate &candidate : candidates)
      if (candidate.isKept && !candidate.isWanted && !candidate.isUsedAgain)
        oncePages += candidate.pages;
    leavesUsedAgain = oncePages <= *limits.onceTargetPages;
  }

  bool operator()(const PassCandidate &a, const PassCandidate &b) const {
    if (isAdaptive && sideOf(a) != sideOf(b))
      return sideOf(a) < sideOf(b);
    return leavesBefore(a.use, b.use);
  }

private:
  // Wanted ones only when nothing else is left.
  int sideOf(const PassCandidate &candidate) const {
    return candidate.isWanted ? 2 : candidate.isUsedAgain == leavesUsedAgain ? 0 : 1;
  }

  bool isAdaptive;
  bool leavesUsedAgain = false;
};

inline bool areUpperSlicesOf(const PassCandidate &upper, const PassCandidate &candidate) {
  return upper.use.isUpper && !candidate.use.isUpper && upper.use.expert == candidate.use.expert;
}

/// The expert whose upper slices these are; null if it is no candidate, and so stays.
inline const PassCandidate *expertOf(const PassCandidate &upper,
                                     std::span<const PassCandidate> candidates) {
  for (const PassCandidate &candidate : candidates)
    if (areUpperSlicesOf(upper, candidate))
      return &candidate;
  return nullptr;
}

/// Whether the expert stays whose upper slices these are.
inline bool staysBelow(const PassCandidate &upper, std::span<const PassCandidate> candidates) {
  const PassCandidate *expert = expertOf(upper, candidates);
  return !expert || expert->isKept;
}

/// The upper slices of an expert, if they are a candidate.
inline PassCandidate *upperSlicesOf(const PassCandidate &expert,
                                    std::span<PassCandidate> candidates) {
  for (PassCandidate &candidate : candidates)
    if (areUpperSlicesOf(candidate, expert))
      return &candidate;
  return nullptr;
}

/// Whether its record passes through, which counts once.
inline bool isStreamedRecord(const PassCandidate &candidate,
                             std::span<const PassCandidate> candidates) {
  if (!isStreamed(candidate))
    return false;
  const PassCandidate *expert = candidate.use.isUpper ? expertOf(candidate, candidates) : nullptr;
  return !expert || !isStreamed(*expert);
}

/// Whether its pages are taken while records pass through: it is in memory, or it stays when its
/// own record has passed through without its upper slices.
inline bool isHeldMeanwhile(const PassCandidate &candidate, std::span<PassCandidate> candidates) {
  if (candidate.isReady || !candidate.isWanted || candidate.use.isUpper)
    return candidate.isReady;
  const PassCandidate *upper = upperSlicesOf(candidate, candidates);
  return upper && isStreamed(*upper);
}

inline uint64_t poolPages(const PassLimits &limits, bool isUpper) {
  if (!limits.upperPages)
    return limits.quotaPages;
  return isUpper ? *limits.upperPages : limits.quotaPages - *limits.upperPages;
}

/// Without two pools, those of one pool are all of them.
inline bool isInPool(const PassLimits &limits, const PassCandidate &candidate, bool isUpper) {
  return !limits.upperPages || candidate.use.isUpper == isUpper;
}

/// Pages of the kept candidates of a pool, and of what always stays in it.
inline uint64_t keptPages(const PassLimits &limits, std::span<const PassCandidate> candidates,
                          bool isUpper) {
  uint64_t kept = limits.otherPages;
  if (limits.upperPages)
    kept = isUpper ? limits.otherUpperPages : kept - limits.otherUpperPages;
  for (const PassCandidate &candidate : candidates)
    kept += candidate.isKept && isInPool(limits, candidate, isUpper) ? candidate.pages : 0;
  return kept;
}

/// An expert takes along its upper slices.
inline void letGo(PassCandidate &candidate, std::span<PassCandidate> candidates) {
  candidate.isKept = false;
  for (PassCandidate &upper : candidates)
    if (areUpperSlicesOf(upper, candidate))
      upper.isKept = false;
}

/// Lets go as few as possible of the kept candidates that `counts` admits, which have `kept` pages
/// with what always stays, until the rest fits.
template <typename Counts>
void fit(uint64_t kept, uint64_t pages, const PassLimits &limits,
         std::span<PassCandidate> candidates, Counts counts) {
  while (kept > pages) {
    LeavingOrder leavesFirst(limits, candidates);
    PassCandidate *victim = nullptr;
    for (PassCandidate &candidate : candidates)
      if (candidate.isKept && !candidate.isPinned && counts(candidate) &&
          (!victim || leavesFirst(candidate, *victim)))
        victim = &candidate;
    if (!victim)
      return;
    letGo(*victim, candidates);
    kept -= victim->pages;
  }
}

/// Keeps experts that pass through where the quota has pages left: what made room for them leaves
/// it free when the layer pass is over. The last to leave comes first. A record stays with all that
/// is demanded of it, since one that stays in part would be read while others pass through.
inline void keepWhatPasses(const PassLimits &limits, std::span<PassCandidate> candidates) {
  std::array<uint64_t, 2> left; // For experts and for upper slices.
  for (bool isUpper : {false, true}) {
    const uint64_t kept = keptPages(limits, candidates, isUpper),
                   pages = poolPages(limits, isUpper);
    left[isUpper] = pages - std::min(pages, kept);
  }
  auto take = [&](PassCandidate &candidate) {
    candidate.isKept = true;
    for (bool isUpper : {false, true})
      left[isUpper] -= isInPool(limits, candidate, isUpper) ? candidate.pages : 0;
  };
  LeavingOrder leavesFirst(limits, candidates);
  for (PassCandidate *best = candidates.data(); best;) {
    best = nullptr;
    PassCandidate *upperOfBest = nullptr;
    for (PassCandidate &candidate : candidates) {
      if (candidate.pages > left[candidate.use.isUpper] ||
          !isStreamedRecord(candidate, candidates) ||
          (candidate.use.isUpper && !staysBelow(candidate, candidates)) ||
          (best && !leavesFirst(*best, candidate)))
        continue;
      PassCandidate *upper = candidate.use.isUpper ? nullptr : upperSlicesOf(candidate, candidates);
      upper = upper && isStreamed(*upper) ? upper : nullptr;
      const uint64_t room = limits.upperPages ? left[true] : left[true] - candidate.pages;
      if (upper && upper->pages > room)
        continue;
      best = &candidate;
      upperOfBest = upper;
    }
    if (best)
      take(*best);
    if (upperOfBest)
      take(*upperOfBest);
  }
}

inline void planByDefinition(const PassLimits &limits, std::span<PassCandidate> candidates) {
  for (PassCandidate &candidate : candidates)
    candidate.isKept = true;
  for (PassCandidate &candidate : candidates)
    if (!candidate.isPinned && candidate.pages > poolPages(limits, candidate.use.isUpper))
      letGo(candidate, candidates);
  for (bool isUpper : {true, false})
    fit(keptPages(limits, candidates, isUpper), poolPages(limits, isUpper), limits, candidates,
        [&](const PassCandidate &one) { return isInPool(limits, one, isUpper); });

  const auto streamed = static_cast<uint64_t>(
      std::ranges::count_if(candidates, [candidates](const PassCandidate &candidate) {
        return isStreamedRecord(candidate, candidates);
      }));
  if (streamed == 0)
    return;
  uint64_t streamPages = std::min(streamed, kStreamedRecords) * limits.largestRecordPages;
  uint64_t stayPages = limits.limitPages - std::min(limits.limitPages, streamPages);
  auto isHeld = [candidates](const PassCandidate &candidate) {
    return isHeldMeanwhile(candidate, candidates);
  };
  uint64_t heldPages = limits.otherPages;
  for (const PassCandidate &candidate : candidates)
    heldPages += candidate.isKept && isHeld(candidate) ? candidate.pages : 0;
  fit(heldPages, stayPages, limits, candidates, isHeld);
  keepWhatPasses(limits, candidates);
}

} // namespace moert::test
