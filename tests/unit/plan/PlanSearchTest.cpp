#include "compiler/plan/PlanSearch.h"

#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PlanTrials.h"
#include "compiler/plan/Presets.h"
#include "tests/unit/plan/PlanFixture.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <utility>

using namespace moec;

TEST_CASE("times have four significant digits, and more for whole milliseconds") {
  CHECK(timeText(12'345'678) == "12.35 ms");
  CHECK(timeText(123'456) == "0.1235 ms");
  CHECK(timeText(12'345'600'000) == "12346 ms");
}
using namespace moert;

/// Four layers of twelve experts of two pages, of which a token takes two; 30 records fit.
static PlanFixture someProblem(uint32_t seed, uint64_t poolPages = 60) {
  std::mt19937 random(seed);
  PlanFixture fixture(randomTrace(random, 4, 12, 2, stepsOfWindows(2, 60, 10, 5)), 2, poolPages,
                      8192);
  fixture.predictions = goodPrefetches(random, fixture.trace, 4);
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 3000;
  return fixture;
}

static PlanSettings settingsOf(const SearchedPlan &plan) {
  return plan.planned.settings;
}

TEST_CASE("no preset is faster than what the search finds, and the settings are verified") {
  for (uint32_t seed = 0; seed < 8; ++seed)
    for (uint64_t pool : {2, 9, 30, 60, 96, 200}) {
      CAPTURE(seed);
      CAPTURE(pool);
      PlanFixture fixture = someProblem(seed, pool);
      SearchedPlan plan = searchPlan(fixture.problem()).value();
      REQUIRE(verify(fixture.problem(), settingsOf(plan)).message() == "");
      TimedResult result = replayInTime(fixture.problem(), settingsOf(plan)).value();
      CHECK(result.meanNs() == plan.tokenNs);
      REQUIRE(plan.presets.size() == 4);
      for (const PresetTime &rival : plan.presets) {
        PlanSettings settings = planPreset(rival.preset, fixture.problem()).settings;
        CHECK(rival.tokenNs == replayInTime(fixture.problem(), settings).value().meanNs());
        const bool hasSafetyMargin =
            !settings.prefetches.empty() && settingsOf(plan).prefetches.empty();
        CHECK(plan.tokenNs <= rival.tokenNs * (1 + (hasSafetyMargin ? kMinPrefetchGain : 1e-9)));
      }
    }
}

TEST_CASE("what was found can be had again by its rule") {
  for (uint64_t pool : {9, 30, 60, 200}) {
    CAPTURE(pool);
    PlanFixture fixture = someProblem(4, pool);
    const PlanProblem problem = fixture.problem();
    const SearchedPlan plan = searchPlan(problem).value();
    const PlanSettings again = settingsBy(plan.rule, problem);
    CHECK(again.rules == settingsOf(plan).rules);
    CHECK(again.allotment.quotaPages == settingsOf(plan).allotment.quotaPages);
    CHECK(replayInTime(problem, again).value().meanNs() == plan.tokenNs);
  }
}

TEST_CASE("the same problem gives the same plan, whatever the number of threads") {
  PlanFixture fixture = someProblem(3);
  SearchedPlan one = searchPlan(fixture.problem(), {.threads = 1}).value();
  SearchedPlan three = searchPlan(fixture.problem(), {.threads = 3}).value();
  CHECK(settingsOf(one).allotment.quotaPages == settingsOf(three).allotment.quotaPages);
  CHECK(settingsOf(one).allotment.stagingPages == settingsOf(three).allotment.stagingPages);
  CHECK(settingsOf(one).rules == settingsOf(three).rules);
  CHECK(settingsOf(one).prefetches == settingsOf(three).prefetches);
  CHECK(settingsOf(one).start == settingsOf(three).start);
  CHECK(one.replays == three.replays);
  REQUIRE(one.planned.decisions.size() == three.planned.decisions.size());
  for (size_t i = 0; i < one.planned.decisions.size(); ++i)
    CHECK(one.planned.decisions[i].reason == three.planned.decisions[i].reason);
}

TEST_CASE("where nothing makes a difference the settings are the simplest") {
  // One expert of each layer all the time: everything keeps it.
  std::vector<uint16_t> chosen(300, 1);
  std::vector<LayerRoutes> layers(3, {4, 1, chosen});
  PlanFixture fixture(makeTrace(layers, std::vector<TraceStep>(300)).value(), 1, 9);
  fixture.costs.after.firstNs = 1e6;
  std::mt19937 random(1);
  fixture.predictions = goodPrefetches(random, fixture.trace, 2);
  PlanSettings settings = settingsOf(searchPlan(fixture.problem()).value());
  CHECK(settings.rules == CacheRules{.eviction = EvictionPolicy::kLru});
  CHECK(settings.allotment.quotaPages == std::vector<uint32_t>{3, 3, 3});
  CHECK(settings.pinned.empty());
  CHECK(settings.prefetches.empty());
}

/// Two layers, no habits: a token takes any expert, which the gate knows, or does not.
static PlanFixture withoutHabits(bool isKnown) {
  std::mt19937 random(7);
  std::vector<uint16_t> chosen;
  for (int token = 0; token < 400; ++token)
    chosen.push_back(static_cast<uint16_t>(random() % 16));
  std::vector<LayerRoutes> layers(2, {16, 1, chosen});
  PlanFixture fixture(makeTrace(layers, std::vector<TraceStep>(400)).value(), 1, 8);
  LayerPredictions made{Predictor::kGate, 1, 1, 1, {}};
  for (uint16_t expert : chosen)
    made.candidates.push_back(
        {isKnown ? expert : static_cast<uint32_t>(random() % 16), kFixedPointOne / 2});
  fixture.predictions = {made};
  fixture.costs.layers[1].before.firstNs = 5000;
  return fixture;
}

TEST_CASE("prefetches that come true are taken, others are not") {
  PlanFixture known = withoutHabits(true);
  SearchedPlan plan = searchPlan(known.problem()).value();
  REQUIRE(settingsOf(plan).prefetches.size() == 2);
  CHECK(settingsOf(plan).prefetches[0] == PrefetchRule());
  CHECK(settingsOf(plan).prefetches[1].predictor == Predictor::kGate);
  const Forecast forecast = forecastOf(known.problem(), settingsOf(plan)).value();
  CHECK(forecast.prefetchPrecision == 1);
  CHECK(forecast.prefetchRecall > 0.5);
  CHECK(forecast.readyRate > forecast.hitRate);
  PlanFixture unknown = withoutHabits(false);
  CHECK(settingsOf(searchPlan(unknown.problem()).value()).prefetches.empty());
}

TEST_CASE("prefetches that hardly gain anything are not made") {
  for (bool doPay : {false, true}) {
    PlanFixture fixture = withoutHabits(true);
    const double prefetched = searchPlan(fixture.problem()).value().tokenNs;
    fixture.predictions.clear();
    const double alone = searchPlan(fixture.problem()).value().tokenNs;
    REQUIRE(prefetched < alone);
    fixture.predictions = withoutHabits(true).predictions;
    fixture.costs.after.firstNs = (alone - prefetched) * (doPay ? 0.4 : 2) / kMinPrefetchGain;
    CHECK(settingsOf(searchPlan(fixture.problem()).value()).prefetches.empty() == !doPay);
  }
}

TEST_CASE("a policy that is nearly the best where it is decided, and better after it, is taken") {
  // The same habits over what is decided on, which counting uses suits; then others, which it is
  // the last to see.
  std::mt19937 random(5);
  std::vector<uint16_t> chosen;
  for (int token = 0; token < 600; ++token) {
    const uint32_t popular = std::min(random() % 16, random() % 16);
    chosen.push_back(static_cast<uint16_t>(token < 400 ? popular : 15 - popular));
  }
  PlanFixture fixture(
      makeTrace({{{16, 1, chosen}, {16, 1, chosen}}}, std::vector<TraceStep>(600)).value(), 1, 9);
  fixture.costs.after.firstNs = 60000;
  const PlanProblem problem = fixture.problem();
  PlanTrials trials(problem, 1);
  REQUIRE(trials.parts().decided == 400);
  const PlanSettings found = settingsOf(searchPlan(problem).value());
  PlanSettings counting = found, taken = found;
  counting.rules.eviction = EvictionPolicy::kLfu;
  const std::vector<double> decided = trials.measure(std::vector{counting, taken});
  CHECK(decided[0] < decided[1] * (1 - kSameTime));
  CHECK(found.rules.eviction != EvictionPolicy::kLfu);
  CHECK(replayInTime(problem, found).value().meanNs() <
        replayInTime(problem, counting).value().meanNs());
}

TEST_CASE("decisions ignore the faster rate into reused memory, forecasts use it") {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    PlanFixture fixture = someProblem(seed, 30);
    using Decision = std::tuple<std::string, uint32_t, double>; // Its name, replays, the best time.
    std::vector<Decision> decided;
    const SearchOptions options{.progress = [&](const SearchProgress &made) {
      decided.emplace_back(made.deciding, made.replays, made.tokenNs);
    }};
    const SearchedPlan alike = searchPlan(fixture.problem(), options).value();
    const std::vector<Decision> decidedAlike = std::exchange(decided, {});
    REQUIRE(decidedAlike.size() > 3);
    fixture.reads.reused = {{16384, {8, Origin::kMeasured}}};
    const SearchedPlan reused = searchPlan(fixture.problem(), options).value();
    CHECK(decided == decidedAlike);
    CHECK(settingsOf(reused) == settingsOf(alike));
    CHECK(reused.tokenNs == alike.tokenNs);
    CHECK(forecastOf(fixture.problem(), settingsOf(reused)).value().tokenNs < alike.tokenNs);
  }
}

TEST_CASE("a plan with one pool has no quotas of layers among its decisions") {
  int onePool = 0;
  for (uint32_t seed = 0; seed < 12; ++seed)
    for (uint64_t pool : {24, 30, 60}) {
      CAPTURE(seed);
      CAPTURE(pool);
      PlanFixture fixture = someProblem(seed, pool);
      const SearchedPlan plan = searchPlan(fixture.problem()).value();
      if (settingsOf(plan).rules.sharing != CacheSharing::kOnePool)
        continue;
      ++onePool;
      CHECK(std::ranges::none_of(plan.planned.decisions, [](const PlanReason &made) {
        return made.decision == "quotas" && made.value != "one pool";
      }));
    }
  CHECK(onePool > 0);
}

TEST_CASE("what is not taken in the end is said to be slower, or too little faster") {
  // A plan that prefetches nothing, and what is accepted of that and the same with prefetches.
  auto reasonOf = [](PlanFixture fixture, const PrefetchRule &prefetch) {
    const PlanProblem problem = fixture.problem();
    const SearchedPlan found = searchPlan(problem).value();
    REQUIRE(settingsOf(found).prefetches.empty());
    const Finalist without{found.rule.recipe.value(), {{"eviction", "some", "1 ms"}}};
    Finalist with = without;
    with.recipe.prefetch = prefetch;
    with.recipe.prefetchRecords = 1;
    with.decisions.push_back({"prefetches", "by gate", "2 ms"});
    with.decisions.push_back({kUnprefetchedLayers, "none", "2 ms"});
    PlanTrials trials(problem, 1);
    const SearchedPlan accepted = acceptPlan(problem, trials, std::vector{without, with}, 1);
    REQUIRE(settingsOf(accepted).prefetches.empty());
    std::string reason;
    for (const PlanReason &made : accepted.planned.decisions) {
      CHECK(made.decision != kUnprefetchedLayers);
      if (made.decision == "prefetches")
        reason = made.reason;
    }
    return reason;
  };
  PrefetchRule all{.predictor = Predictor::kGate, .candidates = 4, .reads = 4};
  const std::string slower = reasonOf(someProblem(2, 30), all);
  CHECK_MESSAGE(slower.starts_with("slower on the deciding part of the trace: by gate"), slower);
  CHECK(slower.find("have to gain") == std::string::npos);
  PlanFixture fixture = someProblem(0, 30);
  fixture.costs.after.firstNs = 1e6;
  PrefetchRule sure{.predictor = Predictor::kGate, .candidates = 1, .reads = 1};
  sure.minProbability = kFixedPointOne / 2;
  const std::string little = reasonOf(fixture, sure);
  CHECK_MESSAGE(little.starts_with("too little faster on the deciding part of the trace: by gate"),
                little);
  CHECK(little.ends_with("; prefetches have to gain 2%"));
}

TEST_CASE("where everything fits, no preset is taken for the rounding of its times") {
  PlanFixture fixture = someProblem(1, 200);
  fixture.costs.after.firstNs = 0.1;
  for (double ns : {1e5 / 3, 1e6 / 7, 1e5 * 0.7, 1e7 / 9}) {
    for (StepCosts::Layer &layer : fixture.costs.layers)
      layer.before.firstNs = layer.expert.firstNs = ns *= 1.1;
    const SearchedPlan plan = searchPlan(fixture.problem()).value();
    CHECK(plan.rule.preset == Preset::kAuto);
    CHECK(settingsOf(plan).prefetches.empty());
  }
}

TEST_CASE("every decision has a reason with times, and each is made once") {
  PlanFixture fixture = someProblem(5);
  SearchedPlan plan = searchPlan(fixture.problem()).value();
  std::vector<std::string> names;
  for (const PlanReason &decision : plan.planned.decisions) {
    CHECK(decision.value != "");
    CHECK_MESSAGE(decision.reason.find(" ms") != std::string::npos, decision.reason);
    CHECK(std::find(names.begin(), names.end(), decision.decision) == names.end());
    names.push_back(decision.decision);
  }
  for (const char *name : {"eviction", "start", "prefetches", "settings"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}

TEST_CASE("progress is told with ever better times") {
  PlanFixture fixture = someProblem(5);
  uint32_t calls = 0, replays = 0;
  SearchOptions options;
  options.progress = [&](const SearchProgress &progress) {
    ++calls;
    CHECK(progress.replays > replays);
    CHECK(progress.deciding != "");
    replays = progress.replays;
  };
  SearchedPlan plan = searchPlan(fixture.problem(), options).value();
  CHECK(calls > 4);
  CHECK(replays <= plan.replays);
}

TEST_CASE("a search that is stopped says so, at once or on the way") {
  PlanFixture fixture = someProblem(5);
  std::atomic<bool> stop = true;
  SearchOptions options{.stop = &stop};
  CHECK(searchPlan(fixture.problem(), options).status().code() == StatusCode::kInterrupted);
  stop = false;
  uint32_t replays = 0;
  options.progress = [&](const SearchProgress &progress) {
    replays = progress.replays;
    stop = true;
  };
  CHECK(searchPlan(fixture.problem(), options).status().code() == StatusCode::kInterrupted);
  stop = false;
  options.progress = {};
  CHECK(searchPlan(fixture.problem(), options).value().replays > replays);
}

TEST_CASE("settings that were measured are not replayed again, and give the same figures") {
  PlanFixture fixture = someProblem(5);
  const PlanProblem problem = fixture.problem();
  PlanTrials trials(problem, 2);
  std::vector<PlanSettings> settings;
  for (Preset preset : {Preset::kLru, Preset::kFate, Preset::kLru})
    settings.push_back(planPreset(preset, problem).settings);
  const std::vector<double> ns = trials.measure(settings);
  CHECK(trials.replays() == 2);
  CHECK(ns[0] == ns[2]);
  CHECK(ns[0] != ns[1]);
  CHECK(trials.measure(settings) == ns);
  CHECK(trials.replays() == 2);
  const std::vector<TimedResult> whole = trials.replayAll(settings);
  CHECK(trials.replays() == 4);
  CHECK(whole[0].tokenNs == whole[2].tokenNs);
  CHECK(whole[1].tokenNs == replayInTime(problem, settings[1]).value().tokenNs);
}

TEST_CASE("trials that are stopped replay nothing more") {
  PlanFixture fixture = someProblem(5);
  const PlanProblem problem = fixture.problem();
  std::atomic<bool> stop = false;
  PlanTrials trials(problem, 1, &stop);
  const PlanSettings settings = planPreset(Preset::kLru, problem).settings;
  CHECK(!trials.replayPasses(settings).passes.empty());
  CHECK(trials.replays() == 1);
  stop = true;
  CHECK(trials.replayPasses(settings).passes.empty());
  CHECK(trials.replays() == 1);
}

TEST_CASE("a search without decoded tokens, or of a problem that contradicts itself, is refused") {
  std::vector<uint16_t> chosen{0, 1};
  LayerRoutes layer{2, 1, chosen};
  std::vector<TraceStep> steps{{2, true}};
  PlanFixture fixture(makeTrace(std::span(&layer, 1), steps).value(), 1, 2);
  CHECK(searchPlan(fixture.problem()).status().message() ==
        "the trace has no decoded tokens to search a plan with");
  fixture.topK[0] = 3;
  CHECK(searchPlan(fixture.problem()).status().message() == "MoE layer 0 chooses 3 of 2 experts");
}

//===-- What it is made of --------------------------------------------------------------------===//

TEST_CASE("a recipe's start is what was popular, as far as each layer's quota holds") {
  PlanFixture fixture(tokensOf(4, 1, {3, 3, 1, 3, 1, 0}), 1, 2);
  PlanProblem problem = fixture.problem();
  RecipeBook book(problem, 5, 5); // The last token is not seen.
  PlanRecipe popular, pinned;
  popular.hasStart = true;
  pinned.pins = 1;
  PlanSettings settings = book.settingsOf(popular);
  CHECK(settings.start == std::vector<std::vector<uint32_t>>{{3, 1}});
  CHECK(settings.startUses == std::vector<std::vector<uint32_t>>{{3, 2}});
  CHECK(settings.startTokens == 5);
  settings = book.settingsOf(pinned);
  CHECK(settings.pinned == std::vector<std::vector<uint32_t>>{{3}});
}

TEST_CASE("a recipe prefetches every layer as far ahead as it can be, but silent ones") {
  PlanFixture fixture = someProblem(1);
  PlanProblem problem = fixture.problem();
  RecipeBook book(problem, 50, 50);
  PlanRecipe recipe;
  recipe.prefetch = {Predictor::kGate, 2, 9, 3, 5};
  recipe.isSilent = {false, false, true, false};
  std::vector<PrefetchRule> prefetches = book.settingsOf(recipe).prefetches;
  REQUIRE(prefetches.size() == 4);
  CHECK(prefetches[0] == PrefetchRule());
  CHECK(prefetches[1] == PrefetchRule{Predictor::kGate, 1, 4, 3, 5});
  CHECK(prefetches[2] == PrefetchRule());
  CHECK(prefetches[3] == PrefetchRule{Predictor::kGate, 2, 4, 3, 5});
}

TEST_CASE("quotas by curves go where they save bytes, in whole records within what there is") {
  // The first layer takes one of two experts, the second one of eight in turn.
  std::vector<uint16_t> few, many;
  for (uint16_t token = 0; token < 160; ++token) {
    few.push_back(token % 2);
    many.push_back(token % 8);
  }
  std::vector<LayerRoutes> layers{{12, 1, few}, {12, 1, many}};
  PlanFixture fixture(makeTrace(layers, std::vector<TraceStep>(160)).value(), 1, 40, 8192);
  std::vector<QuotaCurve> curves =
      quotaCurves(fixture.problem(), {EvictionPolicy::kLru, {}, 2}, SIZE_MAX, 2);
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].pages.front() == 0);
  CHECK(curves[0].bytes.front() == 160 * 8192);
  CHECK(curves[0].pages.back() == 24);
  CHECK(curves[0].bytes.back() == 2 * 8192);
  CHECK(curves[1].bytes.back() == 8 * 8192);
  CacheShape shape = shapeOf(fixture.problem());
  CHECK(quotasOfCurves(shape, curves, 2, 20) == std::vector<uint32_t>{4, 16});
  CHECK(quotasOfCurves(shape, curves, 2, 21) == std::vector<uint32_t>{4, 16});
  CHECK(quotasOfCurves(shape, curves, 2, 5) == std::vector<uint32_t>{2, 2});
  CHECK(quotasOfCurves(shape, curves, 2, 100) == std::vector<uint32_t>{24, 24});
}

TEST_CASE("a forecast is a replay's figures per decoded token, beside what cannot be beaten") {
  // 0 is kept; 1 and 2 pass through a page each time.
  PlanFixture fixture(tokensOf(3, 2, {0, 1, 0, 2, 0, 1}), 2, 2);
  PlanSettings settings = quotasOf({1}, 1);
  TimedResult result = replayInTime(fixture.problem(), settings).value();
  Forecast forecast = forecastOf(fixture.problem(), settings).value();
  CHECK(forecast.tokens == 3);
  CHECK(forecast.traceTokens == 3);
  CHECK(forecast.tokenNs == result.meanNs());
  CHECK(forecast.hitRate == doctest::Approx(2.0 / 6));
  CHECK(forecast.bytesPerToken == doctest::Approx(4 * 4096 / 3.0));
  // With two pages 0 and 1 would stay: three reads.
  CHECK(forecast.leastBytesPerToken == doctest::Approx(4096));
  CHECK(computeNsPerToken(fixture.problem()) == doctest::Approx(100 + 2 * 50 + 30));
  CHECK(forecast.boundNs == doctest::Approx(4096));
  CHECK(forecast.boundNs <= forecast.tokenNs);
  // Memory may be read into faster than what the table is of: no run is to beat the bound.
  fixture.reads.reused = {{4096, {2, Origin::kMeasured}}};
  CHECK(forecastOf(fixture.problem(), settings).value().boundNs == doctest::Approx(2048));
  fixture.reads.reused[0].factor.origin = Origin::kAssumed;
  CHECK(forecastOf(fixture.problem(), settings).value().origin == Origin::kAssumed);
  fixture.reads.reused.clear();
  fixture.reads.bytesPerSecond[0].value = 1e12;
  CHECK(forecastOf(fixture.problem(), settings).value().boundNs == doctest::Approx(230));
}

TEST_CASE("the bound of a plan that starts with an expert starts with it, too, and with no other") {
  PlanFixture fixture(tokensOf(3, 2, {0, 1, 0, 2, 0, 1}), 2, 3);
  PlanSettings settings = quotasOf({2}, 1);
  settings.start = {{0}};
  settings.startUses = {{1}};
  // 1 and 2 are read; with three pages both stay.
  CHECK(forecastOf(fixture.problem(), settings).value().leastBytesPerToken ==
        doctest::Approx(2 * 4096 / 3.0));
}

TEST_CASE("steps before the forecast fill the cache and are in no figure") {
  // The first two tokens bring 0 and 1, which stay; then 2 is missing, and 1 is there.
  PlanFixture fixture(tokensOf(3, 2, {0, 1, 0, 1, 0, 2, 0, 1}), 2, 3);
  const PlanSettings settings = quotasOf({2}, 1);
  const Forecast forecast = forecastOf(fixture.problem(), settings, 2).value();
  CHECK(forecast.tokens == 2);
  CHECK(forecast.traceTokens == 4);
  CHECK(forecast.hitRate == doctest::Approx(2.0 / 4)); // LRU gives 1 up for 2.
  CHECK(forecast.bytesPerToken == doctest::Approx(4096));
  CHECK(forecast.leastBytesPerToken == doctest::Approx(4096 / 2.0)); // 2 passes.
  const TimedResult whole = replayInTime(fixture.problem(), settings).value();
  CHECK(forecast.tokenNs == doctest::Approx(whole.meanNs(2, 4)));
}
