#include "runtime/cache/ExpertCache.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/cache/CacheConfigCheck.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace moert {

CacheStats &CacheStats::operator+=(const CacheStats &other) {
  hits += other.hits;
  misses += other.misses;
  evictions += other.evictions;
  bytesRead += other.bytesRead;
  prefetchesRead += other.prefetchesRead;
  prefetchBytes += other.prefetchBytes;
  prefetchesRetained += other.prefetchesRetained;
  useful += other.useful;
  ready += other.ready;
  stalled += other.stalled;
  cancelled += other.cancelled;
  waitNs += other.waitNs;
  verifyNs += other.verifyNs;
  return *this;
}

static DirectorySize directorySizeOf(const CacheConfig &config) {
  DirectorySize size{.layers = config.layers.size()};
  for (const CacheLayer &layer : config.layers) {
    size.experts += layer.records.size();
    size.widestLayer = std::max(size.widestLayer, layer.records.size());
  }
  return size;
}

// With one pool, experts of all layers may leave during a layer pass.
static size_t mostLeaving(const CacheConfig &config) {
  DirectorySize size = directorySizeOf(config);
  return config.rules.sharing == CacheSharing::kOnePool ? size.experts : size.widestLayer;
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

size_t ExpertCache::mostChecks(const CacheConfig &config) {
  size_t slices = 1;
  for (const CacheLayer &layer : config.layers)
    for (const ExpertRecord &record : layer.records)
      slices = std::max(slices, record.slices.size());
  return slices + (config.threads ? config.threads->threads() : 1) - 1;
}

ExpertCache::ExpertCache(const CacheConfig &config, ReadQueue &readQueue)
    : fileName(config.fileName),
      pageShift(static_cast<uint32_t>(std::countr_zero(config.pageBytes))), clock(config.clock),
      threads(config.threads), queue(readQueue), poolMemory(config.pool.data()),
      pool(config.pool.size() / config.pageBytes),
      layers(config.layers.begin(), config.layers.end()),
      directory(config.rules, config.stagingPages, directorySizeOf(config)),
      prefetches(directorySizeOf(config)), prefetchesUnderWay(config.prefetchesUnderWay),
      experts(directorySizeOf(config).experts), listPages(moert::largestRecordPages(config)) {
  for (const CacheLayer &layer : layers) {
    directory.addLayer(layer.quotaPages, layer.repeatsEveryStep);
    for (const ExpertRecord &record : layer.records)
      directory.addExpert(static_cast<uint32_t>(divideUp(record.bytes, config.pageBytes)));
  }
  uint64_t lists = mostExpertsHeld(config);
  pageLists.resize(lists * listPages);
  freeLists.reserve(lists);
  for (uint64_t list = lists; list-- > 0;)
    freeLists.push_back(static_cast<uint32_t>(list));
  for (std::vector<uint32_t> *perPass : {&wanted, &toRead, &ready})
    perPass->reserve(directorySizeOf(config).widestLayer);
  leaving.reserve(mostLeaving(config));
  pieces.reserve(listPages);
  pageNumbers.reserve(listPages);
  checks.reserve(mostChecks(config));
}

ExpertCache::~ExpertCache() {
  drain();
}

//===-- A layer pass
//--------------------------------------------------------------------------------===//

Status ExpertCache::checkCall(bool needsPass, const char *function) const {
  if (!broken.isOk())
    return broken;
  if (isPassOpen != needsPass)
    return failed(fileName, ": ", function, isPassOpen ? " during a pass" : " outside a pass",
                  " of a layer");
  return {};
}

Status ExpertCache::beginLayer(uint32_t layer, const PassDemand &demand) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginLayer"));
  if (layer >= layers.size())
    return failed(fileName, ": beginLayer of ", layer, ", there are ", layers.size());
  // Prefetches that have arrived are ready from the start.
  if (prefetchesLoading > 0)
    MOERT_RETURN_IF_ERROR(collect(false));
  if (!directory.beginPass(layer, demand))
    return refuseDemand(layer, demand.wanted);
  passStats = std::exchange(betweenStats, {});
  for (std::vector<uint32_t> *perPass : {&wanted, &toRead, &ready, &leaving})
    perPass->clear();
  nextRead = handedOut = released = nextLeaving = 0;
  isPassOpen = true;
  for (uint32_t expert : demand.wanted) {
    wanted.push_back(directory.idOf(layer, expert));
    passStats.hits += directory.at(wanted.back()).isHeld;
  }
  passStats.misses = wanted.size() - passStats.hits;
  passStats.ready = passStats.hits;
  beginPrefetches(layer);
  queueReads();
  Status started = startReads();
  return started.isOk() ? std::move(started) : fail(std::move(started));
}

Status ExpertCache::refuseDemand(uint32_t layer, std::span<const uint32_t> demanded) const {
  size_t index = 0;
  while (demanded[index] < layers[layer].records.size() &&
         std::count(demanded.begin(), demanded.begin() + ptrdiff_t(index), demanded[index]) == 0)
    ++index;
  bool isKnown = demanded[index] < layers[layer].records.size();
  return failed(fileName, ": layer ", layers[layer].layer, " was asked for expert ",
                demanded[index], isKnown ? " twice" : ", which it does not have");
}

/// Experts that pass through are read first, then those that stay: as long as the latter are not
/// there, their pages serve the former.
void ExpertCache::queueReads() {
  for (uint32_t id : directory.unkept())
    if (directory.at(id).isHeld && !directory.at(id).isWanted)
      leaving.push_back(id);
  for (bool isKept : {false, true})
    for (uint32_t id : wanted)
      if (!directory.at(id).isHeld && directory.at(id).isKept == isKept)
        toRead.push_back(id);
  for (uint32_t index = 0; index < wanted.size(); ++index)
    if (experts[wanted[index]].slicesReady > 0)
      ready.push_back(index);
}

Status ExpertCache::startReads() {
  for (; nextRead < toRead.size(); ++nextRead) {
    if (queue.readsUnderWay() == queue.maxReads())
      return {};
    while (!directory.hasRoomFor(toRead[nextRead])) {
      if (nextLeaving == leaving.size())
        return {};
      evict(leaving[nextLeaving++]);
    }
    MOERT_RETURN_IF_ERROR(startRead(toRead[nextRead]));
  }
  startPrefetches();
  return {};
}

Status ExpertCache::startRead(uint32_t id) {
  directory.hold(id);
  Status submitted = submitRead(id);
  if (!submitted.isOk() && broken.isOk())
    directory.drop(id);
  return submitted;
}

/// Of an expert that the directory lets have pages.
Status ExpertCache::submitRead(uint32_t id) {
  const ExpertRecord &record = recordOf(id);
  Expert &entry = experts[id];
  assert(entry.pageList == kNoPages && !freeLists.empty());
  entry.pageList = freeLists.back();
  freeLists.pop_back();
  std::span<std::byte *> pages = pagesOf(id);
  pageNumbers.resize(pages.size());
  bool isAllocated = pool.allocate(pageNumbers);
  assert(isAllocated && "the layers hold more than their quotas");
  (void)isAllocated;

  uint64_t pageBytes = uint64_t(1) << pageShift, left = record.bytes;
  pieces.clear();
  for (size_t i = 0; i < pages.size(); ++i) {
    pages[i] = poolMemory + (uint64_t(pageNumbers[i]) << pageShift);
    pieces.push_back({pages[i], std::min(left, pageBytes)});
    left -= pieces.back().bytes;
  }
  const uint64_t before = clock();
  Status submitted = queue.submit(id, record.fileOffset, pieces);
  submittingNs += clock() - before;
  if (!submitted.isOk()) {
    broken = queue.broken();
    if (broken.isOk()) // Otherwise some of it may still arrive there.
      givePagesBack(id);
    return std::move(submitted).withContext(nameOf(id));
  }
  entry.slicesLoading = static_cast<uint16_t>(record.slices.size());
  statsNow().bytesRead += record.bytes;
  return {};
}

/// Takes what has arrived, waiting for at least one read if asked to. The reads' tags are ids.
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
      Status completed =
          complete(static_cast<uint32_t>(completions[i].tag), std::move(completions[i].status));
      if (firstError.isOk())
        firstError = std::move(completed);
    }
    wait = false;
  } while (count == std::size(completions));
  return firstError;
}

Status ExpertCache::complete(uint32_t id, Status result) {
  Expert &entry = experts[id];
  bool wasPrefetch = std::exchange(entry.isReadAsPrefetch, false);
  prefetchesLoading -= wasPrefetch;
  entry.slicesReady = result.isOk() ? entry.slicesLoading : uint16_t(0);
  entry.slicesLoading = 0;
  if (directory.at(id).isPrefetch) {
    if (!result.isOk() || entry.isCancelled)
      letPrefetchGo(id);
    return {};
  }
  if (result.isOk()) {
    ready.push_back(directory.at(id).history.rank);
    return {};
  }
  givePagesBack(id);
  if (wasPrefetch) { // Nobody had asked for it then; now the demand does.
    directory.disownPrefetch(id);
    toRead.push_back(id);
    return {};
  }
  directory.drop(id);
  return std::move(result).withContext(nameOf(id));
}

/// What is still being read is waited for, so that nothing is written to pages which may be given
/// away.
void ExpertCache::drain() {
  while (broken.isOk() && queue.readsUnderWay() > 0)
    (void)collect(true);
}

/// The expert that is handed out next, and of those that are ready behind it as many as it takes
/// for every thread to have a slice. Not all of them: what is computed next is to be in a
/// processor's cache still.
Status ExpertCache::verifyReady() {
  const size_t enough = threads ? threads->threads() : 1;
  checks.clear();
  for (size_t i = handedOut; i < ready.size() && checks.size() < enough; ++i) {
    const uint32_t id = wanted[ready[i]];
    for (uint32_t s = 0; !experts[id].isVerified && s < recordOf(id).slices.size(); ++s)
      checks.push_back({id, s});
  }
  const uint64_t before = clock();
  auto compute = [&](uint64_t begin, uint64_t end, uint32_t) {
    for (SliceCheck &check : std::span(checks).subspan(begin, end - begin)) {
      const RecordSlice &slice = recordOf(check.id).slices[check.slice];
      const PagedBytes record{pagesOf(check.id).data(), pageShift, slice.offset};
      check.found = checksum64(record, slice.payloadBytes);
    }
  };
  if (threads)
    threads->run(checks.size(), 1, compute);
  else
    compute(0, checks.size(), 0);
  passStats.verifyNs += clock() - before;
  for (const SliceCheck &check : checks) {
    const uint64_t expected = recordOf(check.id).slices[check.slice].checksum;
    if (check.found != expected) {
      evict(check.id);
      return invalidInput(fileName, ": ", nameOf(check.id), ": slice ", check.slice,
                          " has checksum ", formatChecksum(check.found), ", expected ",
                          formatChecksum(expected));
    }
    experts[check.id].isVerified = true;
  }
  return {};
}

Result<int> ExpertCache::nextReady() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "nextReady"));
  bool isStalled = false;
  // Also when something is ready: the disk gets its next requests before the caller computes.
  for (bool wait = false; handedOut < wanted.size(); wait = true) {
    uint64_t before = wait ? clock() : 0;
    Status progressed = collect(wait);
    if (wait)
      passStats.waitNs += clock() - before;
    isStalled |= wait;
    if (progressed.isOk())
      progressed = startReads();
    if (!progressed.isOk())
      return fail(std::move(progressed));
    if (handedOut < ready.size())
      break;
    if (queue.readsUnderWay() == 0)
      return fail(failed(fileName, ": layer ", layers[directory.at(wanted.front()).layer].layer,
                         " has ", handedOut - released,
                         " experts in use and no pages to read another one"));
  }
  if (handedOut == wanted.size())
    return -1;
  uint32_t index = ready[handedOut];
  if (!experts[wanted[index]].isVerified) {
    Status verified = verifyReady();
    if (!verified.isOk())
      return fail(std::move(verified));
  }
  ++handedOut;
  passStats.stalled += isStalled;
  ++experts[wanted[index]].users;
  return static_cast<int>(index);
}

PagedBytes ExpertCache::bytes(int index) const {
  const Expert &entry = expertAt(index);
  assert(entry.users > 0);
  return {&pageLists[entry.pageList * listPages], pageShift, 0};
}

Status ExpertCache::release(int index) {
  MOERT_RETURN_IF_ERROR(checkCall(true, "release"));
  if (index < 0 || static_cast<size_t>(index) >= wanted.size() || expertAt(index).users == 0)
    return fail(failed(fileName, ": release of ", index, ", which is not in use"));
  --expertAt(index).users;
  ++released;
  uint32_t id = wanted[static_cast<size_t>(index)];
  if (!directory.at(id).isKept)
    leaving.push_back(id);
  Status started = startReads();
  return started.isOk() ? std::move(started) : fail(std::move(started));
}

Status ExpertCache::endLayer() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "endLayer"));
  if (released != wanted.size())
    return fail(failed(fileName, ": endLayer after ", released, " of ", wanted.size(),
                       " experts were released"));
  closePass();
  startPrefetches();
  passStats += std::exchange(betweenStats, {});
  closedStats += passStats;
  return {};
}

void ExpertCache::closePass() {
  for (uint32_t id : wanted)
    experts[id].users = 0;
  for (uint32_t id : directory.unkept())
    if (directory.at(id).isHeld && experts[id].slicesReady > 0)
      evict(id);
  directory.endPass();
  isPassOpen = false;
}

void ExpertCache::abandonPass() {
  if (isPassOpen)
    (void)fail({});
}

/// Ends the layer pass with an error.
Status ExpertCache::fail(Status reason) {
  drain();
  if (broken.isOk()) {
    closePass();
    letAllPrefetchesGo();
  }
  return reason;
}

//===-- Pages ---------------------------------------------------------------------------------===//

const ExpertRecord &ExpertCache::recordOf(uint32_t id) const {
  return layers[directory.at(id).layer].records[directory.expertOf(id)];
}

std::span<std::byte *> ExpertCache::pagesOf(uint32_t id) {
  return {&pageLists[experts[id].pageList * listPages], directory.at(id).pages};
}

void ExpertCache::evict(uint32_t id) {
  givePagesBack(id);
  directory.drop(id);
  ++passStats.evictions;
}

void ExpertCache::givePagesBack(uint32_t id) {
  Expert &entry = experts[id];
  assert(entry.users == 0 && entry.slicesLoading == 0 && entry.pageList != kNoPages);
  pageNumbers.clear();
  for (const std::byte *page : pagesOf(id))
    pageNumbers.push_back(static_cast<uint32_t>((page - poolMemory) >> pageShift));
  pool.release(pageNumbers);
  freeLists.push_back(entry.pageList);
  entry = {};
}

bool ExpertCache::isReady(uint32_t layer, uint32_t expert) const {
  uint32_t id = directory.idOf(layer, expert);
  return directory.at(id).isHeld && experts[id].slicesReady > 0;
}

std::string ExpertCache::nameOf(uint32_t id) const {
  return strCat("layer ", layers[directory.at(id).layer].layer, " expert ", directory.expertOf(id));
}

} // namespace moert
