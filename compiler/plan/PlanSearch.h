// The plan that decodes the trace in the least time, as far as the timed replay knows: `auto`.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PlanRule.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct SearchProgress {
  std::string_view deciding; // "eviction"
  uint32_t replays = 0;      // So far.
  double tokenNs = 0;        // With the best settings so far.
};

struct SearchOptions {
  uint32_t threads = 2;                                      // Figures do not depend on them.
  std::function<void(const SearchProgress &)> progress = {}; // On the searching thread.
  /// Set from outside, for instance by a signal: the search ends soon, with kInterrupted.
  const std::atomic<bool> *stop = nullptr;
};

/// A preset beside the search's result, on the whole trace, as if all memory were alike.
struct PresetTime {
  Preset preset = Preset::kLru;
  double tokenNs = 0;
};

struct SearchedPlan {
  PlannedSettings planned;
  PlanRule rule; // That the settings follow.
  /// A token's mean time on the whole trace, as if all memory were alike. Settings were chosen by
  /// it, so it is no forecast (PlanForecast.h): that takes another trace, or more of this one.
  double tokenNs = 0;
  std::vector<PresetTime> presets;
  uint32_t replays = 0;
};

/// One decision after the other, the others as they stand: eviction and sharing, quotas, pins,
/// prefetches; with prefetches the first ones again, but for rules that were far slower. What is
/// less than kSameTime better is not better: the simpler settings stay (no prefetches before
/// prefetches, quotas before one pool, even before uneven, the eviction policy that stands first in
/// its enumeration); what prefetches has to be kMinPrefetchGain better than what does not in the
/// end.
///
/// Decided is on the first part of the trace, at most two thirds of its decoded tokens. The first
/// quarter of that decides what is popular, so that no cache starts with the future, and does not
/// count, so that caches are full where it counts. What was the best on the way, and the best with
/// eviction policies that were nearly as good, is then held against the presets
/// (PlanAcceptance.h): on the whole trace no preset is faster than what is returned, or one that
/// prefetches by less than kMinPrefetchGain. The same problem gives the same plan.
///
/// All of this as if memory were alike (ReadTable::reused): which lines a host's caches hold is
/// nothing to rely on. Of the widened bundled model on a virtual machine LFU, which reads into the
/// same places again and again, would have been taken instead of the reuse-distance score at 25 and
/// 50% of its experts; it read 11 and 20% more, and was no faster. Only forecasts use the faster
/// rate.
///
/// Refuses what check() refuses and a trace without decode steps.
moert::Result<SearchedPlan> searchPlan(const PlanProblem &problem,
                                       const SearchOptions &options = {});

/// A fraction of a token's time that no decision is made for.
constexpr double kSameTime = 0.002;

/// What prefetches have to gain. They are a safetyMargin on the trace: a text that repeats itself
/// more hits more, what is prefetched of the rest is more often wrong, and the disk reads it all
/// the same.
constexpr double kMinPrefetchGain = 0.02;

} // namespace moec
