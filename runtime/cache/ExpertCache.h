// The experts in memory. While a layer is played, its cache hands out the wanted experts as they
// become ready, those in memory first, and reads the missing ones meanwhile.
//
// What stays in memory after a layer was played depends on what was there, what was wanted and the
// eviction policy, never on the order in which reads arrived: at the start of the play the policy
// decides what will be kept, everything else leaves as its pages are needed and at the end. So hits
// and misses repeat from run to run, and the compiler's simulation can foretell them.
//
// A play: beginLayer, then nextReady -> bytes -> release until nextReady gives -1, then endLayer.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/PagedBytes.h"
#include "runtime/base/Status.h"
#include "runtime/cache/PagePool.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/policy/Eviction.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// A part of a record with a checksum of its own.
struct RecordSlice {
  uint64_t offset = 0;       // In the record; a multiple of 4 KiB.
  uint64_t bytes = 0;        // A multiple of 4 KiB.
  uint64_t payloadBytes = 0; // What the checksum covers; the rest of the slice is padding.
  uint64_t checksum = 0;     // XXH3, 64 bits.
};

/// Where an expert lies in the artifact. The slices follow each other and fill the record.
struct ExpertRecord {
  uint64_t fileOffset = 0; // A multiple of 4 KiB.
  uint64_t bytes = 0;      // A multiple of 4 KiB.
  std::span<const RecordSlice> slices;
};

struct CacheLayer {
  uint32_t layer = 0; // The layer's number in the model, for messages.
  std::span<const ExpertRecord> records;
  uint64_t quotaPages = 0; // What its experts may hold while other layers are played.
};

struct CacheConfig {
  std::string fileName;               // For messages.
  uint64_t pageBytes = 0;             // A power of two, 4 KiB to 1 MiB.
  std::span<const CacheLayer> layers; // Layers with experts only, in the order of the model.
  /// What the layer being played borrows on top of its quota. Together they hold at least the
  /// layer's largest record.
  uint64_t transitPages = 0;
  /// At least the sum of the quotas plus the transit pages; aligned to 4 KiB.
  std::span<std::byte> pool;
  EvictionPolicy eviction = EvictionPolicy::kLru;
  Clock clock = monotonicNs;
};

/// Of one play of a layer, or summed over all.
struct CacheStats {
  uint64_t hits = 0;   // Wanted experts that were in memory when the play began.
  uint64_t misses = 0; // Wanted experts that had to be read.
  uint64_t evictions = 0;
  uint64_t bytesRead = 0;
  uint64_t waitNs = 0;   // Blocked because no expert was ready.
  uint64_t verifyNs = 0; // Spent on checksums.
};

/// Borrows the read queue, the pool and the tables of the configuration, all of which outlive it.
/// One thread calls everything; the bytes handed out may be read by any number of threads until
/// release. Allocates nothing after create(), except for the message of an error.
///
/// Invariants, between calls:
///  - A layer holds at most its quota, the layer being played at most quota + transit; the sum of
///    both is at most the pool.
///  - An expert holds pages if and only if slices of it are ready or loading. It is one of
///      absent   no slices ready, none loading, no pages
///      loading  a read into its pages is under way
///      ready    its bytes are complete; checked before they are first handed out
///    Only a ready expert has users; an expert with users, and a wanted one before its release, is
///    never evicted. A pinned one is never evicted either.
///  - Reads are under way only while a layer is played.
class ExpertCache {
public:
  /// kInvalidInput for a configuration that cannot work, with the numbers. Read limits of the queue
  /// have to allow the largest record in its worst scattering.
  static Result<std::unique_ptr<ExpertCache>> create(const CacheConfig &config, ReadQueue &queue);

  /// What the cache's own tables cost, the pool not included.
  static uint64_t memoryBytes(const CacheConfig &config);

  /// Waits for the reads under way.
  ~ExpertCache();
  ExpertCache(const ExpertCache &) = delete;
  ExpertCache &operator=(const ExpertCache &) = delete;

  /// Opens a play and starts the reads of missing experts as far as pages allow. The layer is an
  /// index into the configuration; wanted are distinct experts of it, the most popular first: they
  /// are handed out and read in this order as far as timing allows.
  Status beginLayer(uint32_t layer, std::span<const uint32_t> wanted);

  /// An index into wanted of a ready expert that was not handed out yet; blocks until there is one.
  /// -1 once all were handed out. Experts handed out earlier and not released hold their pages: if
  /// nothing else can be read for that reason, it is an error.
  Result<int> nextReady();

  /// The expert's record, from its first byte; valid until its release.
  PagedBytes bytes(int index) const;

  /// The expert was computed; its pages may serve further reads, which start here.
  Status release(int index);

  /// Closes the play and evicts what the policy did not choose to keep.
  Status endLayer();

  // An error of any of the above ends the play: reads under way were waited for, the bytes handed
  // out are no longer valid, what was ready and kept stays. A new play may begin.

  /// Keeps an expert in memory from its next use on, until unpin; calls nest. Not during a play.
  /// Refused if the pinned experts of a layer would exceed its quota.
  Status pin(uint32_t layer, uint32_t expert);
  Status unpin(uint32_t layer, uint32_t expert);

  bool isReady(uint32_t layer, uint32_t expert) const;
  uint64_t pagesHeld(uint32_t layer) const;

  /// Of the play that is open or was the last one.
  const CacheStats &layerStats() const;
  /// Of all plays that were closed.
  const CacheStats &totalStats() const;

private:
  class Impl;
  explicit ExpertCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moert
