// The expert cache without its bytes: replays a routing trace through the runtime's own directory
// and policies, and counts what the runtime would count. Without reads that fail and without
// guesses, its counts are the runtime's, play by play.
#pragma once

#include "compiler/plan/RoutingTrace.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheDirectory.h"

#include <cstdint>
#include <vector>

namespace moec {

/// A layer's experts and its part of the cache.
struct ReplayLayer {
  std::vector<uint64_t> recordBytes; // Per expert.
  uint64_t quotaPages = 0;
  bool comesRoundAgain = true;
  std::vector<uint32_t> pinned;
  /// What the cache holds of it at the start, as far as it fits, in this order; how many of
  /// startTokens tokens wanted each (empty: one).
  std::vector<uint32_t> start, startUses;
  uint32_t startTokens = 1;
};

struct ReplayCache {
  uint64_t pageBytes = 0;
  uint64_t transitPages = 0;
  moert::CacheRules rules;
  std::vector<ReplayLayer> layers;
};

/// As the runtime's CacheStats.
struct ReplayCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t bytesRead = 0;
  friend bool operator==(const ReplayCounts &, const ReplayCounts &) = default;
};

/// A cache that is played by hand. One thread.
class CacheReplay {
public:
  /// Fills and pins. Refuses a cache that the runtime would refuse, with the numbers.
  static moert::Result<CacheReplay> create(const ReplayCache &cache);

  /// The layer has these experts, of which the demand wants distinct ones.
  ReplayCounts play(uint32_t layer, const moert::PlayDemand &demand);
  /// The evictions that a new prompt begins with.
  uint64_t beginPrompt();

  uint64_t startBytes() const { return bytesAtStart; }
  const moert::CacheDirectory &state() const { return directory; }

private:
  CacheReplay(const ReplayCache &cache, const moert::DirectorySize &size);
  moert::Status pinAndFill(const ReplayCache &cache);

  moert::CacheDirectory directory;
  std::vector<uint64_t> bytes; // By the directory's ids.
  uint64_t bytesAtStart = 0;
};

struct ReplayResult {
  std::vector<ReplayCounts> plays; // Of the trace.
  ReplayCounts total;
  uint64_t startBytes = 0; // Read before the first play.
};

/// Plays the whole trace. Refuses a cache whose layers are not the trace's.
moert::Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache);

} // namespace moec
