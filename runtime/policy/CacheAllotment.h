// How a pool of pages is divided among the MoE layers. Pure arithmetic, used unchanged by the
// compiler's allot-cache pass and by the runtime when it is given another budget than the plan was
// made for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// What the cache has to hold, in pages. Records of a layer may differ in size, as experts may in
/// width.
struct CacheShape {
  struct Layer {
    uint32_t experts = 0;
    uint32_t topK = 0;         // Experts that the router chooses for one token.
    uint64_t recordPages = 0;  // The largest record.
    uint64_t workingPages = 0; // The largest kWorkingRecords, or topK if that is less.
    uint64_t allPages = 0;     // All records.
  };
  std::vector<Layer> layers;
};

/// A layer of records of these sizes, each in pages of its own. This is the rule: the compiler's
/// plans, their validation and the engine all count with it.
CacheShape::Layer cacheLayerOf(std::span<const uint64_t> recordBytes, uint32_t pageBytes,
                               uint32_t topK);

struct CacheAllotment {
  uint32_t stagingPages = 0;        // Borrowed by the layer that is being executed.
  std::vector<uint32_t> quotaPages; // Per layer: what it keeps between its passes.

  uint64_t totalPages() const;
  bool operator==(const CacheAllotment &) const = default;
};

/// Pages below which nothing can be executed: the largest record.
uint64_t smallestPoolPages(const CacheShape &shape);

/// Pages above which more does not help: every record.
uint64_t largestPoolPages(const CacheShape &shape);

/// Sets quotas: one record to each layer in turn until nothing fits, which is even, and exact about
/// the remainder. Returns the pages that are left.
uint64_t fillEvenly(const CacheShape &shape, uint64_t pages, std::vector<uint32_t> &quotaPages);

/// Divides poolPages (at least smallestPoolPages) evenly, in records of each layer's largest size;
/// no layer gets more than all its records take. A layer being executed can hold its quota and the
/// staging pages: together at least as many of its records as it needs to compute one while the
/// next ones are read (kWorkingRecords, or topK), as far as the pool allows.
CacheAllotment allotCache(const CacheShape &shape, uint64_t poolPages);

/// A plan's allotment for another pool (at least smallestPoolPages). The plan's own if the pools
/// differ by less than a record; quotas for every record if the pool holds them all. Otherwise the
/// quotas are scaled in proportion, in whole records, up to all records of a layer; the staging
/// pages are the plan's, scaled only for a smaller pool. Quota and staging pages of a layer
/// together hold as many of its working records as with the plan, as far as the pool allows. The
/// rest of the pool becomes staging pages. A plan that keeps nothing gets staging pages only.
CacheAllotment adjustAllotment(const CacheAllotment &plan, const CacheShape &shape,
                               uint64_t poolPages);

/// Records in flight or in use at a time that keep the disk busy while one is computed.
constexpr uint32_t kWorkingRecords = 4;

} // namespace moert
