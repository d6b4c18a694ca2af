#include "compiler/plan/BeladyBound.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cassert>
#include <queue>
#include <utility>

using namespace moert;

namespace moec {

static constexpr uint32_t kNever = UINT32_MAX;

namespace {

/// A cache of parts of items that knows the future. What is held of an item is a number of units;
/// the heap has an entry for every item held, and stale ones.
class PerfectCache {
public:
  PerfectCache(std::vector<uint64_t> itemUnits, uint64_t capacityUnits)
      : units(std::move(itemUnits)), capacity(capacityUnits), held(units.size()),
        nextUse(units.size(), kNever) {}

  /// The units that were missing.
  uint64_t use(uint32_t item, uint32_t next) {
    uint64_t missing = units[item] - held[item];
    held[item] = units[item];
    total += missing;
    nextUse[item] = next;
    furthest.push({next, item});
    return missing;
  }

  void shrink() {
    while (total > capacity) {
      auto [next, item] = furthest.top();
      furthest.pop();
      if (nextUse[item] != next || held[item] == 0)
        continue;
      uint64_t cut = std::min(held[item], total - capacity);
      held[item] -= cut;
      total -= cut;
      if (held[item] > 0)
        furthest.push({next, item});
    }
  }

private:
  std::vector<uint64_t> units;
  uint64_t capacity;
  std::vector<uint64_t> held;
  std::vector<uint32_t> nextUse;
  uint64_t total = 0;
  std::priority_queue<std::pair<uint32_t, uint32_t>> furthest;
};

/// The trace's demands as items, numbered over all layers, with the layer passes that need them
/// next.
struct Uses {
  std::vector<uint32_t> item, next; // Per demand.
  std::vector<uint32_t> first;      // Per item: the first layer pass that needs it to be held.
  std::vector<uint32_t> start;      // Items that the cache begins with.
};

/// Which reads a bound counts.
enum class Counted { kAll, kDecoding };

} // namespace

/// With kDecoding an item need not be held for a prompt that comes next, which reads it for
/// nothing.
static Uses usesOf(const RoutingTrace &trace, const HeldExperts &start, Counted counted) {
  std::vector<uint32_t> firstItem(1, 0);
  for (uint32_t experts : trace.layerExperts)
    firstItem.push_back(firstItem.back() + experts);
  Uses uses;
  uses.item.resize(trace.wanted.size());
  uses.next.resize(trace.wanted.size());
  uses.first.assign(firstItem.back(), kNever);
  for (size_t p = trace.passes.size(); p-- > 0;)
    for (uint64_t i = trace.passes[p].begin; i < trace.passes[p].end; ++i) {
      const bool isCounted = counted == Counted::kAll || trace.passes[p].tokens == 1;
      uses.item[i] = firstItem[trace.passes[p].layer] + trace.wanted[i];
      uses.next[i] =
          std::exchange(uses.first[uses.item[i]], isCounted ? static_cast<uint32_t>(p) : kNever);
    }
  for (size_t layer = 0; layer < start.size(); ++layer)
    for (uint32_t expert : start[layer])
      uses.start.push_back(firstItem[layer] + expert);
  return uses;
}

static uint64_t missingUnits(const RoutingTrace &trace, const Uses &uses,
                             const std::vector<uint64_t> &units, uint64_t capacity,
                             Counted counted) {
  PerfectCache cache(units, capacity);
  for (uint32_t item : uses.start)
    cache.use(item, uses.first[item]);
  cache.shrink();
  uint64_t missing = 0;
  for (const RoutingPass &pass : trace.passes) {
    const bool isCounted = counted == Counted::kAll || pass.tokens == 1;
    for (uint64_t i = pass.begin; i < pass.end; ++i) {
      const uint64_t read = cache.use(uses.item[i], uses.next[i]);
      missing += isCounted ? read : 0;
    }
    cache.shrink();
  }
  return missing;
}

BeladyBound beladyBound(const RoutingTrace &trace,
                        std::span<const std::vector<uint64_t>> recordBytes, uint64_t pageBytes,
                        uint64_t poolPages, const HeldExperts &start) {
  assert(recordBytes.size() == trace.layerExperts.size());
  std::vector<uint64_t> bytes;
  uint64_t smallestPages = UINT64_MAX;
  for (const std::vector<uint64_t> &layer : recordBytes)
    for (uint64_t record : layer) {
      bytes.push_back(record);
      smallestPages = std::min(smallestPages, divideUp(record, pageBytes));
    }
  const Uses uses = usesOf(trace, start, Counted::kAll);
  assert(bytes.size() == uses.first.size());
  BeladyBound bound;
  bound.bytesRead = missingUnits(trace, uses, bytes, poolPages * pageBytes, Counted::kAll);
  bound.decodeBytesRead = missingUnits(trace, usesOf(trace, start, Counted::kDecoding), bytes,
                                       poolPages * pageBytes, Counted::kDecoding);
  bound.misses = missingUnits(trace, uses, std::vector<uint64_t>(bytes.size(), 1),
                              poolPages / std::max<uint64_t>(1, smallestPages), Counted::kAll);
  return bound;
}

} // namespace moec
