#include "compiler/plan/PresetPrefetches.h"
#include "compiler/plan/PlanReasons.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

constexpr Origin kMeasured = Origin::kMeasured;

/// A router, an expert and the read of one expert take 1 ms each.
DeviceProfile roundDevice(double readBytesPerSecond = 12288e3) {
  DeviceProfile device;
  device.name = "round numbers";
  device.cores = 1;
  for (auto [weights, perSecond] : {std::pair("f32", 1.024e6), std::pair("int4", 18.432e6)})
    device.products.push_back({weights, 1, 1, {1e12, kMeasured}, {perSecond, kMeasured}});
  device.memoryBytesPerSecond.oneThread = {1e12, kMeasured};
  device.directReads = {{4096}, {1}, {{readBytesPerSecond, kMeasured}}};
  return device;
}

/// Four MoE layers of 16 experts of 3 pages, of which a token uses two. The dense network before
/// the third one's router takes 18 ms. Predictions cost nothing: their products are unknown.
ModelFacts fourLayers() {
  ModelFacts facts;
  facts.footprint.pageBytes = 4096;
  const StoredMatrix router{"f32", 16, 64};
  for (uint32_t layer = 0; layer < 4; ++layer) {
    facts.recordBytes.emplace_back(16, 12288);
    facts.topK.push_back(2);
    facts.isPredicted.push_back({layer >= 1, layer >= 2, layer >= 3});
    facts.footprint.cache.layers.push_back(
        cacheLayerOf(facts.recordBytes.back(), facts.footprint.pageBytes, 2));
    if (layer == 2)
      facts.decode.push_back(ProductsStep{{{"f32", 96, 64}, {"f32", 96, 64}, {"f32", 64, 96}}});
    facts.decode.push_back(ProductsStep{{router}});
    facts.decode.push_back(RouteStep{});
    facts.decode.push_back(
        ExpertsStep{layer, 64, 96, std::vector<StoredExpert>(16, {{"int4", "int4"}, 11648, 1})});
  }
  return facts;
}

BudgetPlan budgetOf(Preset preset, uint32_t stagingPages) {
  BudgetPlan budget;
  budget.preset = preset;
  budget.contextTokens = 512;
  budget.allotment = {stagingPages, {6, 6, 6, 48}};
  return budget;
}

struct Planned {
  PresetPrefetches prefetches;
  std::vector<PlanReason> reasons;
  const PlanReason &last(size_t fromEnd = 0) const { return reasons[reasons.size() - 1 - fromEnd]; }
};

Planned planned(Preset preset, uint32_t stagingPages, const DeviceProfile *device,
                bool hasPaths = true) {
  PlannedUse use;
  use.threads = 1;
  use.hasPaths = hasPaths;
  Planned made;
  made.prefetches = presetPrefetches(fourLayers(), budgetOf(preset, stagingPages), use, device);
  made.reasons = reasonsOf(preset, made.prefetches, device ? device->name : "");
  return made;
}

void checkLayer(const DecidedPrefetch &layer, uint32_t candidates, uint32_t reads) {
  CHECK(layer.limit == PrefetchLimit::kNone);
  CHECK(layer.rule.candidates == candidates);
  CHECK(layer.rule.reads == reads);
}

} // namespace

// Layer 1: experts of layer 0 and its own router are (2 + 1) / 1 = 3 reads. Layer 2: also a dense
// network, (2 + 18 + 1) / 1 = 21 reads. Layer 3 has pages for all of its experts. 12 staging pages
// hold 4 records; a gate has a quarter of the experts as candidates.
TEST_CASE(
    "a gate reads as many experts as the time until the layer's router and the staging allow") {
  const DeviceProfile device = roundDevice();
  const Planned made = planned(Preset::kFate, 12, &device);
  REQUIRE(made.prefetches.layers.size() == 4);
  CHECK(made.prefetches.layers[0].limit == PrefetchLimit::kNoPrediction);
  checkLayer(made.prefetches.layers[1], 4, 3);
  checkLayer(made.prefetches.layers[2], 4, 4);
  CHECK(made.prefetches.layers[3].limit == PrefetchLimit::kAllResident);
  CHECK(made.last(3).decision == "prefetch of MoE layer 0");
  CHECK(made.last(3).reason == "no earlier layer can predict it");
  CHECK(made.last(2).value == "3 of 4 likeliest");
  CHECK(made.last(2).reason ==
        "3.0 reads take as long as experts, attention and router on round numbers");
  CHECK(made.last(1).reason ==
        "21.0 reads take as long as experts, attention and router on round numbers");
  CHECK(made.last().value == "off");
  CHECK(made.last().reason == "all experts stay in memory");
}

TEST_CASE("an activation-path table has twice a token's experts as candidates and reads up to 3") {
  const DeviceProfile device = roundDevice();
  const Planned made = planned(Preset::kEdgeMoe, 12, &device);
  checkLayer(made.prefetches.layers[1], 4, 3);
  checkLayer(made.prefetches.layers[2], 4, 3);
}

TEST_CASE("no more experts are prefetched than the staging pages hold") {
  const DeviceProfile device = roundDevice();
  checkLayer(planned(Preset::kFate, 5, &device).prefetches.layers[1], 4, 1);
  const Planned none = planned(Preset::kFate, 2, &device);
  CHECK(none.prefetches.layers[1].limit == PrefetchLimit::kNoStaging);
  CHECK(none.last(1).decision == "prefetch of MoE layers 1-2");
  CHECK(none.last(1).reason ==
        "the staging pages do not hold another expert; 3.0 to 21.0 reads take as long as experts, "
        "attention and router on round numbers");
}

// A read takes 3.1 ms: 3 ms hold none, 21 ms hold 6.8.
TEST_CASE("a gate prefetches nothing where one read takes too long, a table one expert") {
  const DeviceProfile slow = roundDevice(12288e3 / 3.1);
  const Planned gate = planned(Preset::kFate, 12, &slow);
  CHECK(gate.prefetches.layers[1].limit == PrefetchLimit::kNoTime);
  checkLayer(gate.prefetches.layers[2], 4, 4);
  CHECK(gate.last(2).reason.starts_with(
      "reading an expert takes longer than computing until its router runs; 1.0 reads"));
  checkLayer(planned(Preset::kEdgeMoe, 12, &slow).prefetches.layers[1], 4, 1);
}

TEST_CASE("without a device the numbers of the preset's paper are assumed") {
  const Planned gate = planned(Preset::kFate, 12, nullptr);
  checkLayer(gate.prefetches.layers[1], 4, 2); // As many as a token uses.
  CHECK(gate.last(1).decision == "prefetch of MoE layers 1-2");
  CHECK(gate.last(1).reason == "no device was given: as many as the predictor's paper reads");
  CHECK(gate.last(1).origin == Origin::kAssumed);
  checkLayer(planned(Preset::kEdgeMoe, 12, nullptr).prefetches.layers[1], 4, 3);
}

TEST_CASE("a plan without a predictor has no rules, with the reason") {
  const Planned table = planned(Preset::kEdgeMoe, 12, nullptr, /*hasPaths=*/false);
  CHECK(table.prefetches.limit == PrefetchLimit::kNoTable);
  CHECK(table.prefetches.layers.empty());
  CHECK(table.last().decision == "prefetches");
  CHECK(table.last().reason.starts_with("there is no activation-path table"));
  for (Preset preset : {Preset::kAuto, Preset::kLru, Preset::kLoadOnDemand}) {
    const Planned none = planned(preset, 12, nullptr);
    CHECK(none.prefetches.limit == PrefetchLimit::kNoPreset);
    CHECK(none.prefetches.layers.empty());
    CHECK(none.last().value == "none");
  }
}
