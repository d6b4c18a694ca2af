#include "runtime/cache/ExpertCache.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/cache/CacheConfigCheck.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace moert {

static size_t mostRecords(std::span<const CacheLayer> layers) {
  size_t most = 0;
  for (const CacheLayer &layer : layers)
    most = std::max(most, layer.records.size());
  return most;
}

static uint64_t largestRecordPages(const CacheConfig &config) {
  uint64_t pages = 0;
  for (const CacheLayer &layer : config.layers)
    pages = std::max(pages, largestRecordPages(layer, config.pageBytes));
  return pages;
}

//===-- Making and ending ---------------------------------------------------------------------===//

Result<std::unique_ptr<ExpertCache>> ExpertCache::create(const CacheConfig &config,
                                                         ReadQueue &queue) {
  MOERT_RETURN_IF_ERROR(checkCacheConfig(config, queue));
  return std::unique_ptr<ExpertCache>(new ExpertCache(config, queue));
}

ExpertCache::ExpertCache(const CacheConfig &config, ReadQueue &readQueue)
    : fileName(config.fileName),
      pageShift(static_cast<uint32_t>(std::countr_zero(config.pageBytes))),
      transitPages(config.transitPages), policy(config.eviction), clock(config.clock),
      queue(readQueue), pool(config.pool, config.pageBytes),
      listPages(moert::largestRecordPages(config)), scratch(mostRecords(config.layers)) {
  uint32_t expertCount = 0;
  layers.reserve(config.layers.size());
  for (const CacheLayer &layer : config.layers) {
    layers.push_back({.config = layer,
                      .firstExpert = expertCount,
                      .largestRecordPages = moert::largestRecordPages(layer, config.pageBytes)});
    expertCount += static_cast<uint32_t>(layer.records.size());
  }
  experts.resize(expertCount);
  uint64_t lists = mostExpertsHeld(config);
  pageLists.resize(lists * listPages);
  freeLists.reserve(lists);
  for (uint64_t list = lists; list-- > 0;)
    freeLists.push_back(static_cast<uint32_t>(list));
  size_t most = mostRecords(config.layers);
  for (std::vector<uint32_t> *perPlay : {&wanted, &toRead, &ready, &leaving})
    perPlay->reserve(most);
  candidates.reserve(most);
  pieces.reserve(listPages);
}

uint64_t ExpertCache::memoryBytes(const CacheConfig &config) {
  uint64_t expertCount = 0;
  for (const CacheLayer &layer : config.layers)
    expertCount += layer.records.size();
  uint64_t listPages = moert::largestRecordPages(config);
  size_t most = mostRecords(config.layers);
  return sizeof(ExpertCache) + config.fileName.size() + config.layers.size() * sizeof(Layer) +
         expertCount * sizeof(Expert) +
         PagePool::memoryBytes(config.pool.size() / config.pageBytes) +
         mostExpertsHeld(config) * (listPages * sizeof(std::byte *) + sizeof(uint32_t)) +
         most * (4 * sizeof(uint32_t) + sizeof(PlayCandidate)) + PlayScratch::memoryBytes(most) +
         listPages * sizeof(MemoryPiece);
}

ExpertCache::~ExpertCache() {
  if (isPlaying)
    (void)fail(Status());
}

//===-- A play --------------------------------------------------------------------------------===//

Status ExpertCache::checkCall(bool needsPlay, const char *function) const {
  if (!broken.isOk())
    return broken;
  if (isPlaying != needsPlay)
    return failed(fileName, ": ", function, isPlaying ? " during a play" : " outside a play",
                  " of a layer");
  return {};
}

Status ExpertCache::beginLayer(uint32_t layer, std::span<const uint32_t> wantedExperts) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginLayer"));
  if (layer >= layers.size())
    return failed(fileName, ": beginLayer of ", layer, ", there are ", layers.size());
  ++plays;
  playedLayer = layer;
  playStats = {};
  for (std::vector<uint32_t> *perPlay : {&wanted, &toRead, &ready, &leaving})
    perPlay->clear();
  nextRead = handedOut = released = nextLeaving = 0;
  isPlaying = true;
  for (uint32_t expert : wantedExperts) {
    bool isKnown = expert < layers[layer].config.records.size();
    if (!isKnown || expertAt(layer, expert).isWanted)
      return fail(failed(fileName, ": layer ", layers[layer].config.layer, " was asked for expert ",
                         expert, isKnown ? " twice" : ", which it does not have"));
    Expert &entry = expertAt(layer, expert);
    entry.isWanted = true;
    entry.lastUse = plays;
    entry.rank = static_cast<uint32_t>(wanted.size());
    wanted.push_back(expert);
  }
  decideWhatStays();
  queueReads();
  Status started = startReads();
  return started.isOk() ? std::move(started) : fail(std::move(started));
}

void ExpertCache::decideWhatStays() {
  Layer &layer = layers[playedLayer];
  candidates.clear();
  for (uint32_t expert = 0; expert < layer.config.records.size(); ++expert) {
    const Expert &entry = expertAt(playedLayer, expert);
    bool isReady = entry.slicesReady > 0;
    if (isReady || entry.isWanted)
      candidates.push_back({.use = {expert, entry.lastUse, entry.rank},
                            .pages = pagesOf(layer.config.records[expert]),
                            .isReady = isReady,
                            .isWanted = entry.isWanted,
                            .isPinned = entry.pins > 0});
  }
  PlayLimits limits{layer.config.quotaPages, layer.config.quotaPages + transitPages,
                    layer.largestRecordPages};
  planPlay(policy, limits, candidates, scratch);
  for (const PlayCandidate &candidate : candidates) {
    expertAt(playedLayer, candidate.use.expert).isKept = candidate.isKept;
    if (!candidate.isKept && !candidate.isWanted)
      leaving.push_back(candidate.use.expert);
  }
}

/// Experts that pass through are read first, then those that stay: as long as the latter are not
/// there, their pages serve the former.
void ExpertCache::queueReads() {
  for (bool isKept : {false, true})
    for (uint32_t expert : wanted) {
      const Expert &entry = expertAt(playedLayer, expert);
      if (entry.slicesReady == 0 && entry.isKept == isKept)
        toRead.push_back(expert);
    }
  for (uint32_t index = 0; index < wanted.size(); ++index)
    if (expertAt(playedLayer, wanted[index]).slicesReady > 0)
      ready.push_back(index);
  playStats.hits = ready.size();
  playStats.misses = toRead.size();
}

Status ExpertCache::startReads() {
  Layer &layer = layers[playedLayer];
  uint64_t limit = layer.config.quotaPages + transitPages;
  for (; nextRead < toRead.size(); ++nextRead) {
    if (queue.readsUnderWay() == queue.maxReads())
      return {};
    uint64_t pages = pagesOf(layer.config.records[toRead[nextRead]]);
    while (layer.heldPages + pages > limit) {
      if (nextLeaving == leaving.size())
        return {};
      evict(playedLayer, leaving[nextLeaving++]);
    }
    MOERT_RETURN_IF_ERROR(startRead(toRead[nextRead]));
  }
  return {};
}

Status ExpertCache::startRead(uint32_t expert) {
  Layer &layer = layers[playedLayer];
  const ExpertRecord &record = layer.config.records[expert];
  Expert &entry = expertAt(playedLayer, expert);
  assert(entry.pageList == kNoPages && !freeLists.empty());
  entry.pageList = freeLists.back();
  freeLists.pop_back();
  std::span<std::byte *> pages = pagesOf(playedLayer, expert);
  bool isAllocated = pool.allocate(pages);
  assert(isAllocated && "the layers hold more than their quotas");
  (void)isAllocated;
  layer.heldPages += pages.size();

  uint64_t pageBytes = uint64_t(1) << pageShift;
  pieces.clear();
  for (uint64_t left = record.bytes; std::byte * page : pages) {
    pieces.push_back({page, std::min(left, pageBytes)});
    left -= pieces.back().bytes;
  }
  Status submitted = queue.submit(entry.rank, record.fileOffset, pieces);
  if (!submitted.isOk()) {
    evict(playedLayer, expert);
    return std::move(submitted).withContext(nameOf(playedLayer, expert));
  }
  entry.slicesLoading = static_cast<uint16_t>(record.slices.size());
  playStats.bytesRead += record.bytes;
  return {};
}

/// Takes what has arrived, waiting for at least one read if asked to, and starts what became
/// possible. The reads' tags are indices into wanted.
Status ExpertCache::collect(bool wait) {
  ReadCompletion completions[8];
  size_t count;
  Status firstError;
  do {
    Result<size_t> polled = queue.poll(completions, wait);
    if (!polled.isOk()) {
      broken = polled.status();
      return broken;
    }
    count = *polled;
    for (size_t i = 0; i < count; ++i) {
      uint32_t index = static_cast<uint32_t>(completions[i].tag);
      Expert &entry = expertAt(playedLayer, wanted[index]);
      entry.slicesReady = completions[i].status.isOk() ? entry.slicesLoading : uint16_t(0);
      entry.slicesLoading = 0;
      if (entry.slicesReady > 0) {
        ready.push_back(index);
        continue;
      }
      evict(playedLayer, wanted[index]);
      if (firstError.isOk())
        firstError =
            std::move(completions[i].status).withContext(nameOf(playedLayer, wanted[index]));
    }
    wait = false;
  } while (count == std::size(completions));
  return firstError;
}

Status ExpertCache::verify(uint32_t expert) {
  Expert &entry = expertAt(playedLayer, expert);
  if (entry.isVerified)
    return {};
  uint64_t before = clock();
  PagedBytes record{pagesOf(playedLayer, expert).data(), pageShift, 0};
  std::span<const RecordSlice> slices = layers[playedLayer].config.records[expert].slices;
  for (size_t i = 0; i < slices.size(); ++i) {
    uint64_t found = checksum64(record.from(slices[i].offset), slices[i].payloadBytes);
    if (found == slices[i].checksum)
      continue;
    evict(playedLayer, expert);
    return invalidInput(fileName, ": ", nameOf(playedLayer, expert), ": slice ", i,
                        " has checksum ", formatChecksum(found), ", expected ",
                        formatChecksum(slices[i].checksum));
  }
  entry.isVerified = true;
  playStats.verifyNs += clock() - before;
  return {};
}

Result<int> ExpertCache::nextReady() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "nextReady"));
  // Also when something is ready: the disk gets its next requests before the caller computes.
  for (bool wait = false; handedOut < wanted.size(); wait = true) {
    uint64_t before = wait ? clock() : 0;
    Status progressed = collect(wait);
    if (wait)
      playStats.waitNs += clock() - before;
    if (progressed.isOk())
      progressed = startReads();
    if (!progressed.isOk())
      return fail(std::move(progressed));
    if (handedOut < ready.size())
      break;
    if (queue.readsUnderWay() == 0)
      return fail(failed(fileName, ": layer ", layers[playedLayer].config.layer, " has ",
                         handedOut - released, " experts in use and no pages to read another one"));
  }
  if (handedOut == wanted.size())
    return -1;
  uint32_t index = ready[handedOut];
  Status verified = verify(wanted[index]);
  if (!verified.isOk())
    return fail(std::move(verified));
  ++handedOut;
  ++expertAt(playedLayer, wanted[index]).users;
  return static_cast<int>(index);
}

PagedBytes ExpertCache::bytes(int index) const {
  const Expert &entry = expertAt(playedLayer, currentExpert(index));
  assert(entry.users > 0);
  return {&pageLists[entry.pageList * listPages], pageShift, 0};
}

Status ExpertCache::release(int index) {
  MOERT_RETURN_IF_ERROR(checkCall(true, "release"));
  if (index < 0 || static_cast<size_t>(index) >= wanted.size() ||
      expertAt(playedLayer, currentExpert(index)).users == 0)
    return fail(failed(fileName, ": release of ", index, ", which is not in use"));
  Expert &entry = expertAt(playedLayer, currentExpert(index));
  --entry.users;
  entry.isWanted = false;
  ++released;
  if (!entry.isKept)
    leaving.push_back(currentExpert(index));
  Status started = startReads();
  return started.isOk() ? std::move(started) : fail(std::move(started));
}

Status ExpertCache::endLayer() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "endLayer"));
  if (released != wanted.size())
    return fail(failed(fileName, ": endLayer after ", released, " of ", wanted.size(),
                       " experts were released"));
  closePlay();
  closedStats.hits += playStats.hits;
  closedStats.misses += playStats.misses;
  closedStats.evictions += playStats.evictions;
  closedStats.bytesRead += playStats.bytesRead;
  closedStats.waitNs += playStats.waitNs;
  closedStats.verifyNs += playStats.verifyNs;
  return {};
}

void ExpertCache::closePlay() {
  for (uint32_t expert : wanted) {
    Expert &entry = expertAt(playedLayer, expert);
    entry.isWanted = false;
    entry.users = 0;
  }
  for (const PlayCandidate &candidate : candidates)
    if (!candidate.isKept && expertAt(playedLayer, candidate.use.expert).slicesReady > 0)
      evict(playedLayer, candidate.use.expert);
  candidates.clear();
  isPlaying = false;
}

/// Ends the play with an error. Reads that are still under way are waited for, so that nothing is
/// written to pages which may be given away.
Status ExpertCache::fail(Status reason) {
  while (broken.isOk() && queue.readsUnderWay() > 0)
    (void)collect(true);
  if (broken.isOk())
    closePlay();
  return reason;
}

//===-- Pages ---------------------------------------------------------------------------------===//

uint64_t ExpertCache::pagesOf(const ExpertRecord &record) const {
  return divideUp(record.bytes, uint64_t(1) << pageShift);
}

std::span<std::byte *> ExpertCache::pagesOf(uint32_t layer, uint32_t expert) {
  return {&pageLists[expertAt(layer, expert).pageList * listPages],
          pagesOf(layers[layer].config.records[expert])};
}

void ExpertCache::evict(uint32_t layer, uint32_t expert) {
  Expert &entry = expertAt(layer, expert);
  assert(entry.users == 0 && entry.slicesLoading == 0 && entry.pageList != kNoPages);
  std::span<std::byte *> pages = pagesOf(layer, expert);
  pool.release(pages);
  layers[layer].heldPages -= pages.size();
  freeLists.push_back(entry.pageList);
  entry.pageList = kNoPages;
  entry.slicesReady = 0;
  entry.isVerified = false;
  ++playStats.evictions;
}

//===-- Pins and questions --------------------------------------------------------------------===//

Status ExpertCache::pin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "pin"));
  if (layer >= layers.size() || expert >= layers[layer].config.records.size())
    return failed(fileName, ": there is no expert ", expert, " of layer ", layer, " to pin");
  Layer &held = layers[layer];
  Expert &entry = expertAt(layer, expert);
  uint64_t pages = held.pinnedPages + pagesOf(held.config.records[expert]);
  uint64_t limit = std::min(held.config.quotaPages,
                            held.config.quotaPages + transitPages - held.largestRecordPages);
  if (entry.pins == 0 && pages > limit)
    return invalidInput(fileName, ": ", nameOf(layer, expert), ": pinning it needs ", pages,
                        " pages with the ones pinned before, the layer has ", limit);
  if (entry.pins++ == 0)
    held.pinnedPages = pages;
  return {};
}

Status ExpertCache::unpin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "unpin"));
  if (layer >= layers.size() || expert >= layers[layer].config.records.size() ||
      expertAt(layer, expert).pins == 0)
    return failed(fileName, ": expert ", expert, " of layer ", layer, " is not pinned");
  if (--expertAt(layer, expert).pins == 0)
    layers[layer].pinnedPages -= pagesOf(layers[layer].config.records[expert]);
  return {};
}

bool ExpertCache::isReady(uint32_t layer, uint32_t expert) const {
  return expertAt(layer, expert).slicesReady > 0;
}

std::string ExpertCache::nameOf(uint32_t layer, uint32_t expert) const {
  return strCat("layer ", layers[layer].config.layer, " expert ", expert);
}

} // namespace moert
