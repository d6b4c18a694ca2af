// What a little more of something costs a token under a plan: of an expert's bytes where it is
// read, of the cache's pages where it is kept, of its computing. To first order, from replays that
// differ in one thing at a time.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PlanRule.h"

#include <vector>

namespace moec {

/// Per decoded token.
struct ExpertUse {
  double wanted = 0;
  double reads = 0; // Because it was wanted; prefetches are not counted.
  double held = 0;  // How likely the cache keeps it when its layer's turn comes.
};

struct MarginalTimes {
  std::vector<std::vector<ExpertUse>> experts; // [MoE layer][expert]
  /// By how much a token takes longer for each ns of reading and of computing experts that comes
  /// on top: what is hidden behind something else costs nothing. Not negative.
  double readingFraction = 0, computingFraction = 0;
  /// By how much for each page that the cache has less: the price of what is kept. Not negative.
  double pageNs = 0;
  /// Reads that are under way together, in the mean.
  double readsUnderWay = 1;
};

/// Refuses what the replay refuses.
moert::Result<MarginalTimes> marginalTimes(const PlanProblem &problem, const PlanRule &rule);

/// What one of the reads under way adds to the disk's work.
double readingNs(const PlanProblem &problem, const MarginalTimes &times, uint64_t recordBytes);

} // namespace moec
