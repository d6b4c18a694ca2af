#include "compiler/plan/PlanTrials.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

using namespace moert;

namespace moec {

// Steps that are decided on: as many as make so many experts with all layers, but not fewer than
// the other number. Twice as many change the time of what is found on the bundled model's trace by
// less than 1%.
static constexpr uint64_t kReplayedExperts = 500'000;
static constexpr size_t kLeastSteps = 600;

TraceParts partsOf(const RoutingTrace &trace) {
  const size_t layers = trace.layerExperts.size(), steps = trace.plays.size() / layers;
  auto isDecoded = [&](size_t step) { return trace.plays[step * layers].tokens == 1; };
  uint64_t experts = 0;
  for (uint32_t count : trace.layerExperts)
    experts += count;
  size_t decoded = 0;
  for (size_t step = 0; step < steps; ++step)
    decoded += isDecoded(step);
  const size_t mostSteps = std::max<size_t>(kLeastSteps, kReplayedExperts / experts);
  const size_t mostDecoded = std::max<size_t>(1, decoded * 2 / 3);
  TraceParts parts;
  while (parts.steps < steps && parts.decided < mostDecoded &&
         (parts.steps < mostSteps || parts.decided == 0))
    parts.decided += isDecoded(parts.steps++);
  while (parts.settling < parts.decided / 4)
    parts.settling += isDecoded(parts.settlingSteps++);
  return parts;
}

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
    Result<TimedResult> result = replayInTime(problem, candidates[i], {.steps = traceParts.steps});
    if (result.isOk())
      ns[i] = result->meanNs(traceParts.settling);
  });
  replayCount += static_cast<uint32_t>(candidates.size());
  return ns;
}

TimedResult PlanTrials::replayPlays(const PlanSettings &settings) {
  ++replayCount;
  return replayInTime(problem, settings, {.steps = traceParts.steps, .keepsPlays = true}).value();
}

std::vector<TimedResult> PlanTrials::replayAll(std::span<const PlanSettings> candidates) {
  std::vector<TimedResult> results(candidates.size());
  forEach(candidates.size(), threads,
          [&](size_t i) { results[i] = replayInTime(problem, candidates[i]).value(); });
  replayCount += static_cast<uint32_t>(candidates.size());
  return results;
}

} // namespace moec
