#include "runtime/policy/PassPlan.h"

#include <algorithm>

namespace moert {

static bool isStreamed(const PassCandidate &candidate) {
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

static bool areUpperSlicesOf(const PassCandidate &upper, const PassCandidate &candidate) {
  return upper.use.isUpper && !candidate.use.isUpper && upper.use.expert == candidate.use.expert;
}

/// The expert whose upper slices these are; null if it is no candidate, and so stays.
static const PassCandidate *expertOf(const PassCandidate &upper,
                                     std::span<const PassCandidate> candidates) {
  for (const PassCandidate &candidate : candidates)
    if (areUpperSlicesOf(upper, candidate))
      return &candidate;
  return nullptr;
}

/// Whether it may stay: upper slices stay with their expert only.
static bool mayStay(const PassCandidate &candidate, std::span<const PassCandidate> candidates) {
  const PassCandidate *expert =
      candidate.use.isUpper ? expertOf(candidate, candidates) : nullptr;
  return !expert || expert->isKept;
}

/// Whether its record passes through, which counts once.
static bool isStreamedRecord(const PassCandidate &candidate,
                             std::span<const PassCandidate> candidates) {
  if (!isStreamed(candidate))
    return false;
  const PassCandidate *expert =
      candidate.use.isUpper ? expertOf(candidate, candidates) : nullptr;
  return !expert || !isStreamed(*expert);
}

/// An expert takes along its upper slices, if they would be read: those in memory leave before it.
static void letGo(PassCandidate &candidate, std::span<PassCandidate> candidates) {
  candidate.isKept = false;
  for (PassCandidate &upper : candidates)
    if (areUpperSlicesOf(upper, candidate))
      upper.isKept = false;
}

/// Lets go as few as possible of the kept candidates that `counts` admits, until the rest fits.
template <typename Counts>
static void fit(uint64_t pages, const PassLimits &limits, std::span<PassCandidate> candidates,
                Counts counts) {
  uint64_t kept = limits.otherPages;
  for (const PassCandidate &candidate : candidates)
    if (candidate.isKept && counts(candidate))
      kept += candidate.pages;
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
/// it free when the layer pass is over. The last to leave comes first.
static void keepWhatPasses(const PassLimits &limits, std::span<PassCandidate> candidates) {
  uint64_t kept = limits.otherPages;
  for (const PassCandidate &candidate : candidates)
    kept += candidate.isKept ? candidate.pages : 0;
  LeavingOrder leavesFirst(limits, candidates);
  for (PassCandidate *best = candidates.data(); best;) {
    best = nullptr;
    for (PassCandidate &candidate : candidates)
      if (isStreamed(candidate) && kept + candidate.pages <= limits.quotaPages &&
          (!best || leavesFirst(*best, candidate)) &&
          mayStay(candidate, candidates))
        best = &candidate;
    if (best) {
      best->isKept = true;
      kept += best->pages;
    }
  }
}

void planPass(const PassLimits &limits, std::span<PassCandidate> candidates) {
  for (PassCandidate &candidate : candidates)
    candidate.isKept = true;
  for (PassCandidate &candidate : candidates)
    if (!candidate.isPinned && candidate.pages > limits.quotaPages)
      letGo(candidate, candidates);
  fit(limits.quotaPages, limits, candidates, [](const PassCandidate &) { return true; });

  const auto streamed = static_cast<uint64_t>(
      std::ranges::count_if(candidates, [candidates](const PassCandidate &candidate) {
        return isStreamedRecord(candidate, candidates);
      }));
  if (streamed == 0)
    return;
  uint64_t streamPages = std::min(streamed, kStreamedRecords) * limits.largestRecordPages;
  uint64_t stayPages = limits.limitPages - std::min(limits.limitPages, streamPages);
  fit(stayPages, limits, candidates, [](const PassCandidate &c) { return c.isReady; });
  keepWhatPasses(limits, candidates);
}

} // namespace moert
