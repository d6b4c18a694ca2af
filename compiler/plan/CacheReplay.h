// The expert cache without its bytes: replays a routing trace through the runtime's own directory
// and policies, and counts what the runtime would count: layer pass by layer pass the same, where
// no read fails and the prefetches of a layer pass have been read when the next one begins. Reads
// that race with the computation change what is read of prefetches, never hits, misses and
// evictions.
#pragma once

#include "compiler/plan/RoutingTrace.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/PrefetchList.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moec {

/// A layer's experts and its part of the cache.
struct ReplayLayer {
  std::vector<uint64_t> recordBytes; // Per expert.
  uint64_t quotaPages = 0;
  bool repeatsEveryStep = true;
  std::vector<uint32_t> pinned;
  /// What the cache holds of it at the start, as far as it fits, in this order; how many of
  /// startTokens tokens wanted each (empty: one).
  std::vector<uint32_t> start, startUses;
  uint32_t startTokens = 1;
};

struct ReplayCache {
  uint64_t pageBytes = 0;
  uint64_t stagingPages = 0;
  moert::CacheRules rules;
  std::vector<ReplayLayer> layers;
};

/// As the runtime's CacheStats.
struct ReplayCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t bytesRead = 0; // Prefetches included.
  uint64_t prefetchesRead = 0, prefetchBytes = 0;
  uint64_t useful = 0;             // Misses that had been prefetched.
  uint64_t cancelled = 0;          // Prefetches that were let go unused.
  uint64_t prefetchesRetained = 0; // In memory already, and not read.
  ReplayCounts &operator+=(const ReplayCounts &other);
  friend bool operator==(const ReplayCounts &, const ReplayCounts &) = default;
};

moert::DirectorySize directorySizeOf(const ReplayCache &cache);

/// What the rules leave in a directory as a new prompt begins; the number of evictions.
uint64_t beginPromptIn(moert::CacheDirectory &directory);

/// A cache that is executed by hand. One thread.
class CacheReplay {
public:
  /// Fills and pins. Refuses a cache that the runtime would refuse, with the numbers.
  static moert::Result<CacheReplay> create(const ReplayCache &cache);

  /// The layer has these experts, of which the demand wants distinct ones.
  /// The prefetches of later layers were made before its experts were executed.
  ReplayCounts runPass(uint32_t layer, const moert::PassDemand &demand,
                       std::span<const moert::LayerPrefetch> prefetches = {});
  /// The evictions that a new prompt begins with. Prefetches of the old one are let go, which the
  /// next execute counts.
  uint64_t beginPrompt();

  uint64_t startBytes() const { return bytesAtStart; }
  const moert::CacheDirectory &state() const { return directory; }
  /// For another replay to go on with.
  moert::CacheDirectory takeState() && { return std::move(directory); }

private:
  CacheReplay(const ReplayCache &cache, const moert::DirectorySize &size);
  moert::Status pinAndFill(const ReplayCache &cache);
  uint64_t dropCancelled();
  void readPrefetches(ReplayCounts &counts);

  moert::CacheDirectory directory;
  moert::PrefetchList prefetchList;
  std::vector<uint64_t> bytes; // By the directory's ids.
  uint64_t bytesAtStart = 0;
  uint64_t cancelledBetween = 0; // Layer passes.
};

struct ReplayResult {
  std::vector<ReplayCounts> passes; // One per layer pass of the trace.
  ReplayCounts total;
  uint64_t startBytes = 0; // Read before the first layer pass.
};

/// Layer passes the whole trace. Refuses a cache whose layers are not the trace's.
moert::Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache);

} // namespace moec
