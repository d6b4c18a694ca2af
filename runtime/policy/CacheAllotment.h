// How a pool of pages is shared among the MoE layers. Pure arithmetic, used unchanged by the
// compiler's allot-cache pass and by the runtime when it is given another budget than the plan was
// made for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// What the cache has to hold, in pages.
struct CacheShape {
  struct Layer {
    uint32_t experts = 0;
    uint32_t recordPages = 0; // Of the layer's largest record.
    uint32_t topK = 0;        // Experts that one token asks for.
  };
  std::vector<Layer> layers;
};

struct CacheAllotment {
  uint32_t transitPages = 0;        // Borrowed by the layer that is being played.
  std::vector<uint32_t> quotaPages; // Per layer: what it keeps between its turns.

  uint64_t totalPages() const;
};

/// Pages below which nothing can be played: the largest record.
uint64_t smallestPoolPages(const CacheShape &shape);

/// Pages above which more does not help: every record.
uint64_t largestPoolPages(const CacheShape &shape);

/// Shares poolPages (at least smallestPoolPages) evenly, in whole records, no layer getting more
/// than it has. A layer being played can hold its quota and the transit pages: together at least as
/// many of its records as it needs to compute one while the next ones are read (kWorkingRecords, or
/// topK), as far as the pool allows.
CacheAllotment allotCache(const CacheShape &shape, uint64_t poolPages);

/// Records in flight or in use at a time that keep the disk busy while one is computed.
constexpr uint32_t kWorkingRecords = 4;

} // namespace moert
