#include "tools/moert/probe/ReuseProbe.h"

#include <algorithm>

namespace moert::probe {

namespace {

constexpr uint64_t kRecordBytes = 2 << 20;
constexpr uint64_t kTurnNs = 90'000'000;

/// A slower disk is bound by itself and not by memory, and would take too long here.
constexpr double kLeastBytesPerSecond = 0.5e9;

/// What a device profile may say.
constexpr double kLeastShare = 0.1, kMostShare = 10;

} // namespace

ReuseProbe::ReuseProbe(ProbeRun &probeRun, ProbeReader &reads, uint64_t fileBytes)
    : run(probeRun), reader(reads), places(fileBytes, kRecordBytes, false) {}

/// A fifth of a second, of a disk of 1 GB/s, for what is read to begin with.
uint64_t ReuseProbe::plannedNs() {
  return kRounds * kSizes.size() * kTurnNs + 200'000'000;
}

Status ReuseProbe::read() {
  MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
  return reader.takeEnded(true).status();
}

Result<double> ReuseProbe::measure(uint64_t first, uint64_t memoryBytes) {
  reader.keepTo(first, memoryBytes);
  // A part of the memory has to be read into before it is read into again.
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
  // Another part in each round: how fast it is depends on where it lies in the machine.
  const uint64_t round = rates.back().size();
  static_assert((kRounds - 1) * kSizes[0] + kSizes[1] <= kProbeMemoryBytes);
  for (size_t i = kSizes.size(); i-- > 0;) { // First what tells a slow disk by one record.
    MOERT_RETURN_IF_ERROR(
        run.begin("reading into the same memory", plannedNs() / (kRounds * kSizes.size())));
    if (isTooSlow())
      continue;
    const bool isAll = kSizes[i] == kProbeMemoryBytes;
    MOERT_ASSIGN_OR_RETURN(double rate, measure(isAll ? 0 : round * kSizes[0], kSizes[i]));
    rates[i].push_back(rate);
  }
  reader.keepTo(0, kProbeMemoryBytes); // What others measure next is of all of it.
  return {};
}

std::vector<ReusePoint> ReuseProbe::report() const {
  std::vector<ReusePoint> points;
  if (rates.back().empty() || isTooSlow())
    return points;
  for (size_t i = 0; i + 1 < kSizes.size(); ++i) {
    const double share = steadyRate(rates[i]) / steadyRate(rates.back());
    points.push_back({kSizes[i], {std::clamp(share, kLeastShare, kMostShare)}});
  }
  return points;
}

} // namespace moert::probe
