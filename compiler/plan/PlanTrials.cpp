#include "compiler/plan/PlanTrials.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

using namespace moert;

namespace moec {

/// Calls work(0) to work(count - 1), each once, on some threads, and waits for all.
template <typename Work> static void forEach(size_t count, uint32_t threads, const Work &work) {
  std::atomic<size_t> next = 0;
  auto takeTurns = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i)
    others.emplace_back(takeTurns);
  takeTurns();
  for (std::thread &thread : others)
    thread.join();
}

std::vector<double> PlanTrials::measure(std::span<const PlanSettings> candidates) {
  std::vector<double> ns(candidates.size(), std::numeric_limits<double>::infinity());
  forEach(candidates.size(), threads, [&](size_t i) {
    Result<TimedResult> result = replayInTime(problem, candidates[i], {.steps = steps});
    if (result.isOk())
      ns[i] = result->meanNs();
  });
  replayCount += static_cast<uint32_t>(candidates.size());
  return ns;
}

std::vector<TimedResult> PlanTrials::replay(std::span<const PlanSettings> candidates,
                                            size_t traceSteps, bool keepsPlays) {
  std::vector<TimedResult> results(candidates.size());
  forEach(candidates.size(), threads, [&](size_t i) {
    results[i] =
        replayInTime(problem, candidates[i], {.steps = traceSteps, .keepsPlays = keepsPlays})
            .value();
  });
  replayCount += static_cast<uint32_t>(candidates.size());
  return results;
}

} // namespace moec
