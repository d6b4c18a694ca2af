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
    uint32_t topK = 0;         // Experts that one token asks for.
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
  std::vector<uint32_t> quotaPages; // Per layer: what it keeps between its turns.

  uint64_t totalPages() const;
  friend bool operator==(const CacheAllotment &, const CacheAllotment &) = default;
};

/// Pages below which nothing can be executed: the largest record.
uint64_t smallestPoolPages(const CacheShape &shape);

/// Pages above which more does not help: every record.
uint64_t largestPoolPages(const CacheShape &shape);

/// Shares poolPages (at least smallestPoolPages) evenly, in records of each layer's largest size,
/// no layer getting more than it has. A layer being executed can hold its quota and the staging
/// pages: together at least as many of its records as it needs to compute one while the next ones
/// are read (kWorkingRecords, or topK), as far as the pool allows.
CacheAllotment allotCache(const CacheShape &shape, uint64_t poolPages);

/// A plan's allotment for another pool (at least smallestPoolPages). Exactly the plan's where the
/// pool is the plan's, up to pages that make no record; every record where the pool holds them all.
/// Otherwise the quotas in proportion, in records, no layer getting more than it has, and the
/// plan's staging pages, fewer only in proportion to a smaller pool. Every layer can hold its
/// quota and the staging pages: of its working records as many as with the plan, as far as the pool
/// allows. The rest of the pool goes to the staging pages; so does all of it where the plan keeps
/// nothing.
CacheAllotment adjustAllotment(const CacheAllotment &plan, const CacheShape &shape,
                               uint64_t poolPages);

/// Records in flight or in use at a time that keep the disk busy while one is computed.
constexpr uint32_t kWorkingRecords = 4;

} // namespace moert
