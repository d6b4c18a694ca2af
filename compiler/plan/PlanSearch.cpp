#include "compiler/plan/PlanSearch.h"

#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PlanTrials.h"
#include "compiler/plan/Presets.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace moert;

namespace moec {

// Steps that are decided on: as many as make so many experts with all layers, but not fewer than
// the other number. Twice as many change the time of what is found on the bundled model's trace by
// less than 1%.
static constexpr uint64_t kReplayedExperts = 500'000;
static constexpr size_t kLeastSteps = 400;

static const Preset kRivals[] = {Preset::kLoadOnDemand, Preset::kLru, Preset::kEdgeMoe,
                                 Preset::kFate};

// The same for numbers of guesses, of which none is much simpler than another.
static constexpr double kSameNumbersTime = kSameTime / 10;

static constexpr const char *kPopularStart = "the trace's most popular experts";

static std::string timeText(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g ms", ns / 1e6);
  return text;
}

namespace {

/// How much of the trace is decided on, and how much is not.
struct TraceParts {
  size_t steps = 0;        // Decided on.
  size_t decodedSteps = 0; // Of them.
  size_t decoded = 0;      // Of the whole trace.
};

TraceParts partsOf(const RoutingTrace &trace) {
  const size_t layers = trace.layerExperts.size(), steps = trace.plays.size() / layers;
  auto isDecoded = [&](size_t step) { return trace.plays[step * layers].tokens == 1; };
  TraceParts parts;
  uint64_t experts = 0;
  for (uint32_t count : trace.layerExperts)
    experts += count;
  for (size_t step = 0; step < steps; ++step)
    parts.decoded += isDecoded(step);
  const size_t mostSteps = std::max<size_t>(kLeastSteps, kReplayedExperts / experts);
  const size_t mostDecoded = std::max<size_t>(1, parts.decoded * 2 / 3);
  while (parts.steps < steps && parts.decodedSteps < mostDecoded &&
         (parts.steps < mostSteps || parts.decodedSteps == 0))
    parts.decodedSteps += isDecoded(parts.steps++);
  return parts;
}

struct Variant {
  PlanRecipe recipe;
  std::string name;
};

/// One search. Borrows the problem and the options.
class Search {
public:
  Search(const PlanProblem &planned, const SearchOptions &asked)
      : problem(planned), options(asked), parts(partsOf(*planned.trace)),
        book(planned, parts.steps), trials(planned, parts.steps, asked.threads),
        origin(worseOf(Origin::kDerived, planned.costs->origin)) {
    for (uint32_t chosen : problem.topK)
      topK = std::max(topK, chosen);
  }

  SearchedPlan run();

private:
  /// Takes the first of the variants that is not slower than another one, and says why; the
  /// simplest ones stand first. False if it is `best` as it was.
  bool decide(const std::string &decision, const std::vector<Variant> &variants,
              double sameTime = kSameTime);
  std::vector<double> measure(const std::string &decision, const std::vector<Variant> &variants);
  void explain(const std::string &decision, const std::vector<Variant> &variants,
               const std::vector<double> &ns, size_t chosen);

  bool decideRules();
  bool decideStart();
  bool decideQuotas();
  bool decidePins();
  void decideGuesses();
  std::vector<Variant> guessVariants() const;
  bool refineGuesses();
  void decideSilence();
  SearchedPlan accept();

  const PlanProblem &problem;
  const SearchOptions &options;
  TraceParts parts;
  RecipeBook book;
  PlanTrials trials;
  Origin origin;
  uint32_t topK = 1;
  PlanRecipe best;
  double bestNs = std::numeric_limits<double>::infinity();
  struct Earlier {
    PlanRecipe recipe;
    std::vector<PlanDecision> decisions;
  };
  std::vector<Earlier> simpler; // What was the best before something was added to it.
  std::vector<PlanDecision> decisions;
};

//===-- Deciding ------------------------------------------------------------------------------===//

std::vector<double> Search::measure(const std::string &decision,
                                    const std::vector<Variant> &variants) {
  std::vector<PlanSettings> settings;
  for (const Variant &variant : variants)
    settings.push_back(book.settingsOf(variant.recipe));
  std::vector<double> ns = trials.measure(settings);
  if (options.progress)
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
  std::erase_if(decisions, [&](const PlanDecision &made) { return made.decision == decision; });
  decisions.push_back({decision, variants[chosen].name, reason, origin});
}

//===-- The cache -----------------------------------------------------------------------------===//

bool Search::decideRules() {
  std::vector<Variant> variants;
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    for (EvictionPolicy eviction :
         {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kEdgeMoe,
          EvictionPolicy::kArc, EvictionPolicy::kLeastStale, EvictionPolicy::kCyclic}) {
      Variant &variant = variants.emplace_back();
      variant.recipe = best;
      variant.recipe.rules = {.eviction = eviction, .sharing = sharing};
      variant.recipe.hasCurvedQuotas &= sharing == CacheSharing::kLayerQuotas;
      variant.name = strCat(evictionName(eviction), ", ", sharingName(sharing));
    }
  return decide("eviction", variants);
}

bool Search::decideStart() {
  PlanRecipe without = best, with = best;
  without.hasStart = false;
  with.hasStart = true;
  return decide("start", {{without, "empty"}, {with, kPopularStart}});
}

bool Search::decideQuotas() {
  if (best.rules.sharing == CacheSharing::kOnePool)
    return false;
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
    variants.push_back(
        {recipe, pins == 0 ? "none" : strCat("the ", pins, " most popular a layer")});
  }
  return decide("pins", variants);
}

//===-- Guesses -------------------------------------------------------------------------------===//

static std::string guessName(const PlanRecipe &recipe) {
  const GuessRule &rule = recipe.guess;
  if (rule.predictor == Predictor::kOff)
    return "none";
  char share[16];
  std::snprintf(share, sizeof share, "%.3g", static_cast<double>(rule.minShare) / kWholeShare);
  return strCat(predictorName(rule.predictor), " ", uint32_t(rule.ahead), " ahead, ", rule.reads,
                " of ", rule.candidates, " from ", share, ", room for ", recipe.guessRecords);
}

/// Shares below which an expert is not read, coarse or fine; what reads least first.
static std::vector<uint32_t> leastShares(bool isFine) {
  std::vector<uint32_t> shares;
  for (uint32_t of64 : {48, 32, 24, 16, 12, 8, 6, 4, 2, 1, 0})
    if (isFine || of64 == 0 || of64 == 4 || of64 == 8 || of64 == 16 || of64 == 32)
      shares.push_back(kWholeShare / 64 * of64);
  return shares;
}

std::vector<Variant> Search::guessVariants() const {
  std::vector<GuessRule> known;
  for (uint8_t ahead = 1; ahead <= kMostAhead; ++ahead)
    known.push_back({.predictor = Predictor::kGate, .ahead = ahead});
  known.push_back({.predictor = Predictor::kPaths});
  std::vector<Variant> variants;
  for (const GuessRule &rule : known) {
    if (std::ranges::none_of(problem.predictions, [&](const LayerPredictions &made) {
          return made.predictor == rule.predictor && made.ahead == rule.ahead;
        }))
      continue;
    for (uint32_t share : leastShares(false)) {
      PlanRecipe recipe = best;
      recipe.guess = rule;
      recipe.guess.candidates = recipe.guess.reads = static_cast<uint16_t>(topK);
      recipe.guess.minShare = share;
      recipe.guessRecords = std::min(topK, 2u);
      variants.push_back({recipe, guessName(recipe)});
    }
  }
  return variants;
}

/// One round over the numbers of a guess. Whether one of them changed.
bool Search::refineGuesses() {
  auto vary = [&](const auto &values, auto set) {
    std::vector<Variant> variants;
    for (uint32_t value : values) {
      PlanRecipe recipe = best;
      set(recipe, value);
      variants.push_back({recipe, guessName(recipe)});
    }
    return decide("guesses", variants, kSameNumbersTime);
  };
  bool isNew = vary(std::vector<uint32_t>{0, 1, 2, 3, 4, 6, 8, 12},
                    [](PlanRecipe &r, uint32_t v) { r.guessRecords = v; });
  isNew |= vary(leastShares(true), [](PlanRecipe &r, uint32_t v) { r.guess.minShare = v; });
  isNew |= vary(std::vector<uint32_t>{1, 2, 3, 4, 6, 8, topK},
                [](PlanRecipe &r, uint32_t v) { r.guess.reads = static_cast<uint16_t>(v); });
  isNew |= vary(std::vector<uint32_t>{std::max(1u, topK / 2), topK, topK * 3 / 2, topK * 2},
                [](PlanRecipe &r, uint32_t v) { r.guess.candidates = static_cast<uint16_t>(v); });
  isNew |= vary(std::vector<uint32_t>{1, 2, 3}, [](PlanRecipe &r, uint32_t v) {
    if (r.guess.predictor == Predictor::kGate)
      r.guess.ahead = static_cast<uint8_t>(v);
  });
  return isNew;
}

void Search::decideGuesses() {
  const Variant without{best, "none"};
  const Earlier earlier{best, decisions};
  const std::vector<Variant> variants = guessVariants();
  if (variants.empty()) {
    decisions.push_back({"guesses", "none", "the trace has no predictions", origin});
    return;
  }
  decide("guesses", variants, kSameNumbersTime);
  for (int round = 0; round < 4 && refineGuesses(); ++round)
    continue;
  decideSilence();
  const Variant with{best, guessName(best)};
  decide("guesses", {without, with});
  if (best.guess.predictor == Predictor::kOff)
    std::erase_if(decisions, [](const PlanDecision &made) { return made.decision == "silence"; });
  else
    simpler.push_back(earlier);
}

/// Layers whose guesses are wrong too often are not guessed.
void Search::decideSilence() {
  const PlanSettings settings = book.settingsOf(best);
  const std::vector<TimedResult> results = trials.replay({&settings, 1}, parts.steps, true);
  const size_t layers = problem.recordBytes.size();
  std::vector<double> adopted(layers, 0), settled(layers, 0);
  for (size_t p = 0; p < results[0].plays.size(); ++p) {
    const ReplayCounts &counts = results[0].plays[p].counts.cache;
    adopted[p % layers] += static_cast<double>(counts.adopted);
    settled[p % layers] += static_cast<double>(counts.adopted + counts.refuted);
  }
  std::vector<Variant> variants{{best, "no layer"}};
  for (double least : {0.3, 0.45, 0.6, 0.7, 0.8}) {
    PlanRecipe recipe = best;
    recipe.isSilent.assign(layers, false);
    size_t silent = 0;
    for (size_t l = 0; l < layers; ++l) {
      recipe.isSilent[l] = adopted[l] < least * settled[l];
      silent += recipe.isSilent[l];
    }
    if (silent > 0 && recipe.isSilent != variants.back().recipe.isSilent)
      variants.push_back({recipe, strCat(silent, " layers right less than ",
                                         std::lround(100 * least), "% of the time")});
  }
  decide("silence", variants);
}

//===-- The whole -----------------------------------------------------------------------------===//

SearchedPlan Search::run() {
  decideRules();
  simpler.push_back({best, decisions});
  decideStart();
  decideQuotas();
  decidePins();
  decideGuesses();
  if (best.guess.predictor != Predictor::kOff && decideRules()) {
    decideQuotas();
    refineGuesses();
  }
  return accept();
}

SearchedPlan Search::accept() {
  std::vector<PlannedSettings> finalists{{book.settingsOf(best), decisions}};
  // What the cache starts with is less than kSameTime on most traces; a preset may have it.
  PlanRecipe started = best;
  started.hasStart = true;
  if (started != best) {
    finalists.push_back({book.settingsOf(started), decisions});
    for (PlanDecision &made : finalists.back().decisions)
      if (made.decision == "start")
        made = {made.decision, kPopularStart,
                "hardly faster than an empty start, by which a preset had been ahead", origin};
  }
  for (size_t i = simpler.size(); i-- > 0;)
    finalists.push_back({book.settingsOf(simpler[i].recipe), simpler[i].decisions});
  const size_t firstRival = finalists.size();
  for (Preset preset : kRivals)
    finalists.push_back(planPreset(preset, problem));
  std::vector<PlanSettings> settings;
  for (const PlannedSettings &finalist : finalists)
    settings.push_back(finalist.settings);
  const std::vector<TimedResult> results = trials.replay(settings, SIZE_MAX);

  size_t rival = firstRival;
  double rivalRest = std::numeric_limits<double>::infinity();
  for (size_t i = firstRival; i < results.size(); ++i) {
    rival = results[i].meanNs() < results[rival].meanNs() ? i : rival;
    rivalRest = std::min(rivalRest, results[i].meanNs(parts.decodedSteps));
  }
  size_t taken = 0;
  while (taken < firstRival && (results[taken].meanNs() > results[rival].meanNs() ||
                                results[taken].meanNs(parts.decodedSteps) > rivalRest))
    ++taken;
  taken = taken == firstRival ? rival : taken;

  SearchedPlan plan;
  plan.planned = finalists[taken];
  for (size_t i = firstRival; i < results.size(); ++i)
    plan.presets.push_back({kRivals[i - firstRival], results[i].meanNs()});
  const std::string rivalName(presetName(kRivals[rival - firstRival]));
  plan.planned.decisions.push_back(
      {"settings",
       taken == 0           ? "searched"
       : taken < firstRival ? "simpler ones"
                            : rivalName,
       strCat(timeText(results[taken].meanNs()), " a token of the whole trace, ",
              timeText(results[taken].meanNs(parts.decodedSteps)), " on the ",
              parts.decoded - parts.decodedSteps, " tokens that nothing was decided on; ",
              rivalName, " ", timeText(results[rival].meanNs()), " and at best ",
              timeText(rivalRest)),
       origin});
  plan.forecast = forecastOf(problem, results[taken]);
  plan.replays = trials.replays();
  return plan;
}

} // namespace

Result<SearchedPlan> searchPlan(const PlanProblem &problem, const SearchOptions &options) {
  MOERT_RETURN_IF_ERROR(check(problem));
  if (std::ranges::none_of(problem.trace->plays,
                           [](const RoutingPlay &play) { return play.tokens == 1; }))
    return invalidInput("the trace has no decoded tokens to search a plan with");
  return Search(problem, options).run();
}

} // namespace moec
