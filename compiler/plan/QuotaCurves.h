// How many bytes each layer reads with so many pages of its own, and the quotas that read the
// fewest bytes in all. Layers with quotas do not touch each other, so that each has a curve of its
// own, found by replaying it alone.
#pragma once

#include "compiler/plan/PlanProblem.h"

#include <cstdint>
#include <vector>

namespace moec {

/// Points of one layer's curve, by pages ascending from 0.
struct QuotaCurve {
  std::vector<uint64_t> pages;
  std::vector<double> bytes; // Read by decode steps.
};

/// What curves are of. A miss rule changes what layers demand, so it has curves of its own.
struct CurveSubject {
  moert::EvictionPolicy eviction = moert::EvictionPolicy::kReuseDistance;
  moert::MissRule miss = {}; // If it is lossy, the problem has scores and slices.
  uint64_t stagingPages = 0;
  friend bool operator==(const CurveSubject &, const CurveSubject &) = default;
};

/// For the trace's first `steps`; the same whatever the number of threads.
std::vector<QuotaCurve> quotaCurves(const PlanProblem &problem, const CurveSubject &subject,
                                    size_t steps, uint32_t threads = 1);

/// Shares quotaPages: each layer gets at least floorPages, as far as it has so many, and whole
/// records beyond that, where they save the most bytes a page. The curves' lower convex hulls are
/// what counts, so that no layer is passed over whose first pages save little and whose further
/// ones much.
std::vector<uint32_t> quotasOfCurves(const moert::CacheShape &shape,
                                     const std::vector<QuotaCurve> &curves, uint64_t floorPages,
                                     uint64_t quotaPages);

} // namespace moec
