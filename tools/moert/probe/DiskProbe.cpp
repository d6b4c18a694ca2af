#include "tools/moert/probe/DiskProbe.h"

#include "tools/moert/probe/ProbeReader.h"

#include <algorithm>
#include <array>
#include <optional>

namespace moert::probe {

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kSecondNs = 1'000'000'000;

// Experts of 0.4 to 4 MiB are what models have; smaller reads show the cost of a request.
constexpr std::array<uint64_t, 6> kDirectSizes = {4 * kKiB,   16 * kKiB, 64 * kKiB,
                                                  256 * kKiB, kMiB,      4 * kMiB};
constexpr std::array<uint32_t, 5> kDirectDepths = {1, 2, 4, 8, 16};
constexpr std::array<uint64_t, 4> kBufferedSizes = {4 * kKiB, 64 * kKiB, kMiB, 4 * kMiB};
constexpr std::array<uint32_t, 3> kBufferedDepths = {1, 4, 16};

constexpr uint64_t kDirectNs = 7 * kSecondNs, kBufferedNs = 3 * kSecondNs;
constexpr uint64_t kCachedNs = kSecondNs / 4;
/// Of one long measurement. A disk that is held to a rate hands it out in portions, of a tenth of a
/// second in Linux, so that short measurements see anything from several times the rate to none.
constexpr uint64_t kSustainedNs = kSecondNs / 2;

/// Keeps `depth` reads under way until the time is over or the places are; then the rest is
/// awaited, as a burst of demand reads is. Bytes per second.
Result<double> measure(const ProbeRun &run, ProbeReader &reader, const ReadPoint &point,
                       Places &places, uint64_t durationNs) {
  uint64_t readBytes = 0, submitted = 0;
  bool isOver = false;
  const uint64_t begin = run.nowNs();
  while (!isOver || reader.underWay() > 0) {
    for (; !isOver && reader.underWay() < point.depth; ++submitted) {
      const std::optional<uint64_t> offset = places.next();
      isOver = !offset || (submitted >= point.depth && run.nowNs() - begin >= durationNs);
      if (!isOver)
        MOERT_RETURN_IF_ERROR(reader.begin(*offset, point.bytes));
    }
    MOERT_ASSIGN_OR_RETURN(size_t count, reader.takeEnded(true));
    readBytes += count * point.bytes;
  }
  const uint64_t ns = std::max<uint64_t>(1, run.nowNs() - begin);
  return 1e9 * static_cast<double>(readBytes) / static_cast<double>(ns);
}

/// A point and what its measurements gave.
struct Cell {
  ReadPoint point;
  std::vector<double> rates;
};

/// The cell itself, or the one nearest to being it that was measured: of the same size with fewer
/// reads, or of a smaller one. The first cell always is.
const Cell &nearestMeasured(const std::vector<Cell> &cells, size_t index, size_t depths) {
  while (cells[index].rates.empty())
    index -= index % depths != 0 ? 1 : depths;
  return cells[index];
}

/// Whether a slow disk needs more than what is left of the time.
bool isTooSlow(const std::vector<Cell> &cells, size_t index, size_t depths, uint64_t leftNs) {
  if (index == 0)
    return leftNs == 0 && !cells[0].rates.empty();
  const double rate = nearestMeasured(cells, index, depths).rates.front();
  const double burstBytes =
      static_cast<double>(cells[index].point.bytes * cells[index].point.depth);
  return 1e9 * burstBytes / rate > static_cast<double>(leftNs);
}

/// What is planned for one way of reading.
struct Table {
  std::span<const uint64_t> sizes;
  std::span<const uint32_t> depths;
  uint64_t plannedNs;
  bool isBuffered;
  const char *step; // For the progress line.
};

/// All cells in turn, kRounds times; what would not fit into the time any more is derived.
Result<std::vector<ReadPoint>> measureTable(ProbeRun &run, ProbeReader &reader,
                                            const ProbeFile &file, const Table &table) {
  std::vector<Cell> cells;
  for (uint64_t bytes : table.sizes)
    for (uint32_t depth : table.depths)
      cells.push_back({{bytes, depth, {}}, {}});
  const uint64_t cellNs = table.plannedNs / (cells.size() * kRounds), begin = run.nowNs();
  for (uint32_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < cells.size(); ++i) {
      const ReadPoint &point = cells[i].point;
      MOERT_RETURN_IF_ERROR(run.begin(table.step, cellNs));
      const uint64_t spentNs = run.nowNs() - begin;
      if (isTooSlow(cells, i, table.depths.size(),
                    table.plannedNs - std::min(table.plannedNs, spentNs)))
        continue;
      if (table.isBuffered)
        MOERT_RETURN_IF_ERROR(file.dropFromCache());
      Places places(file.bytes(), point.bytes, table.isBuffered);
      MOERT_ASSIGN_OR_RETURN(double rate, measure(run, reader, point, places, cellNs));
      cells[i].rates.push_back(rate);
    }
  std::vector<ReadPoint> points;
  for (size_t i = 0; i < cells.size(); ++i) {
    const double rate = median(nearestMeasured(cells, i, table.depths.size()).rates);
    const bool isOwn = !cells[i].rates.empty();
    points.push_back(cells[i].point);
    points.back().bytesPerSecond = {rate, isOwn ? Origin::kMeasured : Origin::kDerived};
  }
  return points;
}

/// What the disk keeps up for long, of the point that seems to be the fastest. One that takes as
/// long by itself has been measured for long.
Result<double> measureSustained(ProbeRun &run, ProbeReader &reader, const ProbeFile &file,
                                const std::vector<ReadPoint> &points) {
  const ReadPoint &best = *std::ranges::max_element(
      points, {}, [](const ReadPoint &point) { return point.bytesPerSecond.value; });
  const double burstBytes = static_cast<double>(best.bytes) * best.depth;
  if (1e9 * burstBytes >= static_cast<double>(kSustainedNs) * best.bytesPerSecond.value)
    return best.bytesPerSecond.value;
  std::vector<double> rates;
  for (uint32_t round = 0; round <= kRounds; ++round) {
    MOERT_RETURN_IF_ERROR(run.begin("reading for longer", kSustainedNs));
    Places places(file.bytes(), best.bytes, false);
    MOERT_ASSIGN_OR_RETURN(double rate, measure(run, reader, best, places, kSustainedNs));
    rates.push_back(rate);
  }
  return sustainedRate(std::move(rates));
}

/// Points that are faster than what the disk keeps up, by more than noise, have that rate.
void holdTo(double most, std::vector<ReadPoint> &points) {
  constexpr double kNoise = 1.1;
  for (ReadPoint &point : points)
    if (point.bytesPerSecond.value > kNoise * most)
      point.bytesPerSecond = {most, Origin::kDerived};
}

/// The first backend that works, as --io auto takes it.
Result<IoBackend> firstBackend(const ArtifactFile &file, HostRegion &memory) {
  Status refusal;
  for (IoBackend backend : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
    Result<ProbeReader> reader = ProbeReader::create(file, memory, backend);
    if (reader.isOk())
      return backend;
    refusal = reader.status();
  }
  return refusal;
}

Result<Number> measureCached(ProbeRun &run, ProbeReader &reader, const ProbeFile &file) {
  // Less than the page cache of a small container holds.
  const uint64_t bytes = std::min(file.bytes(), 32 * kMiB);
  Places once(bytes, kMiB, true);
  MOERT_RETURN_IF_ERROR(measure(run, reader, {kMiB, 1, {}}, once, kCachedNs).status());
  std::vector<double> rates;
  for (uint32_t round = 0; round < kRounds; ++round) {
    MOERT_RETURN_IF_ERROR(run.begin("reading from the page cache", kCachedNs / kRounds));
    Places places(bytes, kMiB, false);
    MOERT_ASSIGN_OR_RETURN(double rate,
                           measure(run, reader, {kMiB, 1, {}}, places, kCachedNs / kRounds));
    rates.push_back(rate);
  }
  return Number{median(rates), Origin::kMeasured};
}

} // namespace

double sustainedRate(std::vector<double> rates) {
  rates.erase(rates.begin());
  return median(std::move(rates));
}

uint64_t plannedDiskNs() {
  return kDirectNs + kBufferedNs + kCachedNs + (kRounds + 1) * kSustainedNs;
}

Result<DiskReport> probeDisk(ProbeRun &run, const ProbeFile &file) {
  MOERT_ASSIGN_OR_RETURN(ArtifactFile opened, file.open());
  MOERT_ASSIGN_OR_RETURN(HostRegion memory, HostRegion::create(kProbeMemoryBytes));
  DiskReport report;
  std::optional<double> most; // That the disk keeps up.
  report.fileBytes = file.bytes();
  MOERT_ASSIGN_OR_RETURN(report.backend, firstBackend(opened, memory));
  {
    MOERT_ASSIGN_OR_RETURN(ProbeReader reader,
                           ProbeReader::create(opened, memory, IoBackend::kAuto));
    report.description = reader.describe();
    report.hasRegisteredBuffers =
        report.description.find(", registered buffers") != std::string::npos;
    if (report.backend != IoBackend::kBuffered) {
      MOERT_ASSIGN_OR_RETURN(report.direct, measureTable(run, reader, file,
                                                         {kDirectSizes, kDirectDepths, kDirectNs,
                                                          false, "reading past the page cache"}));
      MOERT_ASSIGN_OR_RETURN(most, measureSustained(run, reader, file, report.direct));
      holdTo(*most, report.direct);
    }
  }
  MOERT_ASSIGN_OR_RETURN(ProbeReader buffered,
                         ProbeReader::create(opened, memory, IoBackend::kBuffered));
  MOERT_ASSIGN_OR_RETURN(report.buffered,
                         measureTable(run, buffered, file,
                                      {kBufferedSizes, kBufferedDepths, kBufferedNs, true,
                                       "reading through the page cache"}));
  if (most)
    holdTo(*most, report.buffered);
  MOERT_RETURN_IF_ERROR(file.dropFromCache());
  MOERT_ASSIGN_OR_RETURN(report.cachedBytesPerSecond, measureCached(run, buffered, file));
  MOERT_RETURN_IF_ERROR(file.dropFromCache());
  return report;
}

} // namespace moert::probe
