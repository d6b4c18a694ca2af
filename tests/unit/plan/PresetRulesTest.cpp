#include "compiler/plan/PresetRules.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

static const Preset kPresets[] = {Preset::kAuto,    Preset::kLoadOnDemand, Preset::kLru,
                                  Preset::kEdgeMoe, Preset::kFate,         Preset::kHobbit,
                                  Preset::kSwapMoe, Preset::kPruning};

/// Layers of 8 experts of 3 pages each, of which a token asks for 2.
static CacheShape shapeOf(size_t layers) {
  CacheShape shape;
  shape.layers.assign(layers, {8, 2, 3, 6, 24});
  return shape;
}

TEST_CASE("every preset is found by its name") {
  for (Preset preset : kPresets) {
    auto found = presetOf(std::string(presetName(preset)));
    REQUIRE(found.isOk());
    CHECK(*found == preset);
  }
}

TEST_CASE("other names are refused with those that are there") {
  for (const char *name : {"swap", "LRU", ""}) {
    Status status = presetOf(name).status();
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(
        status.message().find("expected auto, load-on-demand, lru, edgemoe, fate, hobbit, swapmoe "
                              "or pruning") != std::string::npos,
        status.message());
  }
}

TEST_CASE("presets that lose accuracy are refused where no loss can be measured") {
  for (Preset preset : kPresets) {
    const Result<Preset> exact = exactPresetOf(std::string(presetName(preset)));
    CHECK(exact.isOk() == !missRuleOf(preset).isLossy());
    CHECK(missRuleOf(preset).isLossy() ==
          (preset == Preset::kHobbit || usesVirtualExperts(preset)));
  }
  const Status refused = exactPresetOf("hobbit").status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("moec replan OUT.moe --preset hobbit") != std::string::npos);
  CHECK(missRuleText(missRuleOf(Preset::kHobbit)) == "lower:0.6:0.9");
}

TEST_CASE("no allotment takes more than the pool, gives a layer more than it has or starves one") {
  for (Preset preset : kPresets)
    for (size_t layers : {1, 2, 3, 8, 9, 16})
      for (uint64_t pool = 3; pool <= layers * 24 + 7; ++pool) {
        CAPTURE(presetName(preset));
        CAPTURE(layers);
        CAPTURE(pool);
        const CacheAllotment allotment = allotFor(preset, shapeOf(layers), pool);
        REQUIRE(allotment.quotaPages.size() == layers);
        CHECK(allotment.totalPages() <= pool);
        for (uint32_t quota : allotment.quotaPages) {
          CHECK(quota <= 24);
          CHECK(quota + allotment.stagingPages >= 3);
        }
      }
}

TEST_CASE("load-on-demand keeps nothing, however large the pool") {
  const CacheAllotment allotment = allotFor(Preset::kLoadOnDemand, shapeOf(4), 1000);
  CHECK(allotment.quotaPages == std::vector<uint32_t>{0, 0, 0, 0});
  CHECK(allotment.stagingPages == 24); // One layer's experts.
}

TEST_CASE("lru and auto have even quotas") {
  for (Preset preset : {Preset::kLru, Preset::kAuto})
    CHECK(allotFor(preset, shapeOf(4), 48).quotaPages == std::vector<uint32_t>{12, 12, 12, 12});
}

TEST_CASE("presets that prefetch keep room for a token's experts, never more than a quarter") {
  // 2 experts of 3 pages.
  CHECK(allotFor(Preset::kEdgeMoe, shapeOf(4), 54).stagingPages == 6);
  // A quarter of 18 pages is one record; 15 pages are left, of which a layer of 6 working pages
  // needs (6 * 4 - 15) / 3 = 3 in staging besides.
  CHECK(allotFor(Preset::kEdgeMoe, shapeOf(4), 18).stagingPages == 6);
  // All experts fit: nothing is prefetched.
  CHECK(allotFor(Preset::kEdgeMoe, shapeOf(4), 96).stagingPages == 0);
}

TEST_CASE("fate holds an eighth of the layers whole and shares the rest evenly") {
  // 6 pages are for prefetches, 2 layers take 48, 14 layers share 84.
  const CacheAllotment allotment = allotFor(Preset::kFate, shapeOf(16), 6 + 48 + 84);
  std::vector<uint32_t> expected(16, 6);
  expected[0] = expected[1] = 24;
  CHECK(allotment.quotaPages == expected);
  CHECK(allotment.stagingPages == 6);
}

TEST_CASE("fate fills the first layers one after the other where the pool is small") {
  // 6 pages are for prefetches, 6 for the layer being executed: 33 are one layer and three experts.
  const CacheAllotment allotment = allotFor(Preset::kFate, shapeOf(16), 6 + 6 + 33);
  std::vector<uint32_t> expected(16, 0);
  expected[0] = 24;
  expected[1] = 9;
  CHECK(allotment.quotaPages == expected);
  CHECK(allotment.stagingPages == 12);
}

TEST_CASE(
    "swapmoe keeps a sixteenth of the pool for exchanges, four records at most, pruning one") {
  CHECK(allotFor(Preset::kPruning, shapeOf(4), 51).quotaPages ==
        std::vector<uint32_t>{12, 12, 12, 12});
  CHECK(allotFor(Preset::kPruning, shapeOf(4), 51).stagingPages == 3);
  CHECK(allotFor(Preset::kSwapMoe, shapeOf(4), 51).stagingPages == 3);
  CHECK(allotFor(Preset::kSwapMoe, shapeOf(8), 102).stagingPages == 6);
  // 192 pages are 8 layers whole; 12 pages are four records, and what makes no record is with them.
  CHECK(allotFor(Preset::kSwapMoe, shapeOf(16), 12 + 16 * 12 + 2).stagingPages == 14);
  CHECK(allotFor(Preset::kSwapMoe, shapeOf(4), 96).stagingPages == 0);
}

TEST_CASE("prefetches are made by the presets of systems that prefetch") {
  for (Preset preset :
       {Preset::kAuto, Preset::kLoadOnDemand, Preset::kLru, Preset::kSwapMoe, Preset::kPruning})
    CHECK(predictorOf(preset) == PrefetchRule{});
  CHECK(predictorOf(Preset::kEdgeMoe).predictor == Predictor::kPaths);
  CHECK(predictorOf(Preset::kFate).predictor == Predictor::kGate);
  CHECK(predictorOf(Preset::kHobbit).predictor == Predictor::kAdaptiveGate);
}

TEST_CASE("each preset evicts as its system does") {
  CHECK(rulesOf(Preset::kLru) == CacheRules{.eviction = EvictionPolicy::kLru});
  CHECK(rulesOf(Preset::kFate) == CacheRules{.eviction = EvictionPolicy::kArc});
  CHECK(rulesOf(Preset::kEdgeMoe) ==
        CacheRules{.eviction = EvictionPolicy::kEdgeMoe, .sharing = CacheSharing::kOnePool});
  CHECK(rulesOf(Preset::kHobbit).eviction == EvictionPolicy::kWeighted);
  CHECK(rulesOf(Preset::kHobbit).sharing == CacheSharing::kOnePool);
  CHECK(rulesOf(Preset::kHobbit).survival == PromptSurvival::kContents);
  CHECK(rulesOf(Preset::kAuto) == CacheRules{.eviction = EvictionPolicy::kReuseDistance});
}

static const PrefetchRule kGate = {.predictor = Predictor::kGate};
static const PrefetchRule kPaths = {.predictor = Predictor::kPaths};

TEST_CASE("a gate's candidates are a quarter of the experts, its reads those that time allows") {
  const PrefetchRule rule = withCounts(kGate, {60, 4, 60}, 5.9);
  CHECK(rule.predictor == Predictor::kGate);
  CHECK(rule.candidates == 15);
  CHECK(rule.reads == 5);
  CHECK(withCounts(kGate, {60, 4, 60}, 1e9).reads == 15);
}

TEST_CASE("an adaptive gate looks at the experts of a token, and reads them whatever the time") {
  const PrefetchRule rule = withCounts({Predictor::kAdaptiveGate, 3}, {60, 4, 60}, 5.9);
  CHECK(rule == PrefetchRule{Predictor::kAdaptiveGate, 3, 4, 4, 0});
  CHECK(withCounts({Predictor::kAdaptiveGate, 3}, {60, 4, 60}, 0.1) == rule);
  CHECK(withCounts({Predictor::kAdaptiveGate, 3}, {60, 4, 60, 3}, 5.9).reads == 3);
  CHECK(withCounts({Predictor::kAdaptiveGate, 3}, {60, 4, 60, 0}, 5.9) == PrefetchRule{});
}

TEST_CASE("paths look at all that are named and read one to three of them") {
  const PrefetchScope scope = {60, 4, 8};
  CHECK(withCounts(kPaths, scope, 2.5) ==
        PrefetchRule{.predictor = Predictor::kPaths, .candidates = 8, .reads = 2});
  CHECK(withCounts(kPaths, scope, 50).reads == 3);
  CHECK(withCounts(kPaths, scope, 0.5).reads == 1);
}

TEST_CASE("no more are looked at or read than are named") {
  CHECK(withCounts(kGate, {60, 4, 8}, 50) ==
        PrefetchRule{.predictor = Predictor::kGate, .candidates = 8, .reads = 8});
  CHECK(withCounts(kPaths, {60, 4, 2}, 50).reads == 2);
  CHECK(withCounts(kPaths, {60, 4, 0}, 50) == PrefetchRule{});
}

TEST_CASE("without a device the papers' numbers count") {
  CHECK(withCounts(kGate, {60, 4, 60}, {}).reads == 4);
  CHECK(withCounts(kPaths, {60, 4, 8}, {}).reads == 3);
}

TEST_CASE(
    "where less than one read fits into a gate's time or into the pages, nothing is prefetched") {
  CHECK(withCounts(kGate, {60, 4, 60}, 0.99) == PrefetchRule{});
  CHECK(withCounts(kGate, {60, 4, 60, 0}, 5) == PrefetchRule{});
  CHECK(withCounts(kPaths, {60, 4, 8, 0}, 5) == PrefetchRule{});
  CHECK(withCounts(kGate, {60, 4, 60, 2}, 5).reads == 2);
  CHECK(withCounts({}, {60, 4, 60}, 5) == PrefetchRule{});
}
