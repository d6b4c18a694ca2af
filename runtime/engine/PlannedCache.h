// From an artifact's plans to a cache: which plan, and the cache as it says.
#pragma once

#include "runtime/cache/ExpertCache.h"
#include "runtime/engine/EngineImpl.h"
#include "runtime/memory/MemoryBudget.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// The plans that the options leave to choose from. Refused if there is none, with what there is.
Result<std::vector<uint32_t>> plansToChooseFrom(const Model &model, const EngineOptions &options);

/// Of these the largest that fits, or else the smallest, with its account. A plan fits where its
/// budget is within the one given, or its pages are within the pool that this leaves. nullopt: the
/// budget is below the smallest that works.
std::optional<MemoryAccount>
accountOfLargestPlan(const Artifact &artifact, std::span<const uint32_t> choice,
                     const ModelFootprint &footprint, const ProcessFootprint &process,
                     const RunRequest &request, const BudgetSize &budget);

/// The smallest budget that works with any of these plans.
uint64_t smallestBudget(const Artifact &artifact, std::span<const uint32_t> choice,
                        const ModelFootprint &footprint, const ProcessFootprint &process,
                        const RunRequest &request);

/// The configuration of a cache on a pool of so many pages, which may be another than the plan's;
/// its spans borrow `layers` and `cacheLayers`, which it fills in.
CacheConfig makeCacheConfig(const Model &model, const std::vector<MoeLayerTables> &layers,
                            const Plan &plan, uint64_t poolPages,
                            std::vector<CacheLayer> &cacheLayers);

/// What the cache starts with, at most.
uint64_t startBytesOf(const Artifact &artifact, const Plan &plan, uint64_t poolPages);

/// Pins in the order of the plan, of each layer the first ones; those that do not fit into this
/// cache are left out.
Status pinAsPlanned(const Plan &plan, ExpertCache &cache);

/// Reads what the cache starts with. `progress` hears the bytes so far.
Status fillAsPlanned(const Plan &plan, ExpertCache &cache,
                     const std::function<void(uint64_t done)> &progress);

/// Whether any layer is guessed by activation paths; the section is read for that alone.
bool usesPaths(const Plan &plan);

} // namespace moert
