// The expert cache without its bytes: drives the runtime's own CacheMachine with a routing trace,
// each read completing as it begins, and counts what the runtime counts: layer pass by layer pass
// the same, if no read fails and the prefetches of a layer pass have been read when the next one
// begins. Reads that race with the computation change what is read of prefetches, never hits,
// misses and evictions.
#pragma once

#include "compiler/plan/RoutingTrace.h"
#include "compiler/plan/TracedMisses.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheMachine.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moec {

/// A layer's experts and its part of the cache.
struct ReplayLayer {
  std::vector<uint64_t> recordBytes; // Per expert: what is read of it at full precision.
  /// Per expert: where the slices of its record end; empty: records are read whole.
  std::vector<std::vector<uint64_t>> sliceEnds;
  /// Per expert, with sliceEnds: how many of its slices are a low copy; empty: none are.
  std::vector<uint16_t> lowCopySlices;
  uint64_t quotaPages = 0;
  bool repeatsEveryStep = true;
  std::vector<uint32_t> pinned;
  /// What the cache holds of it at the start, as far as it fits, in this order; how many of
  /// startTokens tokens wanted each (empty: one).
  std::vector<uint32_t> start, startUses;
  uint32_t startTokens = 1;

  uint16_t lowCopySlicesOf(size_t expert) const {
    return lowCopySlices.empty() ? uint16_t(0) : lowCopySlices[expert];
  }
};

struct ReplayCache {
  uint64_t pageBytes = 0;
  uint64_t stagingPages = 0;
  moert::CacheRules rules;
  std::vector<ReplayLayer> layers;
};

/// Reads under way at once, as the runtime's engine has them; of these kMostPrefetchReads are
/// prefetches.
constexpr size_t kMostReads = 16;

/// A cache that is executed layer pass by layer pass. For one thread.
class CacheReplay {
public:
  /// Fills and pins. Refuses a cache that the runtime would refuse, with the numbers.
  static moert::Result<CacheReplay> create(const ReplayCache &cache);

  /// The layer has these experts, of which the demand wants distinct ones. The prefetches of later
  /// layers were named before its experts were executed.
  moert::CacheCounts runPass(uint32_t layer, const moert::PassDemand &demand,
                             std::span<const moert::LayerPrefetch> prefetches = {});
  /// Prefetches of the old prompt are cancelled, which counts with the next layer pass.
  void beginPrompt();

  uint64_t startBytes() const { return bytesAtStart; }
  const moert::CacheDirectory &state() const { return machine.state(); }
  const moert::CacheMachine &cache() const { return machine; }
  /// For another replay to continue.
  moert::CacheMachine takeMachine() && { return std::move(machine); }

private:
  explicit CacheReplay(const ReplayCache &cache);
  moert::Status pinAndFill(const ReplayCache &cache);

  moert::CacheMachine machine;
  uint64_t bytesAtStart = 0;
};

struct ReplayResult {
  std::vector<moert::CacheCounts> passes; // One per layer pass of the trace.
  std::vector<MissCounts> changes;        // The same: what a miss rule changed.
  moert::CacheCounts total;
  MissCounts totalChanges;
  uint64_t startBytes = 0; // Read before the first layer pass.
};

/// Replays the whole trace. Refuses a cache whose layers are not the trace's. With a miss rule
/// there are scores of all of the trace's layers and tokens.
moert::Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache,
                                        const moert::MissRule &miss = {},
                                        std::span<const LayerScores> scores = {});

} // namespace moec
