#include "runtime/policy/PlayPlan.h"

#include <algorithm>

namespace moert {

PlayScratch::PlayScratch(size_t maxCandidates) {
  open.reserve(maxCandidates);
  owners.reserve(maxCandidates);
}

uint64_t PlayScratch::memoryBytes(size_t maxCandidates) {
  return maxCandidates * (sizeof(EvictionCandidate) + sizeof(PlayCandidate *));
}

/// Takes kept candidates back until the rest fits.
class PlayPlanner {
public:
  PlayPlanner(EvictionPolicy evictionPolicy, PlayScratch &room)
      : policy(evictionPolicy), scratch(room) {}

  /// Of the kept candidates that `counts` admits, as few as possible are let go.
  template <typename Counts>
  void fit(uint64_t pages, std::span<PlayCandidate> candidates, Counts counts) {
    scratch.open.clear();
    scratch.owners.clear();
    uint64_t kept = 0;
    for (PlayCandidate &candidate : candidates) {
      if (!candidate.isKept || !counts(candidate))
        continue;
      kept += candidate.pages;
      if (candidate.isPinned)
        continue;
      scratch.open.push_back(candidate.use);
      scratch.owners.push_back(&candidate);
    }
    while (kept > pages && !scratch.open.empty()) {
      size_t victim = chooseVictim(policy, scratch.open);
      scratch.owners[victim]->isKept = false;
      kept -= scratch.owners[victim]->pages;
      scratch.open[victim] = scratch.open.back();
      scratch.owners[victim] = scratch.owners.back();
      scratch.open.pop_back();
      scratch.owners.pop_back();
    }
  }

private:
  EvictionPolicy policy;
  PlayScratch &scratch;
};

void planPlay(EvictionPolicy policy, const PlayLimits &limits, std::span<PlayCandidate> candidates,
              PlayScratch &scratch) {
  PlayPlanner planner(policy, scratch);
  for (PlayCandidate &candidate : candidates)
    candidate.isKept = candidate.isPinned || candidate.pages <= limits.quotaPages;
  planner.fit(limits.quotaPages, candidates, [](const PlayCandidate &) { return true; });

  auto isStreamed = [](const PlayCandidate &c) { return c.isWanted && !c.isReady && !c.isKept; };
  uint64_t streamed =
      static_cast<uint64_t>(std::count_if(candidates.begin(), candidates.end(), isStreamed));
  if (streamed == 0)
    return;
  uint64_t streamPages = std::min(streamed, kStreamedRecords) * limits.largestRecordPages;
  uint64_t stayPages = limits.limitPages - std::min(limits.limitPages, streamPages);
  planner.fit(stayPages, candidates, [](const PlayCandidate &c) { return c.isReady; });
}

} // namespace moert
