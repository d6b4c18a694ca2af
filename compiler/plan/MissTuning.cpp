#include "compiler/plan/MissTuning.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/Presets.h"

#include <algorithm>
#include <utility>

using namespace moert;

namespace moec {

MissTuning::MissTuning(const PlanProblem &planned, const PlanSettings &settings,
                       PlanTrials &replays)
    : problem(planned), waiting(settings), trials(replays),
      book(planned, replays.parts().steps, replays.parts().steps, replays.threadCount()) {}

std::vector<PlanSettings> MissTuning::variantsOf(const MissRule &rule) {
  std::vector<PlanSettings> variants = {waiting};
  if (prefetchesAnything(waiting.prefetches)) {
    PlanSettings &without = variants.emplace_back(waiting);
    without.prefetches.clear();
    // The same division of what prefetches leave.
    const uint32_t staging = allotCache(book.cacheShape(), problem.poolPages).stagingPages;
    without.allotment = adjustAllotment({staging, waiting.allotment.quotaPages}, book.cacheShape(),
                                        problem.poolPages);
    if (!without.start.empty())
      book.setStart(without);
  }
  for (PlanSettings &settings : variants)
    setMiss(rule, settings);
  if (rule.baseSlices() > 0 && hasNestedSlices(problem)) // Records that are held whole.
    for (size_t i = 0, count = variants.size(); i < count; ++i) {
      variants.push_back(variants[i]);
      variants.back().rules.baseSlices = 0;
    }
  return variants;
}

/// Takes the first of the variants that is not slower than another one, if it is faster than what
/// there is.
bool MissTuning::take(std::span<const PlanSettings> variants) {
  const std::vector<Trial> tried = trials.tryAll(variants);
  double least = bestTrial.tokenNs;
  for (const Trial &trial : tried)
    least = std::min(least, trial.tokenNs);
  if (bestTrial.tokenNs <= least * (1 + kSameTime))
    return false;
  for (size_t i = 0; i < variants.size(); ++i)
    if (tried[i].tokenNs <= least * (1 + kSameTime)) {
      best = variants[i];
      bestTrial = tried[i];
      return true;
    }
  return false;
}

void MissTuning::tuneQuotas() {
  if (best.rules.sharing == CacheSharing::kOnePool)
    return;
  PlanSettings curved = best;
  curved.allotment = book.curved(best.allotment, best.rules.eviction, best.miss);
  if (!curved.start.empty())
    book.setStart(curved);
  (void)take({&curved, 1});
}

void MissTuning::tuneEviction() {
  if (!needs(best.rules.eviction, ScoreData::kNothing))
    return; // A preset's, with weights or exchanges that belong to it.
  std::vector<PlanSettings> variants;
  for (EvictionPolicy eviction : searchedPolicies(ScoreSearch::kPlansAndRules))
    if (eviction != best.rules.eviction)
      variants.emplace_back(best).rules.eviction = eviction;
  (void)take(variants);
}

/// Upper slices that leave by themselves make room for other experts, and are read again.
void MissTuning::tuneSlices() {
  PlanSettings other = best;
  other.rules.baseSlices = best.rules.baseSlices == 0 ? best.miss.baseSlices() : uint8_t(0);
  if (other.rules.baseSlices != best.rules.baseSlices && hasNestedSlices(problem))
    (void)take({&other, 1});
}

/// With a rule only important experts are waited for: what is less likely is not worth a read.
void MissTuning::tunePrefetches() {
  if (!prefetchesAnything(best.prefetches))
    return;
  auto vary = [this](std::initializer_list<uint32_t> values, auto set) {
    std::vector<PlanSettings> variants;
    for (uint32_t value : values) {
      PlanSettings &settings = variants.emplace_back(best);
      for (PrefetchRule &rule : settings.prefetches)
        if (rule.predictor != Predictor::kOff)
          set(rule, value);
    }
    (void)take(variants);
  };
  vary({kFixedPointOne / 2, kFixedPointOne / 4, kFixedPointOne / 8, kFixedPointOne / 16},
       [](PrefetchRule &rule, uint32_t value) { rule.minProbability = value; });
  vary({1, 2, 3, 4}, [](PrefetchRule &rule, uint32_t value) {
    rule.reads = static_cast<uint16_t>(std::min<uint32_t>(value, rule.candidates));
  });
}

MissRung MissTuning::tune(const PlanSettings &settings) {
  best = settings;
  bestTrial = trials.tryAll({&settings, 1}).front();
  tuneQuotas();
  tuneEviction();
  tuneSlices();
  tunePrefetches();
  return rungOf(best, bestTrial);
}

std::vector<PlanSettings> MissTuning::maskVariants() {
  std::vector<PlanSettings> variants;
  if (!problem.expertNorms.empty())
    variants.push_back(planPreset(Preset::kSwapMoe, problem).settings);
  const std::vector<PlanSettings> waits = variantsOf({}); // The last one does not prefetch.
  book.setStart(variants.emplace_back(waits.back()));
  for (PlanSettings &settings : variants)
    setMiss({.action = MissAction::kMask}, settings);
  return variants;
}

MissRung MissTuning::rungOf(const PlanSettings &settings, const Trial &trial) const {
  MissRung rung = {settings, trial.tokenNs, trial.displacedWeight, {}};
  const std::string rule = missRuleText(settings.miss);
  const std::string reason =
      strCat("decided for the demand under ", rule, ", ", timeText(trial.tokenNs), " a token");
  auto decide = [&](const char *decision, std::string value) {
    rung.decisions.push_back(
        {decision, std::move(value), reason, worseOf(Origin::kDerived, problem.costs->origin)});
  };
  if (settings.rules.eviction != waiting.rules.eviction)
    decide("eviction",
           strCat(nameOf(settings.rules.eviction), ", ", nameOf(settings.rules.sharing)));
  if (settings.rules.baseSlices < settings.miss.baseSlices())
    decide("slices", "records are held whole");
  if (settings.allotment != waiting.allotment)
    decide("quotas", "divided anew");
  if (settings.prefetches != waiting.prefetches) {
    const auto first = std::ranges::find_if(settings.prefetches, [](const PrefetchRule &each) {
      return each.predictor != Predictor::kOff;
    });
    decide("prefetches",
           first == settings.prefetches.end() ? std::string("none") : prefetchText(*first));
  }
  if (settings.start != waiting.start)
    decide("start", settings.start.empty() ? "empty" : "the trace's most popular experts");
  if (settings.rules.exchange != waiting.rules.exchange)
    decide("exchanges", exchangeText(settings.rules.exchange));
  return rung;
}

} // namespace moec
