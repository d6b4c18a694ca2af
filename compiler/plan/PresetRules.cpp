#include "compiler/plan/PresetRules.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <array>

using namespace moert;

namespace moec {

/// Promotions under way at a time, at most.
static constexpr uint64_t kMostExchanges = 4;

namespace {

/// Pages that prefetches may fill while the largest demand is read: the experts that one token asks
/// a layer for, but no more than a quarter of the pool, as a cache is worth more than prefetches.
uint64_t prefetchPagesOf(const CacheShape &shape, uint64_t poolPages) {
  uint64_t pages = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    pages = std::max(pages, layer.recordPages * std::min(layer.topK, layer.experts));
  const uint64_t record = std::max<uint64_t>(1, smallestPoolPages(shape));
  const uint64_t most = std::min(poolPages / 4, poolPages - smallestPoolPages(shape));
  return std::min(pages, most) / record * record;
}

/// Pages of experts that are read for an exchange while their predecessors are still used: as many
/// as tokens read, but at most a sixteenth of the pool, since each is missing from a layer.
uint64_t exchangePagesOf(const CacheShape &shape, uint64_t poolPages) {
  const uint64_t record = std::max<uint64_t>(1, smallestPoolPages(shape));
  const uint64_t records = std::clamp<uint64_t>(poolPages / 16 / record, 1, kMostExchanges);
  return std::min(records * record, poolPages / record * record);
}

uint32_t pages32(uint64_t pages) {
  return static_cast<uint32_t>(std::min<uint64_t>(pages, UINT32_MAX));
}

/// Everything but the staging pages, one record to each layer in turn. What makes no record stays
/// with the staging pages.
CacheAllotment allotVirtualExperts(const CacheShape &shape, uint64_t poolPages,
                                   uint64_t stagingPages) {
  CacheAllotment allotment;
  const uint64_t left = fillEvenly(shape, poolPages - stagingPages, allotment.quotaPages);
  allotment.stagingPages = pages32(stagingPages + left);
  return allotment;
}

CacheAllotment allotForExchanges(const CacheShape &shape, uint64_t poolPages) {
  return allotVirtualExperts(shape, poolPages, exchangePagesOf(shape, poolPages));
}

CacheAllotment allotForPruning(const CacheShape &shape, uint64_t poolPages) {
  return allotVirtualExperts(shape, poolPages, smallestPoolPages(shape));
}

CacheAllotment allotNothing(const CacheShape &shape, uint64_t poolPages) {
  uint64_t widest = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    widest = std::max(widest, layer.allPages);
  CacheAllotment allotment;
  allotment.stagingPages = pages32(std::min(poolPages, widest));
  allotment.quotaPages.assign(shape.layers.size(), 0);
  return allotment;
}

/// Fate, section 4.4: all experts of the first layers, an even part of the rest for each of the
/// others; a pool that does not hold the first layers fills them one after the other. It found 3 of
/// 24 layers to be worth that; an eighth of the layers is the same for other depths.
CacheAllotment allotShallowFirst(const CacheShape &shape, uint64_t poolPages) {
  const size_t shallow = (shape.layers.size() + 7) / 8;
  const CacheShape deep = {{shape.layers.begin() + ptrdiff_t(shallow), shape.layers.end()}};
  if (deep.layers.empty())
    return allotCache(shape, poolPages);
  uint64_t working = 0; // What every layer has to be able to hold during its turn.
  for (const CacheShape::Layer &layer : shape.layers)
    working = std::max(working, layer.workingPages);
  uint64_t left = poolPages, needed = 0;
  CacheAllotment allotment;
  for (size_t i = 0; i < shallow; ++i) {
    const CacheShape::Layer &layer = shape.layers[i];
    const uint64_t offered = left > working ? left - working : 0;
    const uint64_t quota =
        offered >= layer.allPages
            ? layer.allPages
            : offered / std::max<uint64_t>(1, layer.recordPages) * layer.recordPages;
    allotment.quotaPages.push_back(pages32(quota));
    left -= quota;
    needed += layer.allPages;
  }
  if (poolPages < needed + working) { // The first layers have taken what there is.
    allotment.stagingPages = pages32(left);
    allotment.quotaPages.resize(shape.layers.size(), 0);
    return allotment;
  }
  const CacheAllotment rest = allotCache(deep, left);
  allotment.stagingPages = rest.stagingPages;
  allotment.quotaPages.insert(allotment.quotaPages.end(), rest.quotaPages.begin(),
                              rest.quotaPages.end());
  return allotment;
}

/// By the numbers of Preset.
constexpr auto kPresets = std::to_array<PresetRow>({
    {.name = "auto", .evictionReason = "the best on most models; nothing was searched"},
    {.name = "load-on-demand",
     .rules = {.eviction = EvictionPolicy::kLru},
     .evictionReason = "nothing is kept that could be let go",
     .allot = allotNothing,
     .quotas = {"none", "by definition: nothing is kept between turns"}},
    {.name = "lru", .rules = {.eviction = EvictionPolicy::kLru}},
    {.name = "edgemoe",
     .rules = {.eviction = EvictionPolicy::kEdgeMoe, .sharing = CacheSharing::kOnePool},
     .evictionReason = "EdgeMoE III-C: uses by the layers until the expert's own comes",
     .quotas = {"one pool", "EdgeMoE III-C: one buffer of the budget's size"},
     .predictor = {.predictor = Predictor::kPaths, .ahead = 1},
     .predictorReason =
         "EdgeMoE, section III-C: the experts that followed those of the two layers before"},
    {.name = "fate",
     .rules = {.eviction = EvictionPolicy::kArc},
     .evictionReason = "Fate 4.4: adaptive replacement in each layer",
     .allot = allotShallowFirst,
     .quotas = {"shallow layers first",
                "Fate 4.4: the first eighth of the MoE layers whole, the rest evenly; the paper's "
                "model has 3 of 24"},
     .predictor = {.predictor = Predictor::kGate, .ahead = 1},
     .predictorReason = "Fate, section 4.3: the next layer's gate on this layer's input"},
    // Weights as they are without a trace to fit them on. The miss rule is that of section 3.2: 0.6
    // and 0.9 for Mixtral, so that 67% of the experts stay important.
    {.name = "hobbit",
     .rules = {.eviction = EvictionPolicy::kWeighted,
               .sharing = CacheSharing::kOnePool,
               .survival = PromptSurvival::kContents,
               .weights = {kFixedPointOne / 4, kFixedPointOne / 4, kFixedPointOne / 4,
                           kFixedPointOne / 4}},
     .evictionReason =
         "HOBBIT 3.4: a weighted sum of recency, two frequencies and the layers to come",
     .quotas = {"one pool", "HOBBIT 3.4: the experts of all layers compete for the cache"},
     .predictor = {.predictor = Predictor::kAdaptiveGate, .ahead = 1},
     .predictorReason = "HOBBIT, section 3.3: the next layer's gate on this layer's input",
     .miss = {.action = MissAction::kLower,
              .waitUpTo = (kFixedPointOne * 6 + 5) / 10,
              .skipBeyond = (kFixedPointOne * 9 + 5) / 10}},
    // The numbers of exchanges follow from the device.
    {.name = "swapmoe",
     .rules = {.eviction = EvictionPolicy::kImportance},
     .evictionReason = "SwapMoE 3.2: input norm, router's weight and expert norm, summed",
     .allot = allotForExchanges,
     .quotas = {"even", "the same number of virtual experts in each layer", Origin::kAssumed},
     .miss = {.action = MissAction::kMask},
     .usesVirtualExperts = true},
    // Everything that may stay is pinned.
    {.name = "pruning",
     .rules = {.eviction = EvictionPolicy::kLru},
     .allot = allotForPruning,
     .quotas = {"even", "the same number of virtual experts in each layer", Origin::kAssumed},
     .miss = {.action = MissAction::kMask},
     .usesVirtualExperts = true},
});

} // namespace

const PresetRow &presetRow(Preset preset) {
  return kPresets[static_cast<size_t>(preset)];
}

Result<Preset> presetOf(const std::string &name) {
  std::string names;
  for (size_t i = 0; i < kPresets.size(); ++i) {
    if (kPresets[i].name == name)
      return static_cast<Preset>(i);
    names += strCat(i == 0 ? "" : i + 1 < kPresets.size() ? ", " : " or ", kPresets[i].name);
  }
  return invalidInput("preset '", excerpt(name), "', expected ", names);
}

Result<Preset> exactPresetOf(const std::string &name) {
  MOERT_ASSIGN_OR_RETURN(const Preset preset, presetOf(name));
  if (missRuleOf(preset).isLossy())
    return invalidInput("preset ", name,
                        " loses accuracy on misses, and its loss is measured on an artifact: "
                        "compile with another preset, then moec replan OUT.moe --preset ",
                        name, " --reference REF.moe --eval-text F");
  return preset;
}

PrefetchRule withCounts(const PrefetchRule &rule, const PrefetchScope &scope,
                        std::optional<double> inTime) {
  if (rule.predictor == Predictor::kOff)
    return {};
  const bool isGate = usesGate(rule.predictor),
             isAdaptive = rule.predictor == Predictor::kAdaptiveGate;
  const uint64_t looked = isAdaptive ? scope.topK
                          : isGate   ? (scope.experts + 3) / 4
                                     : scope.experts;
  const uint64_t candidates = std::min<uint64_t>({looked, scope.named, UINT16_MAX});
  const auto all = static_cast<double>(scope.topK);
  const double asked = isAdaptive ? all : inTime.value_or(isGate ? all : 3);
  const double reads = isGate ? std::max(asked, 0.0) : std::clamp(asked, 1.0, 3.0);
  PrefetchRule counted = rule;
  counted.candidates = static_cast<uint16_t>(candidates);
  counted.reads = static_cast<uint16_t>(
      std::min({reads, static_cast<double>(candidates), static_cast<double>(scope.records)}));
  return counted.reads == 0 ? PrefetchRule{} : counted;
}

CacheAllotment allotFor(Preset preset, const CacheShape &shape, uint64_t poolPages,
                        bool isPrefetching) {
  const PresetRow &row = presetRow(preset);
  if (row.allot != allotNothing && poolPages >= largestPoolPages(shape))
    return allotCache(shape, poolPages);
  const bool prefetches = isPrefetching && row.predictor.predictor != Predictor::kOff;
  const uint64_t prefetchPages = prefetches ? prefetchPagesOf(shape, poolPages) : 0;
  CacheAllotment allotment = row.allot(shape, poolPages - prefetchPages);
  allotment.stagingPages = pages32(allotment.stagingPages + prefetchPages);
  return allotment;
}

} // namespace moec
