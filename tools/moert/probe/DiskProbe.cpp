#include "tools/moert/probe/DiskProbe.h"

#include <algorithm>
#include <utility>

namespace moert::probe {

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kSecondNs = 1'000'000'000;

// Models have experts of 0.4 to 4 MiB; smaller reads show the cost of a request. 2 MiB is the
// number of bytes in flight that a queue allows by default: larger records are read in parts, so
// their times do not lie on a line with those of smaller ones.
ReadCells::Plan directPlan() {
  return {{4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB, 4 * kMiB},
          {1, 2, 4, 8, 16},
          7 * kSecondNs,
          false,
          "reading past the page cache"};
}
ReadCells::Plan bufferedPlan() {
  return {{4 * kKiB, 64 * kKiB, kMiB, 4 * kMiB},
          {1, 4, 16},
          2 * kSecondNs,
          true,
          "reading through the page cache"};
}

constexpr uint64_t kCachedNs = kSecondNs / 4;
constexpr uint32_t kCachedTurns = 3;
/// Duration of one long measurement. A rate limit grants bytes in portions (per 0.1 s in Linux), so
/// short measurements see anything from zero to several times the rate.
constexpr uint64_t kSustainedNs = kSecondNs / 2;
constexpr uint32_t kSustainedTurns = 3;

/// Keeps `depth` reads in flight until the time is over or no places are left, and waits for the
/// rest, as a burst of demand reads does. Returns bytes per second.
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

/// Limits points that exceed the sustained rate by more than noise to that rate.
void holdTo(double most, std::vector<ReadPoint> &points) {
  constexpr double kNoise = 1.1;
  for (ReadPoint &point : points)
    if (point.bytesPerSecond.value > kNoise * most)
      point.bytesPerSecond = {most, Origin::kDerived};
}

/// The first backend that works, in the order of --io auto.
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

} // namespace

double sustainedRate(std::vector<double> rates) {
  rates.erase(rates.begin());
  return median(std::move(rates));
}

//===-- One way of reading --------------------------------------------------------------------===//

ReadCells::ReadCells(Plan of) : plan(std::move(of)) {
  for (uint64_t bytes : plan.sizes)
    for (uint32_t depth : plan.depths)
      cells.push_back({{bytes, depth, {}}, {}});
}

/// The cell, or the nearest one that was measured: the same size with fewer reads, or a smaller
/// size. The first cell is always measured.
const ReadCells::Cell &ReadCells::nearestMeasured(size_t index) const {
  const size_t depths = plan.depths.size();
  while (cells[index].rates.empty())
    index -= index % depths != 0 ? 1 : depths;
  return cells[index];
}

/// Whether one burst of this cell takes a slow disk longer than the remaining time.
bool ReadCells::isTooSlow(size_t index, uint64_t leftNs) const {
  if (index == 0)
    return leftNs == 0 && !cells[0].rates.empty();
  const double rate = nearestMeasured(index).rates.front();
  const double burstBytes =
      static_cast<double>(cells[index].point.bytes * cells[index].point.depth);
  return 1e9 * burstBytes / rate > static_cast<double>(leftNs);
}

Status ReadCells::measureRound(ProbeRun &run, ProbeReader &reader, const ProbeFile &file) {
  const uint64_t cellNs = plan.ns / (cells.size() * kRounds);
  for (size_t i = 0; i < cells.size(); ++i) {
    const ReadPoint &point = cells[i].point;
    MOERT_RETURN_IF_ERROR(run.begin(plan.step, cellNs));
    if (isTooSlow(i, plan.ns - std::min(plan.ns, spentNs)))
      continue;
    const uint64_t begin = run.nowNs();
    if (plan.isBuffered)
      MOERT_RETURN_IF_ERROR(file.dropFromCache());
    Places places(file.bytes(), point.bytes, plan.isBuffered);
    MOERT_ASSIGN_OR_RETURN(double rate, measure(run, reader, point, places, cellNs));
    cells[i].rates.push_back(rate);
    spentNs += run.nowNs() - begin;
  }
  return {};
}

std::vector<ReadPoint> ReadCells::points() const {
  std::vector<ReadPoint> points;
  for (size_t i = 0; i < cells.size(); ++i) {
    const double rate = steadyRate(nearestMeasured(i).rates);
    points.push_back(cells[i].point);
    points.back().bytesPerSecond = {rate,
                                    cells[i].rates.empty() ? Origin::kDerived : Origin::kMeasured};
  }
  return points;
}

//===-- All of a disk -------------------------------------------------------------------------===//

Result<DiskProbe> DiskProbe::create(ProbeRun &run, const ProbeFile &file,
                                    const ArtifactFile &opened, HostRegion &memory) {
  MOERT_ASSIGN_OR_RETURN(IoBackend backend, firstBackend(opened, memory));
  MOERT_ASSIGN_OR_RETURN(ProbeReader planned,
                         ProbeReader::create(opened, memory, IoBackend::kAuto));
  MOERT_ASSIGN_OR_RETURN(ProbeReader buffered,
                         ProbeReader::create(opened, memory, IoBackend::kBuffered));
  return DiskProbe(run, file, std::move(planned), std::move(buffered), backend);
}

DiskProbe::DiskProbe(ProbeRun &probeRun, const ProbeFile &probed, ProbeReader asPlanned,
                     ProbeReader throughCache, IoBackend of)
    : run(probeRun), file(probed), planned(std::move(asPlanned)), buffered(std::move(throughCache)),
      backend(of), bufferedCells(bufferedPlan()) {
  if (backend != IoBackend::kBuffered)
    directCells.emplace(directPlan());
}

uint64_t DiskProbe::plannedNs() {
  return directPlan().ns + bufferedPlan().ns + kCachedNs + (kSustainedTurns + 1) * kSustainedNs;
}

Status DiskProbe::measureRound() {
  if (directCells)
    MOERT_RETURN_IF_ERROR(directCells->measureRound(run, planned, file));
  return bufferedCells.measureRound(run, buffered, file);
}

Result<double> DiskProbe::measureCached() {
  MOERT_RETURN_IF_ERROR(file.dropFromCache());
  // Fits into the page cache of a small container.
  const uint64_t bytes = std::min(file.bytes(), 32 * kMiB);
  const ReadPoint point = {kMiB, 1, {}};
  Places once(bytes, kMiB, true);
  MOERT_RETURN_IF_ERROR(measure(run, buffered, point, once, kCachedNs).status());
  std::vector<double> rates;
  for (uint32_t turn = 0; turn < kCachedTurns; ++turn) {
    MOERT_RETURN_IF_ERROR(run.begin("reading from the page cache", kCachedNs / kCachedTurns));
    Places places(bytes, kMiB, false);
    MOERT_ASSIGN_OR_RETURN(double rate,
                           measure(run, buffered, point, places, kCachedNs / kCachedTurns));
    rates.push_back(rate);
  }
  MOERT_RETURN_IF_ERROR(file.dropFromCache());
  return median(std::move(rates));
}

/// If one read takes as long as a long measurement, its rate is already a sustained one.
Result<double> DiskProbe::measureSustained(const std::vector<ReadPoint> &points) {
  const ReadPoint &best = *std::ranges::max_element(
      points, {}, [](const ReadPoint &point) { return point.bytesPerSecond.value; });
  const double burstBytes = static_cast<double>(best.bytes) * best.depth;
  if (1e9 * burstBytes >= static_cast<double>(kSustainedNs) * best.bytesPerSecond.value)
    return best.bytesPerSecond.value;
  std::vector<double> rates;
  for (uint32_t turn = 0; turn <= kSustainedTurns; ++turn) {
    MOERT_RETURN_IF_ERROR(run.begin("reading for longer", kSustainedNs));
    Places places(file.bytes(), best.bytes, false);
    MOERT_ASSIGN_OR_RETURN(double rate, measure(run, planned, best, places, kSustainedNs));
    rates.push_back(rate);
  }
  return sustainedRate(std::move(rates));
}

Result<DiskReport> DiskProbe::report() {
  DiskReport report;
  report.backend = backend;
  report.fileBytes = file.bytes();
  report.description = planned.describe();
  report.hasRegisteredBuffers =
      report.description.find(", registered buffers") != std::string::npos;
  report.buffered = bufferedCells.points();
  MOERT_ASSIGN_OR_RETURN(report.cachedBytesPerSecond.value, measureCached());
  if (directCells) {
    report.direct = directCells->points();
    MOERT_ASSIGN_OR_RETURN(double most, measureSustained(report.direct));
    holdTo(most, report.direct);
    holdTo(most, report.buffered);
  }
  return report;
}

} // namespace moert::probe
