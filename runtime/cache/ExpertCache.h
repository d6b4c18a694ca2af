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
#include "runtime/policy/CacheDirectory.h"

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
  /// What its experts may hold while other layers are played; its part of the pool, if all layers
  /// share one.
  uint64_t quotaPages = 0;
  bool comesRoundAgain = true; // False of an encoder's layers, which a prompt plays once.
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
  CacheRules rules;
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

/// Borrows the read queue, which nobody else uses meanwhile, the pool and the tables of the
/// configuration; all outlive it. One thread calls everything; the bytes handed out may be read by
/// any number of threads until release. Allocates nothing after create(), except for the message of
/// an error.
///
/// Invariants, between calls:
///  - A layer holds at most its quota, the layer being played at most quota + transit; the sum of
///    all quotas and the transit pages is at most the pool. With one pool for all layers it is they
///    together that hold at most the sum of the quotas, and the transit pages during a play.
///  - An expert holds pages if and only if slices of it are ready or loading. It is one of
///      absent   no slices ready, none loading, no pages
///      loading  a read into its pages is under way
///      ready    its bytes are complete; checked before they are first handed out
///    Only a ready expert has users. An expert with users, and a wanted one before its release, is
///    never evicted; nor is a pinned one.
///  - Reads are under way only while a layer is played.
class ExpertCache {
public:
  /// kInvalidInput for a configuration that cannot work, with the numbers. The read limits of the
  /// queue have to allow the largest record on pages without neighbours.
  static Result<std::unique_ptr<ExpertCache>> create(const CacheConfig &config, ReadQueue &queue);

  /// What the cache's own tables cost, the pool not included.
  static uint64_t memoryBytes(const CacheConfig &config);

  /// Waits for the reads under way.
  ~ExpertCache();
  ExpertCache(const ExpertCache &) = delete;
  ExpertCache &operator=(const ExpertCache &) = delete;

  // An error of any function of a play ends the play: reads under way have been waited for, bytes
  // handed out are no longer valid, what is ready and kept stays. A new play may begin.

  /// Opens a play and starts the reads of missing experts as far as pages allow. The layer is an
  /// index into the configuration; experts are handed out in the order of the demand as far as
  /// timing allows.
  Status beginLayer(uint32_t layer, const PlayDemand &demand);

  /// An index into wanted of a ready expert that was not handed out yet; blocks until there is one.
  /// -1 once all were handed out. Experts handed out and not released hold their pages: if for that
  /// reason nothing can be read any more, it is an error.
  Result<int> nextReady();

  /// The expert's record, from its first byte; valid until its release.
  PagedBytes bytes(int index) const;

  /// The expert was computed; its pages may serve further reads, which start here.
  Status release(int index);

  /// Closes the play, after every wanted expert was handed out and released, and evicts what the
  /// policy did not choose to keep.
  Status endLayer();

  /// Before the first token: reads those experts of a layer that fit without an eviction, in their
  /// order. It counts as a play, as if their uses had been seen, but not in the statistics.
  Status fill(uint32_t layer, const PlayDemand &demand);

  /// Before each prompt: forgets what the rules say.
  Status beginPrompt();

  /// Keeps an expert in memory from its next use on, until unpin; calls nest. Not during a play.
  /// Refused if it could no longer be kept within the quota.
  Status pin(uint32_t layer, uint32_t expert);
  Status unpin(uint32_t layer, uint32_t expert);

  bool isReady(uint32_t layer, uint32_t expert) const;
  uint64_t pagesHeld(uint32_t layer) const { return directory.pagesHeld(layer); }

  /// Of the play that is open or was the last one.
  const CacheStats &layerStats() const { return playStats; }
  /// Of all plays that were closed by endLayer.
  const CacheStats &totalStats() const { return closedStats; }

private:
  static constexpr uint32_t kNoPages = UINT32_MAX;

  /// Beside its entry in the directory.
  struct Expert {
    uint32_t pageList = kNoPages;
    uint16_t slicesReady = 0;
    uint16_t slicesLoading = 0;
    uint16_t users = 0;
    bool isVerified = false; // Of ready slices: their checksums were right.
  };

  ExpertCache(const CacheConfig &config, ReadQueue &queue);

  Status checkCall(bool needsPlay, const char *function) const;
  Expert &expertAt(int index) { return experts[wanted[static_cast<size_t>(index)]]; }
  const Expert &expertAt(int index) const { return experts[wanted[static_cast<size_t>(index)]]; }
  const ExpertRecord &recordOf(uint32_t id) const;
  std::span<std::byte *> pagesOf(uint32_t id);
  std::string nameOf(uint32_t id) const;
  Status refuseDemand(uint32_t layer, std::span<const uint32_t> experts) const;

  void queueReads();
  Status startReads();
  Status startRead(uint32_t id);
  Status collect(bool wait);
  Status verify(uint32_t id);
  void evict(uint32_t id);
  void closePlay();
  Status fail(Status reason);

  std::string fileName;
  uint32_t pageShift;
  Clock clock;
  ReadQueue &queue;
  PagePool pool;
  std::vector<CacheLayer> layers;
  CacheDirectory directory;
  std::vector<Expert> experts; // By the directory's ids, as everything below.

  // Page lists of the experts in memory: list i stands at [i * listPages, (i + 1) * listPages).
  uint64_t listPages;
  std::vector<std::byte *> pageLists;
  std::vector<uint32_t> freeLists;

  // The open play. Vectors keep the room of the largest layer.
  bool isPlaying = false;
  std::vector<uint32_t> wanted;
  // Missing experts in the order of their reads; the first nextRead of them have been started.
  std::vector<uint32_t> toRead;
  size_t nextRead = 0;
  // Indices into wanted; the first handedOut of them have been given out.
  std::vector<uint32_t> ready;
  size_t handedOut = 0;
  size_t released = 0;
  std::vector<uint32_t> leaving; // Ready experts that will not stay and are not needed any more.
  size_t nextLeaving = 0;
  std::vector<MemoryPiece> pieces; // Of the read being started.
  CacheStats playStats;
  CacheStats closedStats;
  Status broken; // The queue failed with reads under way: their pages can never be used again.
};

} // namespace moert
