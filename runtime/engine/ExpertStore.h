// The experts of a model: where their records are, the cache that holds some of them, and what is
// read ahead.
#pragma once

#include "runtime/base/ThreadPool.h"
#include "runtime/engine/Engine.h"
#include "runtime/experts/ExpertCache.h"
#include "runtime/experts/PathTable.h"
#include "runtime/memory/Ledger.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace moert {

/// The matrices of experts with the same slices, as views without data: each one's offset in the
/// record, its layout, and the slices that refine it.
struct ExpertTemplate {
  std::vector<ExpertFormat> formats; // All slices of the record.
  size_t slices = 0;                 // So many of them, the first ones, or the separate copy's.
  std::vector<WeightView> matrices;  // bytes.offset: from the record's first byte.
};

struct MoeLayerTables {
  std::vector<std::vector<RecordSlice>> slices; // Per expert.
  std::vector<ExpertRecord> records;
  /// One per distinct list of slices; where experts are read in part, one for each number of them.
  std::vector<ExpertTemplate> templates;
  std::vector<uint32_t> templateOfExpert; // With all of its slices; that of fewer come before it.
  std::vector<uint16_t> planned;          // Per expert: its slices.

  uint32_t experts() const { return static_cast<uint32_t>(records.size()); }
  const ExpertTemplate &templateOf(uint32_t expert, uint16_t number) const {
    return templates[templateOfExpert[expert] - (planned[expert] - number)];
  }
};

/// The artifact's activation-path tables, and the section that they view.
struct LoadedPaths {
  std::vector<std::byte> section;
  std::optional<PathTable> table; // Set if a rule uses it.
};

struct ExpertStoreOptions {
  IoBackend io = IoBackend::kAuto;
  ReadQueueMaker readQueue = {}; // Empty: createReadQueue().
  bool areReadInPart = false;    // Some plan has a miss rule that applies.
  bool isExact = false;          // Every expert is waited for.
};

/// Borrows the model, the threads, which verify checksums, and the plan in use. Used by one thread.
class ExpertStore {
public:
  /// With the pool of the expert cache, but without a cache: call start() or startLayer().
  static Result<std::unique_ptr<ExpertStore>> create(const Model &model,
                                                     const ExpertStoreOptions &options,
                                                     ThreadPool &threads, ReservedRegion pool);

  /// Makes the cache of a plan anew, with its pins and the experts that it starts with; passes on
  /// the bytes read so far.
  Status start(const Plan &plan, const std::function<void(uint64_t done)> &progress);
  /// Makes a cache of one layer alone, which owns the whole pool, or none.
  Status startLayer(std::optional<uint32_t> moeLayer);

  const MoeLayerTables &layer(uint32_t moeLayer) const { return layers[moeLayer]; }
  ReadQueue &reads() { return *queue; }
  const ReadQueue &reads() const { return *queue; }
  ExpertCache &cache() { return *expertCache; }
  std::span<const std::byte> poolMemory() const { return pool.span(); }
  bool hasCache() const { return expertCache != nullptr; }
  /// The cache's number of a MoE layer.
  uint32_t cached(uint32_t moeLayer) const { return moeLayer - firstCachedLayer; }
  /// The plan's rule for a MoE layer; null: nothing is read ahead for any.
  const PrefetchRule *prefetchRule(uint32_t moeLayer) const {
    return prefetchRules.empty() ? nullptr : &prefetchRules[moeLayer];
  }
  /// Null where the plan does not use it.
  const PathTable *pathTable() const { return paths.table ? &*paths.table : nullptr; }

  // A change to another plan and pool, in steps that BudgetChange takes and takes back.

  /// The cache of a plan with so many pages, pinned as planned.
  Result<CacheReconfiguration> prepare(const Plan &plan, uint64_t poolPages) const;
  void apply(CacheReconfiguration &&next) noexcept { expertCache->apply(std::move(next)); }
  /// Registered memory is pinned: it could be neither given back nor moved.
  void unregisterPool();
  /// Reads go on without registration where the system has no memory for it.
  void registerPool(uint64_t bytes) noexcept;
  Status growPool(uint64_t bytes);
  /// Gives the pages beyond back and keeps their addresses.
  void releasePool(uint64_t bytes) { pool.release(bytes); }
  Status takeBackPool() { return pool.takeBack(); }
  void shrinkPool(uint64_t bytes) { (void)pool.resize(bytes); }
  Result<LoadedPaths> loadPaths() const;
  /// Nothing is predicted by them then.
  void dropPaths();
  void takePlan(const Plan &plan, std::optional<LoadedPaths> loaded) noexcept;

private:
  ExpertStore(const Model &openedModel, const ExpertStoreOptions &options, ThreadPool &verifiers,
              ReservedRegion memory)
      : model(openedModel), isExact(options.isExact), threads(verifiers), pool(std::move(memory)) {}
  /// Borrows `cacheLayers`, which it fills in.
  CacheConfig configOf(const Plan &plan, uint64_t poolPages,
                       std::vector<CacheLayer> &cacheLayers) const;

  const Model &model;
  const bool isExact;
  ThreadPool &threads;
  ReservedRegion pool;
  std::vector<MoeLayerTables> layers;
  std::vector<CacheLayer> cacheLayers;         // Borrowed by the cache, like `layers`.
  uint32_t firstCachedLayer = 0;               // The cache's layer 0 is this MoE layer.
  std::span<const PrefetchRule> prefetchRules; // Per MoE layer; empty: no prefetching.
  LoadedPaths paths;
  // The cache is destroyed before the queue that it reads with.
  std::unique_ptr<ReadQueue> queue;
  std::unique_ptr<ExpertCache> expertCache;
};

} // namespace moert
