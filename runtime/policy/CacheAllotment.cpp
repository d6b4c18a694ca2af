#include "runtime/policy/CacheAllotment.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace moert {

uint64_t CacheAllotment::totalPages() const {
  return std::accumulate(quotaPages.begin(), quotaPages.end(), uint64_t(stagingPages));
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

// With t staging pages each of n layers keeps (P - t) / n, and t + (P - t) / n >= W has to hold;
// solved for the smallest t.
static uint64_t stagingFor(const CacheShape &shape, uint64_t poolPages) {
  uint64_t working = 0;
  for (const CacheShape::Layer &layer : shape.layers)
    working = std::max(working, layer.workingPages);
  uint64_t layers = shape.layers.size();
  if (poolPages >= working * layers || layers < 2)
    return 0;
  uint64_t staging = (working * layers - poolPages + layers - 2) / (layers - 1);
  // In whole records, so that the quotas lose nothing to rounding; never more than there is.
  uint64_t record = smallestPoolPages(shape);
  return std::min(poolPages / record, (staging + record - 1) / record) * record;
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
  allotment.stagingPages = static_cast<uint32_t>(stagingFor(shape, poolPages));
  uint64_t left = poolPages - allotment.stagingPages;
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

// What a layer that is executed has to have room for.
static uint64_t pagesNeeded(const CacheShape::Layer &layer, uint64_t plannedPages) {
  return std::max(layer.recordPages, std::min(layer.workingPages, plannedPages));
}

static bool isEnough(const CacheAllotment &allotment, const CacheAllotment &plan,
                     const CacheShape &shape) {
  for (size_t i = 0; i < shape.layers.size(); ++i)
    if (uint64_t(allotment.quotaPages[i]) + allotment.stagingPages <
        pagesNeeded(shape.layers[i], uint64_t(plan.quotaPages[i]) + plan.stagingPages))
      return false;
  return true;
}

// Record by record to the layer that is furthest behind its part of the plan; layers without a part
// come last, the emptiest first.
static CacheAllotment allotAsPlanned(const CacheAllotment &plan, const CacheShape &shape,
                                     uint64_t poolPages, uint64_t stagingPages) {
  CacheAllotment allotment;
  allotment.quotaPages.assign(shape.layers.size(), 0);
  uint64_t left = poolPages - stagingPages;
  while (true) {
    size_t next = shape.layers.size();
    uint64_t nextPages = 0;
    auto isBehind = [&](uint64_t pages, size_t i) {
      uint64_t quota = allotment.quotaPages[i] + pages;
      uint64_t nextQuota = allotment.quotaPages[next] + nextPages;
      uint64_t part = plan.quotaPages[i], nextPart = plan.quotaPages[next];
      if (part == 0 || nextPart == 0)
        return part != nextPart ? part > nextPart : quota < nextQuota;
      return quota * nextPart < nextQuota * part;
    };
    for (size_t i = 0; i < shape.layers.size(); ++i) {
      const CacheShape::Layer &layer = shape.layers[i];
      uint64_t pages = std::min(layer.recordPages, layer.allPages - allotment.quotaPages[i]);
      if (pages == 0 || pages > left || (next < shape.layers.size() && !isBehind(pages, i)))
        continue;
      next = i;
      nextPages = pages;
    }
    if (next == shape.layers.size())
      break;
    allotment.quotaPages[next] += static_cast<uint32_t>(nextPages);
    left -= nextPages;
  }
  allotment.stagingPages = static_cast<uint32_t>(stagingPages + left);
  return allotment;
}

CacheAllotment adjustAllotment(const CacheAllotment &plan, const CacheShape &shape,
                               uint64_t poolPages) {
  uint64_t plannedPages = plan.totalPages(), record = smallestPoolPages(shape);
  if (plannedPages <= poolPages && poolPages - plannedPages < record)
    return plan;
  if (plannedPages == plan.stagingPages)
    return {static_cast<uint32_t>(std::min<uint64_t>(poolPages, UINT32_MAX)), plan.quotaPages};
  if (poolPages >= largestPoolPages(shape))
    return allotCache(shape, poolPages);
  uint64_t staging = plan.stagingPages;
  if (poolPages < plannedPages)
    staging = divideUp(staging * poolPages / plannedPages, record) * record;
  while (true) {
    staging = std::min(staging, poolPages);
    CacheAllotment allotment = allotAsPlanned(plan, shape, poolPages, staging);
    if (staging == poolPages || isEnough(allotment, plan, shape))
      return allotment;
    staging += record;
  }
}

} // namespace moert
