#include "tools/moert/probe/ReuseProbe.h"

#include <algorithm>

namespace moert::probe {

namespace {

constexpr uint64_t kRecordBytes = 2 << 20;
constexpr uint64_t kTurnNs = 90'000'000;

/// On a slower disk the disk, not memory, is the limit, and the measurement would take too long.
constexpr double kLeastBytesPerSecond = 0.5e9;

/// The limits of the device file format.
constexpr double kLeastFactor = 0.1, kMostFactor = 10;

} // namespace

ReuseProbe::ReuseProbe(ProbeRun &probeRun, ProbeReader &reads, uint64_t fileBytes)
    : run(probeRun), reader(reads), places(fileBytes, kRecordBytes, false) {}

/// Includes 0.2 s, on a disk of 1 GB/s, for the first pass over each part.
uint64_t ReuseProbe::plannedNs() {
  return kRounds * kSizes.size() * kTurnNs + 200'000'000;
}

Status ReuseProbe::read() {
  MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
  return reader.takeEnded(true).status();
}

Result<double> ReuseProbe::measure(uint64_t first, uint64_t memoryBytes) {
  reader.keepTo(first, memoryBytes);
  // Fill the part once, so that all timed reads reuse it.
  for (uint64_t bytes = 0; bytes < memoryBytes && memoryBytes < kProbeMemoryBytes;
       bytes += kRecordBytes)
    MOERT_RETURN_IF_ERROR(read());
  const uint64_t begin = run.nowNs();
  uint64_t bytes = 0, ns = 0;
  for (; bytes == 0 || ns < kTurnNs; bytes += kRecordBytes, ns = run.nowNs() - begin)
    MOERT_RETURN_IF_ERROR(read());
  return 1e9 * static_cast<double>(bytes) / static_cast<double>(ns);
}

bool ReuseProbe::isTooSlow() const {
  return !rates.back().empty() && steadyRate(rates.back()) < kLeastBytesPerSecond;
}

Status ReuseProbe::measureRound() {
  // Another part in each round: speed depends on where the part lies in the machine.
  const uint64_t round = rates.back().size();
  static_assert((kRounds - 1) * kSizes[0] + kSizes[1] <= kProbeMemoryBytes);
  for (size_t i = kSizes.size();
       i-- > 0;) { // The largest first: one record shows whether the disk is slow.
    MOERT_RETURN_IF_ERROR(
        run.begin("reading into the same memory", plannedNs() / (kRounds * kSizes.size())));
    if (isTooSlow())
      continue;
    const bool isAll = kSizes[i] == kProbeMemoryBytes;
    MOERT_ASSIGN_OR_RETURN(double rate, measure(isAll ? 0 : round * kSizes[0], kSizes[i]));
    rates[i].push_back(rate);
  }
  reader.keepTo(0, kProbeMemoryBytes); // The next measurements use all of the memory.
  return {};
}

std::vector<ReusePoint> ReuseProbe::report() const {
  std::vector<ReusePoint> points;
  if (rates.back().empty() || isTooSlow())
    return points;
  for (size_t i = 0; i + 1 < kSizes.size(); ++i) {
    const double factor = steadyRate(rates[i]) / steadyRate(rates.back());
    points.push_back({kSizes[i], {std::clamp(factor, kLeastFactor, kMostFactor)}});
  }
  return points;
}

} // namespace moert::probe
