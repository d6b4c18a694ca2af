#include "runtime/experts/CacheConfigCheck.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <bit>

namespace moert {

static constexpr uint64_t kBlock = 4096; // For direct I/O.
static constexpr uint64_t kMaxPageBytes = 1024 * 1024;
// Counters of slices in the cache have 16 bits; a record has a handful.
static constexpr uint64_t kMaxSlices = 1024;

static ExpertPages pagesOf(const ExpertRecord &record, const CacheConfig &config) {
  const uint16_t base =
      baseSlicesOf(record.slices.size(), record.lowCopySlices, config.rules.baseSlices);
  return expertPagesOf(record.bytes, base, base > 0 ? record.slices[base].offset : 0,
                       record.lowCopySlices > 0, config.pageBytes);
}

/// The most pages that an expert of the layer needs; 0 without records.
static uint64_t largestRecordPages(const CacheLayer &layer, const CacheConfig &config) {
  uint64_t pages = 0;
  for (const ExpertRecord &record : layer.records)
    pages = std::max<uint64_t>(pages, pagesOf(record, config).most());
  return pages;
}

/// The fewest pages that an expert of the layer can be held with; 0 without records.
static uint64_t smallestRecordPages(const CacheLayer &layer, const CacheConfig &config) {
  uint64_t pages = layer.records.empty() ? 0 : UINT64_MAX;
  for (const ExpertRecord &record : layer.records)
    pages = std::min<uint64_t>(pages, pagesOf(record, config).least());
  return pages;
}

// How many of the smallest records fit, but no more than there are.
static uint64_t mostRecordsIn(uint64_t pages, uint64_t smallestPages, uint64_t records) {
  return records == 0 ? 0 : std::min(records, pages / smallestPages);
}

uint64_t mostExpertsHeld(const CacheConfig &config) {
  uint64_t between = 0, mostMore = 0;
  uint64_t records = 0, quotas = 0, smallestOfAll = UINT64_MAX;
  for (const CacheLayer &layer : config.layers) {
    uint64_t smallest = smallestRecordPages(layer, config);
    uint64_t kept = mostRecordsIn(layer.quotaPages, smallest, layer.records.size());
    uint64_t executed =
        mostRecordsIn(layer.quotaPages + config.stagingPages, smallest, layer.records.size());
    between += kept;
    mostMore = std::max(mostMore, executed - kept);
    records += layer.records.size();
    quotas += layer.quotaPages;
    if (smallest > 0)
      smallestOfAll = std::min(smallestOfAll, smallest);
  }
  if (config.rules.sharing == CacheSharing::kOnePool)
    return mostRecordsIn(quotas + config.stagingPages, smallestOfAll, records);
  // Prefetches have what the executed layer does not take of the staging pages; the sum of both
  // limits is more than can be, by a few lists.
  uint64_t prefetched = config.prefetchesUnderWay == 0
                            ? 0
                            : mostRecordsIn(config.stagingPages, smallestOfAll, records);
  return std::min(records, between + mostMore + prefetched);
}

void makeLists(const CacheConfig &config, uint64_t pagesPerList,
               std::vector<std::byte *> &pageLists, std::vector<uint32_t> &freeLists) {
  const uint64_t lists = mostExpertsHeld(config);
  pageLists.resize(lists * pagesPerList);
  freeLists.reserve(lists);
  for (uint64_t list = lists; list-- > 0;)
    freeLists.push_back(static_cast<uint32_t>(list));
}

static Status checkRecord(const ExpertRecord &record, const ReadQueue &queue,
                          const CacheConfig &config) {
  if (record.bytes == 0 || record.bytes % kBlock != 0 || record.fileOffset % kBlock != 0)
    return invalidInput("the record has ", record.bytes, " bytes at offset ", record.fileOffset,
                        ", expected multiples of ", kBlock);
  if (record.slices.empty() || record.slices.size() > kMaxSlices)
    return invalidInput("the record has ", record.slices.size(), " slices, expected 1 to ",
                        kMaxSlices);
  uint64_t end = 0;
  for (const RecordSlice &slice : record.slices) {
    if (slice.offset != end || slice.bytes == 0 || slice.bytes % kBlock != 0 ||
        slice.bytes > record.bytes - end || slice.payloadBytes > slice.bytes)
      return invalidInput("a slice has ", slice.payloadBytes, " of ", slice.bytes,
                          " bytes at offset ", slice.offset, ", expected it at offset ", end,
                          " of ", record.bytes);
    end += slice.bytes;
  }
  if (end != record.bytes)
    return invalidInput("the slices end at ", end, ", the record at ", record.bytes);
  if (record.lowCopySlices >= record.slices.size())
    return invalidInput("the low copy has ", record.lowCopySlices, " of ", record.slices.size(),
                        " slices, expected fewer");
  const uint64_t copy = record.slices[record.lowCopySlices].offset,
                 bytes = std::max(copy, record.bytes - copy),
                 pages = pagesOf(record, config).most();
  if (bytes > queue.maxReadBytes() || pages > queue.maxPiecesPerRead())
    return invalidInput("the record has ", bytes, " bytes on ", pages,
                        " pages, but a read is limited to ", queue.maxReadBytes(), " bytes and ",
                        queue.maxPiecesPerRead(), " pieces");
  return {};
}

static Status checkLayer(const CacheLayer &layer, const CacheConfig &config, uint64_t sharedPages,
                         const ReadQueue &queue) {
  for (size_t expert = 0; expert < layer.records.size(); ++expert) {
    Status checked = checkRecord(layer.records[expert], queue, config);
    if (!checked.isOk())
      return std::move(checked).withContext(strCat("layer ", layer.layer, " expert ", expert));
  }
  uint64_t largest = largestRecordPages(layer, config);
  if (sharedPages + config.stagingPages < largest)
    return invalidInput("layer ", layer.layer, " has ", sharedPages, " pages and ",
                        config.stagingPages, " in staging, its largest record needs ", largest);
  return {};
}

Status checkCacheConfig(const CacheConfig &config, const ReadQueue &queue) {
  if (!std::has_single_bit(config.pageBytes) || config.pageBytes < kBlock ||
      config.pageBytes > kMaxPageBytes)
    return invalidInput(config.fileName, ": the page size is ", config.pageBytes,
                        ", expected a power of two from ", kBlock, " to ", kMaxPageBytes);
  if (reinterpret_cast<uintptr_t>(config.pool.data()) % kBlock != 0)
    return failed(config.fileName, ": the expert cache's memory is not aligned at ", kBlock);
  uint64_t total = config.stagingPages;
  uint64_t experts = 0;
  for (const CacheLayer &layer : config.layers) {
    std::optional<uint64_t> sum = checkedAdd(total, layer.quotaPages);
    if (!sum)
      return invalidInput(config.fileName, ": the cache's pages are more than can be counted");
    total = *sum;
    experts += layer.records.size();
  }
  bool isOnePool = config.rules.sharing == CacheSharing::kOnePool;
  for (const CacheLayer &layer : config.layers) {
    uint64_t pages = isOnePool ? total - config.stagingPages : layer.quotaPages;
    MOERT_RETURN_IF_ERROR(checkLayer(layer, config, pages, queue).withContext(config.fileName));
  }
  if (total > config.pool.size() / config.pageBytes)
    return invalidInput(config.fileName, ": the expert cache has ",
                        config.pool.size() / config.pageBytes,
                        " pages, its layers and the staging ", "pages need ", total);
  if (config.pool.size() / config.pageBytes > UINT32_MAX)
    return invalidInput(config.fileName, ": the expert cache has ",
                        config.pool.size() / config.pageBytes, " pages, expected at most ",
                        UINT32_MAX);
  if (experts > UINT32_MAX)
    return invalidInput(config.fileName, ": has ", experts, " experts");
  return {};
}

} // namespace moert
