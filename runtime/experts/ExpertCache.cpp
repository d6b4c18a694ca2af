#include "runtime/experts/ExpertCache.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/experts/CacheConfigCheck.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace moert {

static DirectorySize directorySizeOf(const CacheConfig &config) {
  DirectorySize size{.layers = config.layers.size()};
  for (const CacheLayer &layer : config.layers) {
    size.experts += layer.records.size();
    size.widestLayer = std::max(size.widestLayer, layer.records.size());
  }
  return size;
}

static uint64_t longestRecordPages(const CacheConfig &config) {
  uint64_t bytes = 0;
  for (const CacheLayer &layer : config.layers)
    for (const ExpertRecord &record : layer.records)
      bytes = std::max(bytes, record.bytes);
  return divideUp(bytes, config.pageBytes);
}

CacheDirectory directoryOf(const CacheConfig &config) {
  CacheDirectory directory(config.rules, config.stagingPages, directorySizeOf(config));
  std::vector<uint64_t> sliceEnds;
  for (const CacheLayer &layer : config.layers) {
    directory.addLayer(layer.quotaPages, layer.repeatsEveryStep);
    for (const ExpertRecord &record : layer.records) {
      sliceEnds.clear();
      for (const RecordSlice &slice : record.slices)
        sliceEnds.push_back(slice.offset + slice.bytes);
      directory.addExpert(sliceEnds, config.pageBytes, record.lowCopySlices);
    }
  }
  return directory;
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
      machine(directoryOf(config), {queue.maxReads(), config.prefetchesUnderWay}),
      experts(machine.state().size().experts), listPages(longestRecordPages(config)) {
  makeLists(config, listPages, pageLists, freeLists);
  pieces.reserve(listPages);
  pageNumbers.reserve(listPages);
  checks.reserve(mostChecks(config));
}

ExpertCache::~ExpertCache() {
  drain();
}

//===-- A layer pass --------------------------------------------------------------------------===//

Status ExpertCache::checkCall(bool needsPass, const char *function) const {
  if (!broken.isOk())
    return broken;
  if (machine.state().isPassOpen() != needsPass)
    return failed(fileName, ": ", function, needsPass ? " outside a pass" : " during a pass",
                  " of a layer");
  return {};
}

Status ExpertCache::beginLayer(uint32_t layer, const PassDemand &demand) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginLayer"));
  if (layer >= layers.size())
    return failed(fileName, ": beginLayer of ", layer, ", there are ", layers.size());
  // Prefetches that have arrived are ready from the start.
  if (machine.readsUnderWay() > 0)
    MOERT_RETURN_IF_ERROR(collect(false));
  if (!machine.beginPass(layer, demand))
    return refuseDemand(layer, demand.wanted);
  lastTimes = {};
  Status acted = act();
  return acted.isOk() ? std::move(acted) : fail(std::move(acted));
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

/// Carries out what the machine decides until it waits for a read, a release or a layer pass.
Status ExpertCache::act() {
  while (const std::optional<CacheAction> action = machine.next())
    if (action->isRead)
      MOERT_RETURN_IF_ERROR(read(*action));
    else
      givePagesBack(*action);
  return {};
}

/// For the slices that are read, after the pages of those before them.
void ExpertCache::takePages(const CacheAction &read) {
  Expert &entry = experts[read.id];
  if (entry.pageList == kNoPages) {
    assert(!freeLists.empty() && entry.pages.count() == 0);
    entry.pageList = freeLists.back();
    freeLists.pop_back();
  }
  const uint32_t before = entry.pages.count();
  entry.pages = machine.state().pageRangeFor(read.id, read.endSlice);
  const std::span<std::byte *> pages = pagesOf(read.id).subspan(before);
  pageNumbers.resize(pages.size());
  bool isAllocated = pool.allocate(pageNumbers);
  assert(isAllocated);
  (void)isAllocated;
  for (size_t i = 0; i < pages.size(); ++i)
    pages[i] = poolMemory + (uint64_t(pageNumbers[i]) << pageShift);
}

/// A read that cannot be begun is one that has failed, unless some of it may still arrive. Further
/// slices of an expert that has pages go where they belong in them.
Status ExpertCache::read(const CacheAction &action) {
  const uint32_t id = action.id;
  const ExpertRecord &record = recordOf(id);
  takePages(action);
  experts[id].verifiedSlices = std::min(experts[id].verifiedSlices, action.firstSlice);
  std::byte *const *const pages = pageListOf(id);
  const RecordSlice &last = record.slices[action.endSlice - 1u];
  const uint64_t pageBytes = uint64_t(1) << pageShift, end = last.offset + last.bytes;
  const uint64_t begin = record.slices[action.firstSlice].offset;
  pieces.clear();
  for (uint64_t offset = begin; offset < end; offset += pieces.back().bytes) {
    const uint64_t inPage = offset & (pageBytes - 1);
    pieces.push_back(
        {pages[offset >> pageShift] + inPage, std::min(end - offset, pageBytes - inPage)});
  }
  const uint64_t before = clock();
  Status submitted = queue.submit(id, record.fileOffset + begin, pieces);
  const uint64_t after = clock();
  submittingNs += after - before;
  countReads(after);
  if (submitted.isOk()) {
    ++readingTimes.reads;
    return submitted;
  }
  broken = queue.broken();
  return broken.isOk() ? complete(id, std::move(submitted))
                       : std::move(submitted).withContext(nameOf(id));
}

Status ExpertCache::complete(uint32_t id, Status result) {
  return machine.completed(id, result.isOk()) ? Status()
                                              : std::move(result).withContext(nameOf(id));
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
    if (count > 0)
      countReads(clock());
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

/// Call after the number of reads under way has changed.
void ExpertCache::countReads(uint64_t atNs) {
  if (countedReads > 0) {
    readingTimes.busyNs += atNs - countedNs;
    readingTimes.underWayNs += countedReads * (atNs - countedNs);
  }
  countedNs = atNs;
  countedReads = queue.readsUnderWay();
}

/// Waits for all reads, so that none writes to pages that are given away.
void ExpertCache::drain() {
  while (broken.isOk() && queue.readsUnderWay() > 0)
    (void)collect(true);
}

/// Checks the expert that is handed out next, and as many of the ready ones after it as it takes
/// for every thread to have a slice. Not all of them: what is computed next is to be still in a
/// processor's cache.
Status ExpertCache::verifyReady() {
  const size_t enough = threads ? threads->threads() : 1;
  checks.clear();
  for (uint32_t index : machine.ready()) {
    if (checks.size() >= enough)
      break;
    const uint32_t id = machine.idOf(index);
    const CacheUnit &unit = machine.at(id).unit;
    for (uint32_t s = std::max(experts[id].verifiedSlices, unit.firstOf(unit.slicesPresent));
         s < unit.slicesPresent; ++s)
      checks.push_back({id, s});
  }
  const uint64_t before = clock();
  auto compute = [&](uint64_t begin, uint64_t end, uint32_t) {
    for (SliceCheck &check : std::span(checks).subspan(begin, end - begin)) {
      const RecordSlice &slice = recordOf(check.id).slices[check.slice];
      const PagedBytes record{pageListOf(check.id), pageShift, slice.offset};
      check.found = checksum64(record, slice.payloadBytes);
    }
  };
  if (threads)
    threads->run(checks.size(), 1, compute);
  else
    compute(0, checks.size(), 0);
  lastTimes.verifyNs += clock() - before;
  for (const SliceCheck &check : checks) {
    const uint64_t expected = recordOf(check.id).slices[check.slice].checksum;
    if (check.found != expected) {
      machine.discard(check.id);
      return invalidInput(fileName, ": ", nameOf(check.id), ": slice ", check.slice,
                          " has checksum ", formatChecksum(check.found), ", expected ",
                          formatChecksum(expected));
    }
    experts[check.id].verifiedSlices = static_cast<uint16_t>(check.slice + 1);
  }
  return {};
}

Result<int> ExpertCache::nextReady() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "nextReady"));
  bool isStalled = false;
  // Also when something is ready: the disk gets its next requests before the caller computes.
  for (bool wait = false; !machine.isAllHandedOut(); wait = true) {
    uint64_t before = wait ? clock() : 0;
    Status progressed = wait || machine.readsUnderWay() > 0 ? collect(wait) : Status();
    if (wait)
      lastTimes.waitNs += clock() - before;
    isStalled |= wait;
    if (progressed.isOk())
      progressed = act();
    if (!progressed.isOk())
      return fail(std::move(progressed));
    if (!machine.ready().empty())
      break;
    if (machine.readsUnderWay() == 0)
      return fail(failed(fileName, ": layer ", layers[machine.at(machine.idOf(0)).layer].layer,
                         " has ", machine.inUseCount(),
                         " experts in use and no pages to read another one"));
  }
  if (machine.isAllHandedOut())
    return -1;
  const uint32_t next = machine.idOf(machine.ready().front());
  if (experts[next].verifiedSlices < machine.at(next).unit.slicesPresent) {
    Status verified = verifyReady();
    if (!verified.isOk())
      return fail(std::move(verified));
  }
  return static_cast<int>(machine.handOut(isStalled));
}

bool ExpertCache::isInUse(int index) const {
  const std::span<const uint32_t> wanted = machine.state().wanted();
  return index >= 0 && static_cast<size_t>(index) < wanted.size() &&
         machine.at(wanted[static_cast<size_t>(index)]).unit.state == UnitState::kInUse;
}

PagedBytes ExpertCache::bytes(int index) const {
  assert(isInUse(index));
  return {pageListOf(machine.idOf(static_cast<size_t>(index))), pageShift, 0};
}

uint16_t ExpertCache::slicesOf(int index) const {
  assert(isInUse(index));
  return machine.at(machine.idOf(static_cast<size_t>(index))).unit.slicesPresent;
}

Status ExpertCache::release(int index) {
  MOERT_RETURN_IF_ERROR(checkCall(true, "release"));
  if (!isInUse(index))
    return fail(failed(fileName, ": release of ", index, ", which is not in use"));
  machine.release(static_cast<uint32_t>(index));
  Status acted = act();
  return acted.isOk() ? std::move(acted) : fail(std::move(acted));
}

Status ExpertCache::endLayer() {
  MOERT_RETURN_IF_ERROR(checkCall(true, "endLayer"));
  const size_t wanted = machine.state().wanted().size();
  if (machine.releasedCount() != wanted)
    return fail(failed(fileName, ": endLayer after ", machine.releasedCount(), " of ", wanted,
                       " experts were released"));
  machine.endPass();
  MOERT_RETURN_IF_ERROR(act());
  MOERT_RETURN_IF_ERROR(settlePromotions());
  lastCounts = machine.takeCounts();
  closedCounts += lastCounts;
  closedTimes += lastTimes;
  return {};
}

Status ExpertCache::settlePromotions() {
  while (!machine.settlePromotions()) {
    const uint64_t before = clock();
    Status progressed = collect(machine.readsUnderWay() > 0);
    lastTimes.waitNs += clock() - before;
    MOERT_RETURN_IF_ERROR(std::move(progressed));
    MOERT_RETURN_IF_ERROR(act());
  }
  return act();
}

Status ExpertCache::advanceReads() {
  if (!broken.isOk())
    return broken;
  Status advanced = machine.readsUnderWay() > 0 ? collect(false) : Status();
  if (advanced.isOk())
    advanced = act();
  return advanced.isOk() ? std::move(advanced) : fail(std::move(advanced));
}

void ExpertCache::abandonPass() {
  (void)fail({});
}

/// Ends the layer pass with an error, if one is open.
Status ExpertCache::fail(Status reason) {
  if (!machine.state().isPassOpen())
    return reason;
  drain();
  if (broken.isOk()) {
    machine.abandonPass();
    (void)act(); // Pages are given back; no read is left to begin.
    lastCounts = machine.takeCounts();
  }
  return reason;
}

//===-- Pages ---------------------------------------------------------------------------------===//

const ExpertRecord &ExpertCache::recordOf(uint32_t id) const {
  return layers[machine.at(id).layer].records[machine.state().expertOf(id)];
}

void ExpertCache::givePagesBack(const CacheAction &action) {
  Expert &entry = experts[action.id];
  assert(entry.pageList != kNoPages);
  const PageRange left = machine.state().pageRangeFor(action.id, action.firstSlice);
  pageNumbers.clear();
  for (const std::byte *page : pagesOf(action.id).subspan(left.count()))
    pageNumbers.push_back(static_cast<uint32_t>((page - poolMemory) >> pageShift));
  pool.release(pageNumbers);
  entry.pages = left;
  entry.verifiedSlices = std::min(entry.verifiedSlices, action.firstSlice);
  if (left.count() > 0)
    return;
  freeLists.push_back(entry.pageList);
  entry.pageList = kNoPages;
}

bool ExpertCache::isReady(uint32_t layer, uint32_t expert) const {
  return machine.at(machine.state().idOf(layer, expert)).unit.isResident();
}

std::string ExpertCache::nameOf(uint32_t id) const {
  return strCat("layer ", layers[machine.at(id).layer].layer, " expert ",
                machine.state().expertOf(id));
}

} // namespace moert
