#include "runtime/policy/CacheAllotment.h"

#include <algorithm>
#include <numeric>

namespace moert {

uint64_t CacheAllotment::totalPages() const {
  return std::accumulate(quotaPages.begin(), quotaPages.end(), uint64_t(transitPages));
}

uint64_t smallestPoolPages(const CacheShape &shape) {
  uint64_t pages = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    pages = std::max<uint64_t>(pages, layer.recordPages);
  return pages;
}

// 65536 experts of 256 MiB are 2^32 of the smallest pages.
static uint64_t allPagesOf(const CacheShape::Layer &layer) {
  return uint64_t(layer.experts) * layer.recordPages;
}

uint64_t largestPoolPages(const CacheShape &shape) {
  uint64_t pages = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    pages += allPagesOf(layer);
  return pages;
}

// With t transit pages each of n layers keeps (P - t) / n, and t + (P - t) / n >= W has to hold;
// solved for the smallest t.
static uint64_t transitFor(const CacheShape &shape, uint64_t poolPages) {
  uint64_t working = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    working = std::max<uint64_t>(working, uint64_t(std::min(layer.topK, kWorkingRecords)) *
                                              layer.recordPages);
  uint64_t layers = shape.layers.size();
  if (poolPages >= working * layers || layers < 2)
    return 0;
  uint64_t transit = (working * layers - poolPages + layers - 2) / (layers - 1);
  // In whole records, so that the quotas lose nothing to rounding; never more than there is.
  uint64_t record = smallestPoolPages(shape);
  return std::min(poolPages / record, (transit + record - 1) / record) * record;
}

CacheAllotment allotCache(const CacheShape &shape, uint64_t poolPages) {
  CacheAllotment allotment;
  allotment.quotaPages.assign(shape.layers.size(), 0);
  if (poolPages >= largestPoolPages(shape)) {
    for (size_t i = 0; i < shape.layers.size(); ++i)
      allotment.quotaPages[i] =
          static_cast<uint32_t>(std::min<uint64_t>(allPagesOf(shape.layers[i]), UINT32_MAX));
    return allotment;
  }
  allotment.transitPages = static_cast<uint32_t>(transitFor(shape, poolPages));
  uint64_t left = poolPages - allotment.transitPages;
  // One record to each layer in turn until nothing fits: even, and exact about the remainder.
  for (bool placed = true; placed;) {
    placed = false;
    for (size_t i = 0; i < shape.layers.size(); ++i) {
      const CacheShape::Layer &layer = shape.layers[i];
      bool isFull = allotment.quotaPages[i] >= allPagesOf(layer);
      if (isFull || layer.recordPages > left)
        continue;
      allotment.quotaPages[i] += layer.recordPages;
      left -= layer.recordPages;
      placed = true;
    }
  }
  return allotment;
}

} // namespace moert
