#include "compiler/plan/PlanTrials.h"

#include "compiler/plan/ForEach.h"

#include <algorithm>
#include <numeric>

using namespace moert;

namespace moec {

// Steps that are decided on: as many as make so many experts with all layers, but not fewer than
// the other number. With half a million the time of what is found is within 1.3% of this either way
// (the bundled model widened, at two widths, for three devices and four budgets), and no better on
// the whole, for twice the search.
static constexpr uint64_t kReplayedExperts = 200'000;
static constexpr size_t kLeastSteps = 600;

TraceParts partsOf(const RoutingTrace &trace) {
  const size_t layers = trace.layerExperts.size(), steps = trace.passes.size() / layers;
  auto isDecoded = [&](size_t step) { return trace.passes[step * layers].tokens == 1; };
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

/// What takes longest comes first, so that no thread is left alone with it in the end: with one
/// pool every layer's experts compete in every layer pass, and adaptive replacement looks at all of
/// them.
static bool takesLonger(const PlanSettings &a, const PlanSettings &b) {
  auto rankOf = [](const PlanSettings &settings) {
    const bool isOnePool = settings.rules.sharing == CacheSharing::kOnePool;
    return isOnePool + (isOnePool && settings.rules.eviction == EvictionPolicy::kArc);
  };
  return rankOf(a) > rankOf(b);
}

template <typename Work>
void PlanTrials::replayEach(std::span<const PlanSettings *const> settings, const Work &work) {
  std::vector<size_t> order(settings.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return takesLonger(*settings[a], *settings[b]); });
  forEach(order.size(), threads, [&](size_t i) {
    if (!isStopped())
      work(order[i]);
  });
  replayCount += static_cast<uint32_t>(settings.size());
}

/// The candidate's place among those that are known; a new one's is the last.
size_t PlanTrials::placeOf(const PlanSettings &candidate) {
  auto found = std::ranges::find(known, candidate, &Measured::settings);
  if (found == known.end())
    found = known.insert(found, {candidate, {}});
  return static_cast<size_t>(found - known.begin());
}

static Trial trialOf(const TimedResult &result, size_t settling, size_t layers) {
  const double passes = static_cast<double>(std::max<size_t>(1, result.tokenNs.size()) * layers);
  return {result.meanNs(settling), result.decode.displacedWeight / passes};
}

std::vector<double> PlanTrials::measure(std::span<const PlanSettings> candidates) {
  std::vector<double> ns;
  for (const Trial &trial : tryAll(candidates))
    ns.push_back(trial.tokenNs);
  return ns;
}

std::vector<Trial> PlanTrials::tryAll(std::span<const PlanSettings> candidates) {
  const size_t before = known.size();
  std::vector<size_t> places;
  for (const PlanSettings &candidate : candidates)
    places.push_back(placeOf(candidate));
  std::vector<const PlanSettings *> fresh;
  for (size_t i = before; i < known.size(); ++i)
    fresh.push_back(&known[i].settings);
  replayEach(fresh, [&](size_t i) {
    auto result = replayInTime(problem, *fresh[i], {.steps = traceParts.steps});
    if (result.isOk())
      known[before + i].trial =
          trialOf(*result, traceParts.settling, problem.trace->layerExperts.size());
  });
  std::vector<Trial> trials;
  for (size_t place : places)
    trials.push_back(known[place].trial);
  return trials;
}

TimedResult PlanTrials::replayPasses(const PlanSettings &settings) {
  if (isStopped())
    return {};
  ++replayCount;
  return replayInTime(problem, settings, {.steps = traceParts.steps, .keepsPasses = true}).value();
}

std::vector<TimedResult> PlanTrials::replayAll(std::span<const PlanSettings> candidates) {
  std::vector<const PlanSettings *> different;
  std::vector<size_t> places;
  for (const PlanSettings &candidate : candidates) {
    auto isSame = [&](const PlanSettings *other) { return *other == candidate; };
    const auto found = std::ranges::find_if(different, isSame);
    places.push_back(static_cast<size_t>(found - different.begin()));
    if (found == different.end())
      different.push_back(&candidate);
  }
  std::vector<TimedResult> made(different.size()), results;
  replayEach(different, [&](size_t i) { made[i] = replayInTime(problem, *different[i]).value(); });
  for (size_t place : places)
    results.push_back(made[place]);
  return results;
}

} // namespace moec
