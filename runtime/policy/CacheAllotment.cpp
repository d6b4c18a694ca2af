#include "runtime/policy/CacheAllotment.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace moert {

uint64_t CacheAllotment::totalPages() const {
  return std::accumulate(quotaPages.begin(), quotaPages.end(), uint64_t(transitPages));
}

CacheShape::Layer cacheLayerOf(std::span<const uint64_t> recordBytes, uint32_t pageBytes,
                               uint32_t topK) {
  CacheShape::Layer layer;
  layer.experts = static_cast<uint32_t>(recordBytes.size());
  layer.topK = topK;
  std::vector<uint64_t> pages;
  for (uint64_t bytes : recordBytes)
    pages.push_back(divideUp(bytes, pageBytes));
  layer.allPages = std::accumulate(pages.begin(), pages.end(), uint64_t(0));
  std::sort(pages.begin(), pages.end(), std::greater<>());
  layer.recordPages = pages.empty() ? 0 : pages.front();
  size_t working = std::min<size_t>({topK, kWorkingRecords, pages.size()});
  layer.workingPages =
      std::accumulate(pages.begin(), pages.begin() + ptrdiff_t(working), uint64_t(0));
  return layer;
}

uint64_t smallestPoolPages(const CacheShape &shape) {
  uint64_t pages = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    pages = std::max(pages, layer.recordPages);
  return pages;
}

uint64_t largestPoolPages(const CacheShape &shape) {
  uint64_t pages = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    pages += layer.allPages;
  return pages;
}

// With t transit pages each of n layers keeps (P - t) / n, and t + (P - t) / n >= W has to hold;
// solved for the smallest t.
static uint64_t transitFor(const CacheShape &shape, uint64_t poolPages) {
  uint64_t working = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    working = std::max(working, layer.workingPages);
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
          static_cast<uint32_t>(std::min<uint64_t>(shape.layers[i].allPages, UINT32_MAX));
    return allotment;
  }
  allotment.transitPages = static_cast<uint32_t>(transitFor(shape, poolPages));
  uint64_t left = poolPages - allotment.transitPages;
  // One record to each layer in turn until nothing fits: even, and exact about the remainder.
  for (bool placed = true; placed;) {
    placed = false;
    for (size_t i = 0; i < shape.layers.size(); ++i) {
      const CacheShape::Layer &layer = shape.layers[i];
      // The last one may be smaller than the largest record: the layer then has all of its pages.
      uint64_t pages = std::min(layer.recordPages, layer.allPages - allotment.quotaPages[i]);
      if (pages == 0 || pages > left)
        continue;
      allotment.quotaPages[i] += static_cast<uint32_t>(pages);
      left -= pages;
      placed = true;
    }
  }
  return allotment;
}

} // namespace moert
