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

uint64_t fillEvenly(const CacheShape &shape, uint64_t pages, std::vector<uint32_t> &quotaPages) {
  quotaPages.assign(shape.layers.size(), 0);
  for (bool placed = true; placed;) {
    placed = false;
    for (size_t i = 0; i < shape.layers.size(); ++i) {
      const CacheShape::Layer &layer = shape.layers[i];
      // The last one may be smaller than the largest record: the layer then has all of its pages.
      const uint64_t next = std::min(layer.recordPages, layer.allPages - quotaPages[i]);
      if (next == 0 || next > pages)
        continue;
      quotaPages[i] += static_cast<uint32_t>(next);
      pages -= next;
      placed = true;
    }
  }
  return pages;
}

CacheAllotment allotCache(const CacheShape &shape, uint64_t poolPages) {
  CacheAllotment allotment;
  if (poolPages >= largestPoolPages(shape)) {
    for (const CacheShape::Layer &layer : shape.layers)
      allotment.quotaPages.push_back(
          static_cast<uint32_t>(std::min<uint64_t>(layer.allPages, UINT32_MAX)));
    return allotment;
  }
  allotment.stagingPages = static_cast<uint32_t>(stagingFor(shape, poolPages));
  (void)fillEvenly(shape, poolPages - allotment.stagingPages, allotment.quotaPages);
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
// come last, the emptiest first. Of equal layers the first one takes it.
static CacheAllotment allotAsPlanned(const CacheAllotment &plan, const CacheShape &shape,
                                     uint64_t poolPages, uint64_t stagingPages) {
  struct Waiting {
    size_t layer = 0;
    uint64_t pages = 0, quota = 0, part = 0; // The next record, with it, the plan.
  };
  const auto isAhead = [](const Waiting &a, const Waiting &b) {
    const uint64_t ofA = a.part == 0 || b.part == 0 ? a.quota : a.quota * b.part;
    const uint64_t ofB = a.part == 0 || b.part == 0 ? b.quota : b.quota * a.part;
    if ((a.part == 0) != (b.part == 0))
      return a.part == 0;
    return ofA != ofB ? ofA > ofB : a.layer > b.layer;
  };
  CacheAllotment allotment;
  allotment.quotaPages.assign(shape.layers.size(), 0);
  uint64_t left = poolPages - stagingPages;
  std::vector<Waiting> heap; // The layer that is furthest behind is in front.
  const auto addNext = [&](size_t i) {
    const CacheShape::Layer &layer = shape.layers[i];
    const uint64_t quota = allotment.quotaPages[i];
    const uint64_t pages = std::min(layer.recordPages, layer.allPages - quota);
    if (pages == 0)
      return;
    heap.push_back({i, pages, quota + pages, plan.quotaPages[i]});
    std::push_heap(heap.begin(), heap.end(), isAhead);
  };
  for (size_t i = 0; i < shape.layers.size(); ++i)
    addNext(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), isAhead);
    const Waiting next = heap.back();
    heap.pop_back();
    if (next.pages > left)
      continue; // Nor will it fit later.
    allotment.quotaPages[next.layer] += static_cast<uint32_t>(next.pages);
    left -= next.pages;
    addNext(next.layer);
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
