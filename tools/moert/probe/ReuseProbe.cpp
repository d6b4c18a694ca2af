#include "tools/moert/probe/ReuseProbe.h"

namespace moert::probe {

namespace {

constexpr uint64_t kRecordBytes = 2 << 20;
constexpr uint64_t kTurnNs = 90'000'000;

/// A slower disk is bound by itself and not by memory, and would take too long here.
constexpr double kLeastBytesPerSecond = 0.5e9;

} // namespace

ReuseProbe::ReuseProbe(ProbeRun &probeRun, ProbeReader &reads, uint64_t fileBytes)
    : run(probeRun), reader(reads), places(fileBytes, kRecordBytes, false) {}

/// Half a second, of a disk of 2 GB/s, for what is read to begin with.
uint64_t ReuseProbe::plannedNs() {
  return kRounds * kSizes.size() * kTurnNs + 500'000'000;
}

Status ReuseProbe::read() {
  MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
  return reader.takeEnded(true).status();
}

Result<double> ReuseProbe::measure(uint64_t memoryBytes) {
  MOERT_RETURN_IF_ERROR(
      run.begin("reading into the same memory", plannedNs() / (kRounds * kSizes.size())));
  // Another part in each round: how fast it is depends on where it lies in the machine.
  const uint64_t first = rates.back().size() * kSizes.front();
  reader.keepTo(memoryBytes < kProbeMemoryBytes ? first : 0, memoryBytes);
  // All of it was read into in the round before, and much else since.
  for (uint64_t bytes = 0; bytes < memoryBytes && memoryBytes < kProbeMemoryBytes;
       bytes += kRecordBytes)
    MOERT_RETURN_IF_ERROR(read());
  const uint64_t begin = run.nowNs();
  uint64_t bytes = 0, ns = 0;
  for (; bytes == 0 || ns < kTurnNs; bytes += kRecordBytes, ns = run.nowNs() - begin)
    MOERT_RETURN_IF_ERROR(read());
  return 1e9 * static_cast<double>(bytes) / static_cast<double>(ns);
}

Status ReuseProbe::measureRound() {
  for (size_t i = kSizes.size(); i-- > 0 && !isTooSlow;) {
    MOERT_ASSIGN_OR_RETURN(double rate, measure(kSizes[i]));
    rates[i].push_back(rate);
    isTooSlow = rate < kLeastBytesPerSecond;
  }
  reader.keepTo(0, kProbeMemoryBytes);
  return {};
}

std::vector<ReusePoint> ReuseProbe::report() const {
  std::vector<ReusePoint> points;
  for (size_t i = 0; i + 1 < kSizes.size() && !isTooSlow; ++i)
    points.push_back({kSizes[i], {steadyRate(rates[i]) / steadyRate(rates.back())}});
  return points;
}

} // namespace moert::probe
