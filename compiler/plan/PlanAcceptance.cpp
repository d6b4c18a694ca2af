#include "compiler/plan/PlanAcceptance.h"

#include "compiler/plan/Presets.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace moert;

namespace moec {

// Times that differ by less are the same, added up in another order.
static constexpr double kRounding = 1e-9;

static const Preset kRivals[] = {Preset::kLoadOnDemand, Preset::kLru, Preset::kEdgeMoe,
                                 Preset::kFate};

std::string timeText(double ns) {
  char text[32];
  const double ms = ns / 1e6;
  std::snprintf(text, sizeof text, ms < 1000 ? "%.4g ms" : "%.0f ms", ms);
  return text;
}

namespace {

/// Settings that were replayed on the whole trace.
struct Judged {
  PlannedSettings planned;
  bool hasStart = false;
  TimedResult result = {};
  double ns = 0, restNs = 0; // A token: of the whole, of the part that nothing was decided on.
};

} // namespace

static std::vector<Judged> candidatesOf(const PlanProblem &problem, const PlanTrials &trials,
                                        std::span<const Finalist> finalists) {
  const size_t steps = trials.parts().steps;
  RecipeBook book(problem, steps, steps, trials.threadCount());
  std::vector<Judged> candidates;
  for (const Finalist &finalist : finalists)
    for (bool hasStart : {false, true}) {
      PlanRecipe recipe = finalist.recipe;
      recipe.hasStart = hasStart;
      candidates.push_back({{book.settingsOf(recipe), finalist.decisions}, hasStart});
    }
  return candidates;
}

static void judge(PlanTrials &trials, std::span<Judged> candidates) {
  std::vector<PlanSettings> settings;
  for (const Judged &candidate : candidates)
    settings.push_back(candidate.planned.settings);
  std::vector<TimedResult> results = trials.replayAll(settings);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].ns = results[i].meanNs();
    candidates[i].restNs = results[i].meanNs(trials.parts().decided);
    candidates[i].result = std::move(results[i]);
  }
}

static bool isFaster(double ns, double otherNs) {
  return ns < otherNs * (1 - kRounding);
}

/// What settings have to gain on others by prefetching.
static double safetyMarginOf(const Judged &judged) {
  return prefetchesAnything(judged.planned.settings.prefetches) ? 1 + kMinPrefetchGain : 1;
}

/// Whether a preset does not beat the candidate, on the whole and on the part that nothing was
/// decided on.
static bool isAsFast(const Judged &candidate, const Judged &rival) {
  const double safetyMargin = std::max(1.0, safetyMarginOf(rival) / safetyMarginOf(candidate));
  return !isFaster(rival.ns * safetyMargin, candidate.ns) &&
         !isFaster(rival.restNs * safetyMargin, candidate.restNs);
}

static const Judged *choose(std::span<const Judged> candidates, std::span<const Judged> rivals) {
  auto isAcceptable = [&](const Judged &candidate) {
    return std::ranges::all_of(rivals,
                               [&](const Judged &rival) { return isAsFast(candidate, rival); });
  };
  double least = std::numeric_limits<double>::infinity();
  for (const Judged &candidate : candidates)
    if (isAcceptable(candidate))
      least = std::min(least, candidate.ns * safetyMarginOf(candidate));
  for (const Judged &candidate : candidates)
    if (isAcceptable(candidate) &&
        candidate.ns * safetyMarginOf(candidate) <= least * (1 + kSameTime))
      return &candidate;
  return nullptr;
}

static PlanReason startDecision(std::span<const Judged> candidates, const Judged &taken,
                                Origin origin) {
  // Pairs: without a start, with one.
  const size_t pair = static_cast<size_t>(&taken - candidates.data()) / 2 * 2;
  const double empty = candidates[pair].ns, filled = candidates[pair + 1].ns;
  return {"start", taken.hasStart ? "the trace's most popular experts" : "empty",
          taken.hasStart
              ? strCat(timeText(filled), " a token on the deciding part of the trace; empty ",
                       timeText(empty))
              : strCat(timeText(empty),
                       " a token on the deciding part of the trace; popular experts ",
                       timeText(filled)),
          origin};
}

/// What was decided later, and is not in what was taken.
static void addUndone(const Judged &taken, const Judged &last, std::vector<PlanReason> &decisions) {
  const bool isSlower = last.ns > taken.ns;
  const PlanSettings &settings = taken.planned.settings;
  auto isMoot = [&](const std::string &decision) {
    return decision == "quotas"
               ? settings.rules.sharing == CacheSharing::kOnePool
               : decision == kUnprefetchedLayers && !prefetchesAnything(settings.prefetches);
  };
  const size_t made = decisions.size();
  for (const PlanReason &later : last.planned.decisions) {
    auto isSame = [&](const PlanReason &one) { return one.decision == later.decision; };
    if (std::any_of(decisions.begin(), decisions.begin() + ptrdiff_t(made), isSame) ||
        isMoot(later.decision))
      continue;
    const std::string without = later.decision == "quotas" ? "even" : "none";
    const std::string reason =
        strCat(isSlower ? "slower" : "too little faster",
               " on the deciding part of the trace: ", later.value, " and what came with it, ",
               timeText(last.ns), " beside ", timeText(taken.ns),
               !isSlower && safetyMarginOf(last) > safetyMarginOf(taken)
                   ? strCat("; prefetches have to gain ", std::lround(100 * kMinPrefetchGain), "%")
                   : std::string());
    decisions.push_back(
        {later.decision, without, without == later.value ? later.reason : reason, later.origin});
  }
}

SearchedPlan acceptPlan(const PlanProblem &problem, PlanTrials &trials,
                        std::span<const Finalist> finalists, size_t searched) {
  std::vector<Judged> candidates = candidatesOf(problem, trials, finalists);
  const size_t ours = candidates.size();
  for (Preset preset : kRivals)
    candidates.push_back({planPreset(preset, problem)});
  judge(trials, candidates);

  const std::span<const Judged> found = std::span(candidates).first(ours);
  const std::span<const Judged> rivals = std::span(candidates).subspan(ours);
  SearchedPlan plan;
  size_t best = 0;
  for (size_t i = 0; i < rivals.size(); ++i) {
    plan.presets.push_back({kRivals[i], rivals[i].ns});
    if (isFaster(rivals[i].ns * safetyMarginOf(rivals[i]),
                 rivals[best].ns * safetyMarginOf(rivals[best])))
      best = i;
  }
  const Origin origin = worseOf(Origin::kDerived, problem.costs->origin);
  const Judged *taken = choose(found, rivals);
  const Judged &judged = taken ? *taken : rivals[best];
  plan.planned = judged.planned;
  plan.rule.preset = kRivals[best];
  if (taken) {
    const auto pair = static_cast<size_t>(taken - candidates.data()) / 2;
    plan.rule = {Preset::kAuto, finalists[pair].recipe};
    plan.rule.recipe->hasStart = taken->hasStart;
    addUndone(*taken, found[2 * searched + 1], plan.planned.decisions);
    plan.planned.decisions.push_back(startDecision(found, *taken, origin));
  }
  const std::string name(presetName(kRivals[best]));
  const bool isPreset = judged.planned.settings == rivals[best].planned.settings;
  plan.planned.decisions.push_back(
      {"settings",
       !taken ? name : strCat("searched", isPreset ? strCat(", the same as ", name) : ""),
       strCat(timeText(judged.ns), " a token on the deciding part of the trace, ",
              timeText(judged.restNs), " on its ",
              judged.result.tokenNs.size() - trials.parts().decided,
              " tokens that only chose among finalists; the best preset: ", name, " ",
              timeText(rivals[best].ns), ", on those tokens ", timeText(rivals[best].restNs)),
       origin});
  plan.tokenNs = judged.ns;
  plan.replays = trials.replays();
  return plan;
}

} // namespace moec
