#include "compiler/plan/HobbitCache.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/TimedReplay.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

using namespace moert;

namespace moec {

static constexpr uint32_t kQuarter = kFixedPointOne / 4;

/// All in quarters.
static std::vector<EvictionWeights> weightsToTry(bool knowsPrecision) {
  std::vector<EvictionWeights> all;
  for (uint32_t recency = 0; recency <= 4; ++recency)
    for (uint32_t frequency = 0; recency + frequency <= 4; ++frequency) {
      const uint32_t rest = 4 - recency - frequency;
      if (!knowsPrecision)
        all.push_back({recency * kQuarter, frequency * kQuarter / 2, frequency * kQuarter / 2,
                       rest * kQuarter});
      for (uint32_t full = 0; knowsPrecision && full <= rest; ++full)
        all.push_back(
            {recency * kQuarter, frequency * kQuarter, full * kQuarter, (rest - full) * kQuarter});
    }
  return all;
}

namespace {

/// Tries settings in turn. Of equally good ones the first stays.
class Fit {
public:
  Fit(const PlanProblem &planned, const PlanSettings &settings)
      : problem(planned), best(settings) {}

  void tryRules(const CacheRules &rules) {
    PlanSettings tried = best;
    tried.rules = rules;
    const Result<ReplayResult> replayed =
        replayTrace(*problem.trace, replayCacheOf(problem, tried), tried.miss, problem.scores);
    if (!replayed.isOk() || replayed->total.bytesRead >= leastBytes)
      return;
    leastBytes = replayed->total.bytesRead;
    best = std::move(tried);
  }
  const CacheRules &rules() const { return best.rules; }
  uint64_t bytes() const { return leastBytes; }
  /// Whatever is tried next counts as better.
  void forgetBytes() { leastBytes = std::numeric_limits<uint64_t>::max(); }

private:
  const PlanProblem &problem;
  PlanSettings best;
  uint64_t leastBytes = std::numeric_limits<uint64_t>::max();
};

} // namespace

static PlanReason weightsReason(const EvictionWeights &weights, bool knowsPrecision,
                                const std::string &text) {
  auto part = [](uint32_t weight) { return double(weight) / kFixedPointOne; };
  return {"eviction weights",
          strCat("recency ", part(weights.recency), ", frequency ", part(weights.frequency),
                 ", full frequency ", part(weights.fullFrequency), ", nearness ",
                 part(weights.nearness)),
          strCat("they read the fewest bytes on ", text, ", of all in quarters",
                 knowsPrecision ? "" : "; the trace does not distinguish the two frequencies"),
          Origin::kMeasured};
}

static bool hasCopies(const PlanProblem &problem) {
  return std::ranges::any_of(problem.lowCopySlices, [](const auto &layer) {
    return std::ranges::any_of(layer, [](uint16_t slices) { return slices > 0; });
  });
}

/// Whether replays can lower and skip experts by the preset's miss rule.
static bool knowsPrecisions(const PlanProblem &problem) {
  return !problem.scores.empty() && hasSlices(problem);
}

static std::string textOf(const PlanProblem &problem) {
  return knowsPrecisions(problem)
             ? strCat("the calibration text under ", missRuleText(missRuleOf(Preset::kHobbit)))
             : std::string("the calibration text");
}

std::vector<PlanReason> fitHobbitCache(const PlanProblem &problem, PlanSettings &settings) {
  const bool knowsPrecision = knowsPrecisions(problem);
  PlanSettings lossy = settings;
  if (knowsPrecision)
    setMiss(missRuleOf(Preset::kHobbit), lossy);
  Fit fit(problem, lossy);
  for (const EvictionWeights &weights : weightsToTry(knowsPrecision)) {
    CacheRules rules = lossy.rules;
    rules.weights = weights;
    fit.tryRules(rules);
  }
  const std::string text = textOf(problem);
  settings.rules.weights = fit.rules().weights;
  std::vector<PlanReason> reasons = {weightsReason(settings.rules.weights, knowsPrecision, text)};
  if (!knowsPrecision)
    return reasons;

  const uint64_t onePoolBytes = fit.bytes();
  fit.forgetBytes();
  for (uint32_t eighths = 1; eighths <= 6; ++eighths) {
    CacheRules rules = fit.rules();
    rules.upperPart = kFixedPointOne / 8 * eighths;
    fit.tryRules(rules);
  }
  settings.rules.upperPart = fit.rules().upperPart;
  reasons.push_back(
      {std::string(kPoolsReason),
       strCat(double(settings.rules.upperPart) / kFixedPointOne, " of the pages for ",
              hasCopies(problem) ? "copies of high precision" : "upper slices"),
       strCat("of 1 to 6 eighths it reads the fewest bytes on ", text,
              "; one pool for both would read ",
              std::round(100 * double(onePoolBytes) / double(std::max<uint64_t>(1, fit.bytes()))) /
                  100,
              " times as many"),
       Origin::kMeasured});
  return reasons;
}

/// The cache depends on the depth as far as prefetches take pages from it.
static void fitCaches(const PlanProblem &problem, std::vector<HobbitDepth> &depths) {
  const HobbitDepth *before = nullptr;
  for (HobbitDepth &depth : depths) {
    if (before && before->settings.allotment == depth.settings.allotment) {
      depth.settings.rules = before->settings.rules;
      depth.fitted = before->fitted;
    } else
      depth.fitted = fitHobbitCache(problem, depth.settings);
    before = &depth;
  }
}

PlanSettings takeHobbitDepth(const PlanProblem &problem, std::vector<HobbitDepth> depths,
                             std::vector<PlanReason> &reasons) {
  fitCaches(problem, depths);
  const HobbitDepth *taken = &depths.front();
  double takenNs = std::numeric_limits<double>::infinity();
  std::string times;
  for (const HobbitDepth &depth : depths) {
    PlanSettings tried = depth.settings;
    if (knowsPrecisions(problem))
      setMiss(missRuleOf(Preset::kHobbit), tried);
    const Result<TimedResult> replayed = replayInTime(problem, tried);
    if (!replayed.isOk())
      continue;
    const double ns = replayed->meanNs();
    times += strCat(times.empty() ? "" : ", ", depth.ahead, " ahead ", timeText(ns));
    if (ns >= takenNs * (1 - kSameTime))
      continue;
    taken = &depth;
    takenNs = ns;
  }
  reasons = taken->fitted;
  if (depths.size() > 1 || taken->ahead > 0)
    reasons.push_back({"prediction depth",
                       taken->ahead == 0 ? std::string("none") : strCat(taken->ahead, " ahead"),
                       strCat("HOBBIT 3.3: ", depths.size() > 1 ? "the least" : "asked for;",
                              " time per token on ", textOf(problem), ": ", times),
                       worseOf(problem.costs->origin, Origin::kDerived)});
  return taken->settings;
}

} // namespace moec
