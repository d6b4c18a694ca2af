// The experts in memory. While a layer is executed, its cache hands out the wanted experts as they
// become ready, those in memory first, and reads the missing ones meanwhile.
//
// What stays in memory after a layer was executed depends on what was there, what was wanted and
// the eviction policy, never on the order in which reads arrived: at the start of the layer pass
// the policy decides what will be kept, everything else leaves as its pages are needed and at the
// end. So hits and misses repeat from run to run, and the compiler's simulation can foretell them.
//
// A layer pass: beginLayer, then nextReady -> bytes -> release until nextReady gives -1, then
// endLayer.
//
// Between layer passes a predictor may name experts of later layers (prefetch). They are read into
// staging pages that the layer passes leave free, while nothing that was asked for waits to be
// read, and change neither what is kept nor what is handed out: a prefetch that comes true is a
// miss whose read was begun early. How many come true in time depends on the disk.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/PagedBytes.h"
#include "runtime/base/Status.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/memory/PagePool.h"
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/PrefetchList.h"

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
  /// What its experts may hold while other layers are executed; its part of the pool, if all layers
  /// share one.
  uint64_t quotaPages = 0;
  bool repeatsEveryStep = true; // False of an encoder's layers, which a prompt executes once.
};

struct CacheConfig {
  std::string fileName;               // For messages.
  uint64_t pageBytes = 0;             // A power of two, 4 KiB to 1 MiB.
  std::span<const CacheLayer> layers; // Layers with experts only, in the order of the model.
  /// What the layer being executed borrows on top of its quota. Together they hold at least the
  /// layer's largest record.
  uint64_t stagingPages = 0;
  /// At least the sum of the quotas plus the staging pages; aligned to 4 KiB.
  std::span<std::byte> pool;
  CacheRules rules;
  /// Reads of prefetches at a time, at most; 0: nothing is prefetched.
  uint32_t prefetchesUnderWay = kMostPrefetchReads;
  Clock clock = monotonicNs;
  /// Who computes checksums; null: the caller alone.
  ThreadPool *threads = nullptr;
};

/// Of one layer pass of a layer, or summed over all.
struct CacheStats {
  uint64_t hits = 0;   // Wanted experts that were in memory when the layer pass began.
  uint64_t misses = 0; // Wanted experts that had to be read.
  uint64_t evictions = 0;
  uint64_t bytesRead =
      0; // Prefetches included: those begun since the layer pass before, with this one.
  uint64_t prefetchesRead = 0, prefetchBytes = 0;
  /// Prefetches that needed no read: experts in memory that would have left.
  uint64_t prefetchesRetained = 0;
  uint64_t useful =
      0; // Misses that had been prefetched: their read was begun, or they were retained.
  uint64_t ready = 0;   // Hits, and useful prefetches that were complete when the layer pass began.
  uint64_t stalled = 0; // Wanted experts that were waited for, with no other one ready.
  uint64_t cancelled = 0; // Prefetches, read or retained, that were let go unused.
  uint64_t waitNs = 0;    // Blocked because no expert was ready.
  uint64_t verifyNs = 0;  // On the clock while checksums were computed.

  CacheStats &operator+=(const CacheStats &other);
};

/// Borrows the read queue and the threads, which nobody else uses during a call, the pool and the
/// tables of the configuration; all outlive it. One thread calls everything; the bytes handed out
/// may be read by any number of threads until release. Allocates nothing after create(), except in
/// fill() and for the message of an error.
///
/// Invariants, between calls:
///  - A layer holds at most its quota, the layer being executed at most quota + staging; the sum of
///    all quotas and the staging pages is at most the pool. With one pool for all layers it is they
///    together that hold at most the sum of the quotas, and the staging pages during a layer pass.
///  - Prefetches have at most the staging pages, within the same limits: what the layer being
///  executed
///    holds and all prefetches have together at most its quota + staging.
///  - An expert has pages if and only if slices of it are ready or loading. It is one of
///      absent   no slices ready, none loading, no pages
///      loading  a read into its pages is under way
///      ready    its bytes are complete; checked before they are first handed out
///    Only a ready expert has users. An expert with users, and a wanted one before its release, is
///    never evicted; nor is a pinned one.
///  - Between layer passes only reads of prefetches are under way. A prefetch that is not wanted
///  any more while
///    its read is under way is cancelled: it has its pages until the read is complete.
class ExpertCache {
public:
  /// kInvalidInput for a configuration that cannot work, with the numbers. The read limits of the
  /// queue have to allow the largest record on pages without neighbours.
  static Result<std::unique_ptr<ExpertCache>> create(const CacheConfig &config, ReadQueue &queue);

  /// Waits for the reads under way.
  ~ExpertCache();
  ExpertCache(const ExpertCache &) = delete;
  ExpertCache &operator=(const ExpertCache &) = delete;

  // An error of any function of a layer pass ends the layer pass: reads under way have been waited
  // for, bytes handed out are no longer valid, what is ready and kept stays. A new execute may
  // begin, unless the queue is broken: then no page changes its owner any more, and every call
  // returns that error.

  /// Opens a layer pass and starts the reads of missing experts as far as pages allow. The layer is
  /// an index into the configuration; experts are handed out in the order of the demand as far as
  /// timing allows.
  Status beginLayer(uint32_t layer, const PassDemand &demand);

  /// An index into wanted of a ready expert that was not handed out yet; blocks until there is one.
  /// -1 once all were handed out. Experts handed out and not released hold their pages: if for that
  /// reason nothing can be read any more, it is an error.
  Result<int> nextReady();

  /// The expert's record, from its first byte; valid until its release.
  PagedBytes bytes(int index) const;

  /// The expert was computed; its pages may serve further reads, which start here.
  Status release(int index);

  /// Closes the layer pass, after every wanted expert was handed out and released, and evicts what
  /// the policy did not choose to keep.
  Status endLayer();

  /// Ends a layer pass that its caller cannot go on with, as an error does; nothing if none is
  /// open.
  void abandonPass();

  /// A predictor has spoken of a later layer, before the layer pass of the layer where it stands.
  /// Which of its candidates are read is decided when that layer pass begins (PrefetchList.h). A
  /// prefetch that cannot be read is let go; the demand tries again.
  void prefetch(const LayerPrefetch &prefetched);

  /// Keeps the disk at work; to be called now and then, in a layer pass and between layer passes.
  Status advance() {
    return queue.readsUnderWay() > 0 || prefetches.hasNext() || !broken.isOk() ? advanceReads()
                                                                               : Status();
  }

  /// Before the first token: reads those experts of a layer that fit without an eviction, in their
  /// order. It counts as a layer pass, as if their uses had been seen, but not in the statistics.
  Status fill(uint32_t layer, const PassDemand &demand);

  /// Before each prompt: forgets or fades what the rules say, and lets go of all prefetches.
  Status beginPrompt();

  /// Keeps an expert in memory from its next use on, until unpin; calls nest. Not during a layer
  /// pass. Refused if it could no longer be kept within the quota.
  Status pin(uint32_t layer, uint32_t expert);
  Status unpin(uint32_t layer, uint32_t expert);

  /// Prefetches do not count.
  bool isReady(uint32_t layer, uint32_t expert) const;
  uint64_t pagesHeld(uint32_t layer) const { return directory.pagesHeld(layer); }
  uint64_t prefetchPages() const { return directory.prefetchPages(); }

  /// Of the layer pass that is open or was the last one.
  const CacheStats &layerStats() const { return passStats; }
  /// Of all layer passes that were closed by endLayer.
  const CacheStats &totalStats() const { return closedStats; }
  /// Spent on asking the system for reads, ever: between layer passes too.
  uint64_t submitNs() const { return submittingNs; }

private:
  static constexpr uint32_t kNoPages = UINT32_MAX;

  /// Beside its entry in the directory.
  struct Expert {
    uint32_t pageList = kNoPages;
    uint16_t slicesReady = 0;
    uint16_t slicesLoading = 0;
    uint16_t users = 0;
    bool isVerified = false;       // Of ready slices: their checksums were right.
    bool isReadAsPrefetch = false; // Of loading slices: their read was begun as a prefetch.
    bool isCancelled = false;      // A prefetch that is given up when its read is complete.
  };

  struct SliceCheck {
    uint32_t id;
    uint32_t slice;
    uint64_t found = 0;
  };

  ExpertCache(const CacheConfig &config, ReadQueue &queue);

  Status checkCall(bool needsPass, const char *function) const;
  Expert &expertAt(int index) { return experts[wanted[static_cast<size_t>(index)]]; }
  const Expert &expertAt(int index) const { return experts[wanted[static_cast<size_t>(index)]]; }
  const ExpertRecord &recordOf(uint32_t id) const;
  std::span<std::byte *> pagesOf(uint32_t id);
  std::string nameOf(uint32_t id) const;
  Status refuseDemand(uint32_t layer, std::span<const uint32_t> experts) const;

  void queueReads();
  Status startReads();
  Status startRead(uint32_t id);
  Status submitRead(uint32_t id);
  Status collect(bool wait);
  Status complete(uint32_t id, Status result);
  void drain();
  Status verifyReady();
  static size_t mostChecks(const CacheConfig &config);
  void evict(uint32_t id);
  void givePagesBack(uint32_t id);
  void closePass();
  Status fail(Status reason);

  void beginPrefetches(uint32_t layer);
  Status advanceReads();
  void startPrefetches();
  void startPrefetch(uint32_t id);
  void letPrefetchGo(uint32_t id);
  void letAllPrefetchesGo();
  CacheStats &statsNow() { return isPassOpen ? passStats : betweenStats; }

  std::string fileName;
  uint32_t pageShift;
  Clock clock;
  ThreadPool *threads;
  ReadQueue &queue;
  std::byte *poolMemory;
  PagePool pool; // Its pages follow each other there.
  std::vector<CacheLayer> layers;
  CacheDirectory directory;
  PrefetchList prefetches;
  uint32_t prefetchesUnderWay;
  uint32_t prefetchesLoading = 0; // Useful ones included.
  std::vector<Expert> experts;    // By the directory's ids, as everything below.

  // Page lists of the experts in memory: list i stands at [i * listPages, (i + 1) * listPages).
  uint64_t listPages;
  std::vector<std::byte *> pageLists;
  std::vector<uint32_t> freeLists;

  // The open layer pass. Vectors keep the room of the largest layer.
  bool isPassOpen = false;
  std::vector<uint32_t> wanted;
  // Missing experts in the order of their reads; the first nextRead of them have been started.
  std::vector<uint32_t> toRead;
  size_t nextRead = 0;
  // Indices into wanted; the first handedOut of them have been given out.
  std::vector<uint32_t> ready;
  size_t handedOut = 0;
  size_t released = 0;
  std::vector<SliceCheck> checks; // Under way, of what is ready and was not looked at yet.
  std::vector<uint32_t> leaving;  // Ready experts that will not stay and are not needed any more.
  size_t nextLeaving = 0;
  std::vector<MemoryPiece> pieces;   // Of the read being started.
  std::vector<uint32_t> pageNumbers; // Of an expert that gets pages or gives them back.
  CacheStats passStats;
  CacheStats betweenStats; // Of prefetches since the last layer pass; they count with the next one.
  CacheStats closedStats;
  uint64_t submittingNs = 0;
  Status broken; // The queue failed with reads under way: their pages can never be used again.
};

} // namespace moert
