// Chooses one of an artifact's plans and configures the expert cache for it.
#pragma once

#include "runtime/engine/ExpertStore.h"
#include "runtime/memory/MemoryBudget.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// The plans that match the options. An error, which lists the presets of the artifact, if none
/// does.
Result<std::vector<uint32_t>> plansToChooseFrom(const Model &model, const EngineOptions &options);

/// The account of the largest of these plans that fits, or else of the smallest. A plan fits if its
/// budget is within the given budget, or if its pages are within the pool that the given budget
/// leaves. With `appliesMissRules` a plan with a miss rule gets exactly the cache and the prefill
/// chunk that it plans, since its loss depends on them, and is left out if they do not fit.
/// nullopt: the budget is below the smallest that works.
std::optional<MemoryAccount>
accountOfLargestPlan(const Artifact &artifact, std::span<const uint32_t> choice,
                     const ModelFootprint &footprint, const ProcessFootprint &process,
                     const RunRequest &request, const BudgetSize &budget, bool appliesMissRules);

/// The account of the smallest budget that works with any of these plans.
MemoryAccount smallestPlanAccount(const Artifact &artifact, std::span<const uint32_t> choice,
                                  const ModelFootprint &footprint, const ProcessFootprint &process,
                                  const RunRequest &request, bool appliesMissRules);

/// The configuration of a cache with a pool of poolPages pages, which may differ from the plan's;
/// its spans borrow `layers` and `cacheLayers`, which it fills in.
CacheConfig makeCacheConfig(const Model &model, const std::vector<MoeLayerTables> &layers,
                            const Plan &plan, uint64_t poolPages,
                            std::vector<CacheLayer> &cacheLayers);

/// Upper bound of the bytes that the cache starts with.
uint64_t startBytesOf(const Artifact &artifact, const Plan &plan, uint64_t poolPages);

/// Pins the first experts of each layer's list in the order of the plan; leaves out those that do
/// not fit, for which `pin` returns kInvalidInput.
using PinExpert = std::function<Status(uint32_t layer, uint32_t expert)>;
Status pinAsPlanned(const Plan &plan, const PinExpert &pin);

/// Reads the experts that the cache starts with. `progress` is called with the bytes read so far.
Status fillAsPlanned(const Plan &plan, ExpertCache &cache,
                     const std::function<void(uint64_t done)> &progress);

/// Whether any of the plans has a miss rule.
bool losesWithAny(std::span<const Plan> plans);

/// Whether any of the plans has eviction by importance.
bool weighsWithAny(std::span<const Plan> plans);

/// Whether what a layer's cache holds depends on that layer's demands alone: quotas per layer, no
/// eviction by importance, which depends on inputs, and no prefetches, which a miss rule counts as
/// in memory.
bool isByLayers(const Plan &plan);

/// Whether any layer uses the activation-path table; its section is read only then.
bool usesPaths(const Plan &plan);

} // namespace moert
