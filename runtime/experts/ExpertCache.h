// The experts in memory: carries out what CacheMachine decides, with pages, a read queue and
// checksums. While a layer is executed, the cache hands out the demanded experts as they become
// ready, those in memory first, and reads the missing ones meanwhile. Prefetches are read while no
// demanded read waits to begin.
//
// A layer pass: beginLayer, then nextReady -> bytes -> release until nextReady gives -1, then
// endLayer.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/PagedBytes.h"
#include "runtime/base/Status.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/memory/PagePool.h"
#include "runtime/policy/CacheMachine.h"

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
  /// So many first slices are a copy of low precision; the others are a copy of high precision,
  /// complete without them. 0: all slices belong together.
  uint16_t lowCopySlices = 0;
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
  /// Reads of prefetches and promotions at a time, at most; 0: there are none.
  uint32_t prefetchesUnderWay = kMostPrefetchReads;
  Clock clock = monotonicNs;
  /// Who computes checksums; null: the caller alone.
  ThreadPool *threads = nullptr;
};

/// Times beside the counts, of a layer pass or summed.
struct CacheTimes {
  uint64_t waitNs = 0;   // Blocked because no expert was ready.
  uint64_t verifyNs = 0; // On the clock while checksums were computed.

  CacheTimes &operator+=(const CacheTimes &other) {
    waitNs += other.waitNs;
    verifyNs += other.verifyNs;
    return *this;
  }
};

/// Reads over time, since the cache was made. A read is under way until the cache takes its result,
/// which is later than its end where no call came in between.
struct ReadTimes {
  uint64_t reads = 0;      // Begun.
  uint64_t busyNs = 0;     // At least one was under way.
  uint64_t underWayNs = 0; // Summed over reads: relative to busyNs, the mean depth.
};

/// What a cache needs for another configuration (ExpertCache::prepare): the machine and the tables,
/// without contents.
struct CacheReconfiguration {
  std::vector<CacheLayer> layers;
  CacheMachine machine;
  PagePool pool;
  std::vector<std::byte *> pageLists;
  std::vector<uint32_t> freeLists;
};

/// Borrows the read queue and the threads, which nobody else uses during a call, the pool and the
/// tables of the configuration; all outlive it. One thread calls everything; the bytes handed out
/// may be read by any number of threads until release. Allocates nothing after create(), except in
/// fill(), prepare() and reconfigure() and for the message of an error.
///
/// Invariants, between calls:
///  - Those of CacheMachine and CacheDirectory: layers and prefetches keep within their pages.
///  - An expert has a list of pages, with those for the slices that its unit holds at their places
///    (CacheDirectory::pageRangeFor), if and only if the unit has an owner (CacheUnit.h). The bytes
///    of the slices that are present are complete; they are checked before they are handed out.
///  - An expert in use, a demanded one before its release and a pinned one are never evicted.
///  - Between layer passes only prefetches and promotions are being read.
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
  // for, bytes handed out are no longer valid, what is ready and kept stays. A new layer pass may
  // begin, unless the queue is broken: then no page changes its owner any more, and every call
  // returns that error.

  /// Opens a layer pass and starts the reads of missing experts as far as pages allow. The layer is
  /// an index into the configuration; experts are handed out in the order of the demand as far as
  /// timing allows.
  Status beginLayer(uint32_t layer, const PassDemand &demand);

  /// An index into the demand of a ready expert that was not handed out; blocks until there is one.
  /// -1 once all were handed out. Experts handed out and not released hold their pages: if for that
  /// reason nothing can be read any more, it is an error.
  Result<int> nextReady();

  /// The expert's record, from its first byte, of which the slices are there that slicesOf(index)
  /// consists of: those of one copy (CacheUnit::firstOf). Valid until its release.
  PagedBytes bytes(int index) const;
  /// The slices to compute it with: at least those that were demanded, and the same ones in every
  /// run of the same demands.
  uint16_t slicesOf(int index) const;

  /// The expert was computed; its pages may serve further reads, which start here.
  Status release(int index);

  /// Closes the layer pass, after every wanted expert was handed out and released, and evicts what
  /// the policy did not choose to keep. Waits for promotions whose time has come (PromotionList.h).
  Status endLayer();

  /// Ends a layer pass that its caller cannot finish, as an error does. No effect if none is open.
  void abandonPass();

  /// Records prefetch candidates for a later layer, before the layer pass of the layer that
  /// predicts them. The layer pass that begins next decides which of them are read
  /// (PrefetchList.h). A prefetch that cannot be read is dropped; the demand reads it again.
  void prefetch(const LayerPrefetch &prefetched) { machine.prefetch(prefetched); }

  /// Keeps the disk at work. Call it now and then, in a layer pass and between layer passes.
  Status advance() {
    return queue.readsUnderWay() > 0 || machine.hasPrefetchToRead() || !broken.isOk()
               ? advanceReads()
               : Status();
  }

  /// Whether nothing is being read, and no prefetch waits to be.
  bool isIdle() const { return queue.readsUnderWay() == 0 && !machine.hasPrefetchToRead(); }

  /// Before the first token: reads those experts of a layer that fit without an eviction, in their
  /// order. It counts as a layer pass, as if their uses had been seen, but not in the statistics.
  Status fill(uint32_t layer, const PassDemand &demand);

  /// Before each prompt: forgets or fades histories by the rules, and cancels all prefetches.
  Status beginPrompt();

  /// Between layer passes: cancels all prefetches and waits for the reads under way. No read is
  /// then begun before the next layer pass, so the pool's memory may be moved.
  Status quiesce();

  /// Between layer passes: continues with another configuration of the same records: other quotas,
  /// rules and pool. Experts stay as far as the new quotas hold them
  /// (CacheDirectory::continueFrom); all are unpinned. A smaller pool is the beginning of the one
  /// before, with all of whose memory this is called; a larger one has the content of the one
  /// before, and may be elsewhere. Refuses a configuration that create() refuses; nothing has
  /// changed then, nor where there is no memory for the tables.
  Status reconfigure(const CacheConfig &config);

  /// The same in parts, so that whatever else changes with the cache is made before anything has
  /// changed. prepare() allocates and checks; of the pool it uses the address and the size alone.
  /// Pins may then be set in the machine. apply(), after quiesce(), cannot fail; its pool is the
  /// beginning of the one before, or all of it and more.
  Result<CacheReconfiguration> prepare(const CacheConfig &config) const;
  void apply(CacheReconfiguration &&next) noexcept;
  /// The pool is at another address, with the same content. After quiesce().
  void movePool(std::byte *memory) noexcept;

  /// Keeps an expert in memory from its next use on, until unpin; calls nest. Not during a layer
  /// pass. Refused if it could no longer be kept within the quota.
  Status pin(uint32_t layer, uint32_t expert);
  Status unpin(uint32_t layer, uint32_t expert);

  /// The decisions and what they depend on, without the bytes.
  const CacheMachine &decisions() const { return machine; }
  /// Whether the expert is resident. False for prefetches.
  bool isReady(uint32_t layer, uint32_t expert) const;
  uint64_t pagesHeld(uint32_t layer) const { return machine.state().pagesHeld(layer); }
  uint64_t prefetchPages() const { return machine.state().prefetchPages(); }
  const CacheDirectory &state() const { return machine.state(); }

  /// Counts of the open layer pass or, outside layer passes, of the last one.
  const CacheCounts &passCounts() const {
    return machine.state().isPassOpen() ? machine.counts() : lastCounts;
  }
  const CacheTimes &passTimes() const { return lastTimes; }
  /// Sums over all layer passes that were closed by endLayer.
  const CacheCounts &totalCounts() const { return closedCounts; }
  const CacheTimes &totalTimes() const { return closedTimes; }
  /// The time spent on asking the system for reads, between layer passes too.
  uint64_t submitNs() const { return submittingNs; }
  const ReadTimes &readTimes() const { return readingTimes; }

private:
  static constexpr uint32_t kNoPages = UINT32_MAX;

  /// Beside the expert's entry in the directory.
  struct Expert {
    uint32_t pageList = kNoPages;
    PageRange pages;             // In the list.
    uint16_t verifiedSlices = 0; // The slices before it that are there match their checksums.
  };

  struct SliceCheck {
    uint32_t id;
    uint32_t slice;
    uint64_t found = 0;
  };

  ExpertCache(const CacheConfig &config, ReadQueue &queue);

  Status checkCall(bool needsPass, const char *function) const;
  bool isInUse(int index) const;
  const ExpertRecord &recordOf(uint32_t id) const;
  std::span<std::byte *> pagesOf(uint32_t id) {
    const Expert &entry = experts[id];
    return {&pageLists[entry.pageList * listPages + entry.pages.first], entry.pages.count()};
  }
  /// The list of its record's pages by their places, of which those of pagesOf(id) are there.
  std::byte *const *pageListOf(uint32_t id) const {
    return &pageLists[experts[id].pageList * listPages];
  }
  std::string nameOf(uint32_t id) const;
  Status refuseDemand(uint32_t layer, std::span<const uint32_t> experts) const;

  Status act();
  Status settlePromotions();
  Status advanceReads();
  Status read(const CacheAction &action);
  void takePages(const CacheAction &action);
  Status complete(uint32_t id, Status result);
  Status collect(bool wait);
  void drain();
  void countReads(uint64_t atNs);
  Status verifyReady();
  static size_t mostChecks(const CacheConfig &config);
  void keepPages(uint32_t id, CacheReconfiguration &next) noexcept;
  void givePagesBack(const CacheAction &action);
  Status fail(Status reason);

  std::string fileName;
  uint32_t pageShift;
  Clock clock;
  ThreadPool *threads;
  ReadQueue &queue;
  std::byte *poolMemory;
  PagePool pool; // Its pages follow each other in poolMemory.
  std::vector<CacheLayer> layers;
  CacheMachine machine;
  std::vector<Expert> experts; // By the directory's ids.

  // Page lists of the experts in memory: list i is at [i * listPages, (i + 1) * listPages), with
  // a place for each page of the longest record.
  uint64_t listPages;
  std::vector<std::byte *> pageLists;
  std::vector<uint32_t> freeLists;

  std::vector<SliceCheck> checks;    // Slices of ready experts that were not checked yet.
  std::vector<MemoryPiece> pieces;   // For the read being started.
  std::vector<uint32_t> pageNumbers; // For an expert that gets pages or gives them back.
  CacheCounts lastCounts, closedCounts;
  CacheTimes lastTimes, closedTimes;
  uint64_t submittingNs = 0;
  ReadTimes readingTimes;
  uint64_t countedNs = 0, countedReads = 0; // The last countReads(): its time, reads under way.
  Status broken; // The queue failed with reads under way: their pages can never be used again.
};

} // namespace moert
