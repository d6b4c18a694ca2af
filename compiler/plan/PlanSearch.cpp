#include "compiler/plan/PlanSearch.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PlanTrials.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moert;

namespace moec {

// As kSameTime, for numbers of prefetches, of which none is much simpler than another.
static constexpr double kSameNumbersTime = kSameTime / 10;

// Rules of the cache that are slower than others by more than this without prefetches are not tried
// with them: prefetches hide the reads of good rules as well as those of bad ones.
static constexpr double kHopelessTime = 0.1;

// Rules of the cache that are slower by no more than this may be the faster ones on the part of the
// trace that nothing is decided on: so many policies are held against the best once more, on all of
// it. (Of the widened bundled model at half of its experts LFU was 2% faster than the
// reuse-distance score where that was decided, and 7% slower on the rest.)
static constexpr double kNearTime = 0.03;
static constexpr size_t kMostNear = 3;

namespace {

struct Variant {
  PlanRecipe recipe;
  std::string name;
};

/// One search. Borrows the problem and the options.
class Search {
public:
  Search(const PlanProblem &planned, const SearchOptions &asked)
      : problem(planned), options(asked), trials(problem, asked.threads, asked.stop),
        book(problem, trials.parts().settlingSteps, trials.parts().steps, asked.threads),
        origin(worseOf(Origin::kDerived, planned.costs->origin)) {
    best.hasStart = true;
    for (uint32_t chosen : problem.topK)
      topK = std::max(topK, chosen);
  }

  /// Means nothing once it is stopped, which does not take long then.
  SearchedPlan run();
  bool isStopped() const { return trials.isStopped(); }

private:
  /// Takes the first of the variants that is not slower than another one, and says why; the
  /// simplest ones stand first. False if it is `best` as it was.
  bool decide(const std::string &decision, const std::vector<Variant> &variants,
              double sameTime = kSameTime);
  std::vector<double> measure(const std::string &decision, const std::vector<Variant> &variants);
  void explain(const std::string &decision, const std::vector<Variant> &variants,
               const std::vector<double> &ns, size_t chosen);

  std::vector<Variant> ruleVariants() const;
  bool decideRules();
  void addNearRules();
  bool decideQuotas();
  bool decidePins();
  void decidePrefetches();
  std::vector<Variant> prefetchVariants() const;
  bool refinePrefetches();
  void decideSilence();

  const PlanProblem &problem;
  const SearchOptions &options;
  PlanTrials trials;
  RecipeBook book;
  Origin origin;
  uint32_t topK = 1;
  PlanRecipe best;
  double bestNs = std::numeric_limits<double>::infinity();
  std::vector<CacheRules> hopeless;
  // What was the best before something was added to it, then the best, then what is near to it.
  std::vector<Finalist> finalists;
  std::vector<PlanReason> decisions;
};

//===-- Deciding ------------------------------------------------------------------------------===//

std::vector<double> Search::measure(const std::string &decision,
                                    const std::vector<Variant> &variants) {
  std::vector<PlanSettings> settings;
  for (const Variant &variant : variants)
    settings.push_back(book.settingsOf(variant.recipe));
  const uint32_t before = trials.replays();
  std::vector<double> ns = trials.measure(settings);
  if (options.progress && trials.replays() > before)
    options.progress({decision, trials.replays(), std::min(bestNs, *std::ranges::min_element(ns))});
  return ns;
}

static size_t firstOfBest(const std::vector<double> &ns, double sameTime) {
  const double least = *std::ranges::min_element(ns);
  return static_cast<size_t>(
      std::ranges::find_if(ns, [&](double each) { return each <= least * (1 + sameTime); }) -
      ns.begin());
}

bool Search::decide(const std::string &decision, const std::vector<Variant> &variants,
                    double sameTime) {
  if (variants.empty())
    return false;
  const std::vector<double> ns = measure(decision, variants);
  const size_t chosen = firstOfBest(ns, sameTime);
  explain(decision, variants, ns, chosen);
  const bool isNew = variants[chosen].recipe != best;
  best = variants[chosen].recipe;
  bestNs = ns[chosen];
  return isNew;
}

void Search::explain(const std::string &decision, const std::vector<Variant> &variants,
                     const std::vector<double> &ns, size_t chosen) {
  constexpr size_t kNamed = 4; // The best of the others.
  std::vector<size_t> others;
  for (size_t i = 0; i < variants.size(); ++i)
    if (i != chosen && std::isfinite(ns[i]))
      others.push_back(i);
  std::ranges::stable_sort(others, {}, [&](size_t i) { return ns[i]; });
  std::string reason = strCat(timeText(ns[chosen]), " a token");
  for (size_t i = 0; i < std::min(kNamed, others.size()); ++i)
    reason += strCat(i == 0 ? "; " : ", ", variants[others[i]].name, " ", timeText(ns[others[i]]));
  std::erase_if(decisions, [&](const PlanReason &made) { return made.decision == decision; });
  decisions.push_back({decision, variants[chosen].name, reason, origin});
}

//===-- The cache -----------------------------------------------------------------------------===//

std::vector<Variant> Search::ruleVariants() const {
  std::vector<Variant> variants;
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    for (EvictionPolicy eviction : searchedPolicies(ScoreSearch::kPlans)) {
      Variant &variant = variants.emplace_back();
      variant.recipe = best;
      variant.recipe.rules = {.eviction = eviction, .sharing = sharing};
      variant.recipe.hasCurvedQuotas &= sharing == CacheSharing::kLayerQuotas;
      variant.name = strCat(nameOf(eviction), ", ", nameOf(sharing));
    }
  std::erase_if(variants, [&](const Variant &variant) {
    return std::ranges::find(hopeless, variant.recipe.rules) != hopeless.end();
  });
  return variants;
}

bool Search::decideRules() {
  const std::vector<Variant> variants = ruleVariants();
  const std::vector<double> ns = measure("eviction", variants);
  for (size_t i = 0; i < variants.size(); ++i)
    if (ns[i] > *std::ranges::min_element(ns) * (1 + kHopelessTime))
      hopeless.push_back(variants[i].recipe.rules);
  return decide("eviction", variants);
}

static void forgetQuotas(std::vector<PlanReason> &decisions) {
  std::erase_if(decisions, [](const PlanReason &made) { return made.decision == "quotas"; });
}

/// The best plan with other policies, the fastest first.
void Search::addNearRules() {
  const std::vector<Variant> variants = ruleVariants();
  const std::vector<double> ns = measure("eviction", variants);
  std::vector<size_t> near; // For each policy the better sharing.
  for (size_t i = 0; i < variants.size(); ++i) {
    auto isSamePolicy = [&](size_t other) {
      return variants[other].recipe.rules.eviction == variants[i].recipe.rules.eviction;
    };
    const auto known = std::ranges::find_if(near, isSamePolicy);
    if (variants[i].recipe.rules.eviction == best.rules.eviction ||
        ns[i] > bestNs * (1 + kNearTime))
      continue;
    if (known == near.end())
      near.push_back(i);
    else if (ns[i] < ns[*known])
      *known = i;
  }
  std::ranges::stable_sort(near, {}, [&](size_t i) { return ns[i]; });
  near.resize(std::min(near.size(), kMostNear));
  for (size_t i : near) {
    Finalist finalist{variants[i].recipe, decisions};
    for (PlanReason &made : finalist.decisions)
      if (made.decision == "eviction")
        made = {made.decision, variants[i].name,
                strCat(timeText(ns[i]), " a token where it was decided, ", made.value, " ",
                       timeText(bestNs), "; taken for its time on the whole of it"),
                made.origin};
    if (finalist.recipe.rules.sharing == CacheSharing::kOnePool)
      forgetQuotas(finalist.decisions);
    finalists.push_back(finalist);
  }
}

bool Search::decideQuotas() {
  if (best.rules.sharing == CacheSharing::kOnePool) {
    forgetQuotas(decisions);
    return false;
  }
  PlanRecipe even = best, curved = best;
  even.hasCurvedQuotas = false;
  curved.hasCurvedQuotas = true;
  return decide("quotas", {{even, "even"}, {curved, "by each layer's curve of bytes read"}});
}

bool Search::decidePins() {
  std::vector<Variant> variants;
  for (uint32_t pins : {0, 1, 2, 4, 8}) {
    PlanRecipe recipe = best;
    recipe.pins = pins;
    variants.push_back({recipe, pins == 0 ? "none"
                                          : strCat(pins == 1 ? "the" : strCat("the ", pins),
                                                   " most popular of each layer")});
  }
  return decide("pins", variants);
}

//===-- Prefetches
//-------------------------------------------------------------------------------===//

static std::string prefetchName(const PlanRecipe &recipe) {
  if (recipe.prefetch.predictor == Predictor::kOff)
    return "none";
  return strCat(prefetchText(recipe.prefetch), ", room for ", recipe.prefetchRecords);
}

/// Probabilities below which an expert is not read, coarse or fine; what reads least first.
static std::vector<uint32_t> leastProbabilities(bool isFine) {
  std::vector<uint32_t> probabilities;
  for (uint32_t of64 : {48, 32, 24, 16, 12, 8, 6, 4, 2, 1, 0})
    if (isFine || of64 == 0 || of64 == 4 || of64 == 8 || of64 == 16 || of64 == 32)
      probabilities.push_back(kFixedPointOne / 64 * of64);
  return probabilities;
}

std::vector<Variant> Search::prefetchVariants() const {
  std::vector<PrefetchRule> known;
  for (uint8_t ahead = 1; ahead <= kMostAhead; ++ahead)
    known.push_back({.predictor = Predictor::kGate, .ahead = ahead});
  known.push_back({.predictor = Predictor::kPaths});
  std::vector<Variant> variants;
  for (const PrefetchRule &rule : known) {
    if (std::ranges::none_of(problem.predictions, [&](const LayerPredictions &made) {
          return made.predictor == rule.predictor && made.ahead == rule.ahead;
        }))
      continue;
    for (uint32_t probability : leastProbabilities(false)) {
      PlanRecipe recipe = best;
      recipe.prefetch = rule;
      recipe.prefetch.candidates = recipe.prefetch.reads = static_cast<uint16_t>(topK);
      recipe.prefetch.minProbability = probability;
      recipe.prefetchRecords = std::min(topK, 2u);
      variants.push_back({recipe, prefetchName(recipe)});
    }
  }
  return variants;
}

/// One round over the numbers of a prefetch. Whether one of them changed.
bool Search::refinePrefetches() {
  auto vary = [&](const auto &values, auto set) {
    std::vector<Variant> variants;
    for (uint32_t value : values) {
      PlanRecipe recipe = best;
      set(recipe, value);
      variants.push_back({recipe, prefetchName(recipe)});
    }
    return decide("prefetches", variants, kSameNumbersTime);
  };
  bool isNew = vary(std::vector<uint32_t>{0, 1, 2, 3, 4, 6, 8, 12},
                    [](PlanRecipe &r, uint32_t v) { r.prefetchRecords = v; });
  isNew |= vary(leastProbabilities(true),
                [](PlanRecipe &r, uint32_t v) { r.prefetch.minProbability = v; });
  isNew |= vary(std::vector<uint32_t>{1, 2, 3, 4, 6, 8, topK},
                [](PlanRecipe &r, uint32_t v) { r.prefetch.reads = static_cast<uint16_t>(v); });
  isNew |=
      vary(std::vector<uint32_t>{std::max(1u, topK / 2), topK, topK * 3 / 2, topK * 2},
           [](PlanRecipe &r, uint32_t v) { r.prefetch.candidates = static_cast<uint16_t>(v); });
  isNew |= vary(std::vector<uint32_t>{1, 2, 3}, [](PlanRecipe &r, uint32_t v) {
    if (r.prefetch.predictor == Predictor::kGate)
      r.prefetch.ahead = static_cast<uint8_t>(v);
  });
  return isNew;
}

void Search::decidePrefetches() {
  const Variant without{best, "none"};
  const Finalist unprefetched{best, decisions};
  const std::vector<Variant> variants = prefetchVariants();
  if (variants.empty()) {
    decisions.push_back({"prefetches", "none", "the trace has no predictions", origin});
    return;
  }
  decide("prefetches", variants, kSameNumbersTime);
  for (int round = 0; round < 4 && refinePrefetches(); ++round)
    continue;
  decideSilence();
  const Variant with{best, prefetchName(best)};
  decide("prefetches", {without, with});
  if (best.prefetch.predictor == Predictor::kOff)
    eraseReasons(kUnprefetchedLayers, decisions);
  else
    finalists.push_back(unprefetched);
}

/// Layers whose prefetches are wrong too often are not prefetched.
void Search::decideSilence() {
  const TimedResult result = trials.replayPasses(book.settingsOf(best));
  const size_t layers = problem.recordBytes.size();
  std::vector<double> useful(layers, 0), finished(layers, 0);
  for (size_t p = 0; p < result.passes.size(); ++p) {
    const CacheCounts &counts = result.passes[p].counts.cache;
    useful[p % layers] += static_cast<double>(counts.useful);
    finished[p % layers] += static_cast<double>(counts.useful + counts.cancelled);
  }
  std::vector<Variant> variants{{best, "none"}};
  for (double least : {0.3, 0.45, 0.6, 0.7, 0.8}) {
    PlanRecipe recipe = best;
    recipe.isSilent.assign(layers, false);
    size_t silent = 0;
    for (size_t l = 0; l < layers; ++l) {
      recipe.isSilent[l] = useful[l] < least * finished[l];
      silent += recipe.isSilent[l];
    }
    if (silent > 0 && recipe.isSilent != variants.back().recipe.isSilent)
      variants.push_back(
          {recipe, strCat(silent, silent == 1 ? " layer" : " layers", " right less than ",
                          std::lround(100 * least), "% of the time")});
  }
  decide(kUnprefetchedLayers, variants);
}

//===-- The whole -----------------------------------------------------------------------------===//

SearchedPlan Search::run() {
  decideRules();
  finalists.push_back({best, decisions});
  decideQuotas();
  decidePins();
  decidePrefetches();
  if (best.prefetch.predictor != Predictor::kOff) {
    finalists.push_back({best, decisions});
    if (decideRules()) {
      decideQuotas();
      refinePrefetches();
    }
  }
  finalists.push_back({best, decisions});
  const size_t searched = finalists.size() - 1;
  addNearRules();
  return acceptPlan(problem, trials, finalists, searched);
}

} // namespace

Result<SearchedPlan> searchPlan(const PlanProblem &problem, const SearchOptions &options) {
  MOERT_RETURN_IF_ERROR(check(problem));
  if (std::ranges::none_of(problem.trace->passes,
                           [](const RoutingPass &pass) { return pass.tokens == 1; }))
    return invalidInput("the trace has no decoded tokens to search a plan with");
  ReadTable alikeReads = *problem.reads;
  alikeReads.reused.clear();
  PlanProblem alike = problem;
  alike.reads = &alikeReads;
  Search search(alike, options);
  SearchedPlan found = search.run();
  if (search.isStopped())
    return Status(StatusCode::kInterrupted, "interrupted");
  return found;
}

} // namespace moec
