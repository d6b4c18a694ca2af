#include "tools/moert/probe/ContentionProbe.h"

#include <algorithm>

namespace moert::probe {

namespace {

// Expert size and the number of experts that a layer reads at a time.
constexpr uint64_t kRecordBytes = 2 << 20;
constexpr uint32_t kRecords = 4;

// Many short turns: the rates of a shared machine change within seconds, and only the ratio between
// turns that are close in time counts.
constexpr uint32_t kTurns = 25; // Total over all rounds.
constexpr uint64_t kTurnNs = 50'000'000;

// Misses per layer.
constexpr uint32_t kBurstRecords = 2;

constexpr size_t kWidth = 2; // int2+2, which moec writes for 4 bits.

/// Clamped, since noise can make either faster together with the other than alone.
double fractionOf(double part, double whole) {
  return std::clamp(part / std::max(whole, 1e-9), 0.01, 1.0);
}

} // namespace

ContentionProbe::ContentionProbe(ProbeRun &probeRun, const Processor &computes, ProbeReader &reads,
                                 uint64_t fileBytes)
    : run(probeRun), processor(computes), matrices(storedWidths()[kWidth], computes.weights),
      reader(reads), places(fileBytes, kRecordBytes, false) {}

uint64_t ContentionProbe::plannedNs() {
  return 5 * kTurns * kTurnNs;
}

Status ContentionProbe::measureRound() {
  for (uint32_t i = 0; i < kTurns / kRounds && (wakeNs.empty() || spentNs < plannedNs()); ++i) {
    MOERT_RETURN_IF_ERROR(run.begin("computing and reading at once", 5 * kTurnNs));
    const uint64_t begin = run.nowNs();
    MOERT_RETURN_IF_ERROR(measureTurns());
    spentNs += run.nowNs() - begin;
  }
  return {};
}

Status ContentionProbe::measureTurns() {
  // A rate-limited disk may be faster after a rest, so the two orders alternate.
  const bool isAloneFirst = wakeNs.size() % 2 == 0;
  MOERT_ASSIGN_OR_RETURN(Turn computes, turn(true, false));
  MOERT_ASSIGN_OR_RETURN(Turn first, turn(!isAloneFirst, true));
  MOERT_ASSIGN_OR_RETURN(Turn second, turn(isAloneFirst, true));
  MOERT_ASSIGN_OR_RETURN(double longer, measureWakeNs());
  const Turn &reads = isAloneFirst ? first : second, &both = isAloneFirst ? second : first;
  computing.push_back(fractionOf(computes.productNs, both.productNs));
  alone.push_back(reads.bytesPerSecond);
  beside.push_back(both.bytesPerSecond);
  submitNs.push_back(both.submitNsPerByte * (1 << 20));
  wakeNs.push_back(longer);
  return {};
}

/// Computes, reads, or does both, as the engine does: one thread polls the reads between products.
Result<ContentionProbe::Turn> ContentionProbe::turn(bool computes, bool isReading) {
  Turn turn;
  uint64_t products = 0, ended = 0, computeNs = 0, askingNs = 0;
  const uint64_t begin = run.nowNs();
  uint64_t now = begin;
  // Allows a slow disk the time for some records.
  while (now - begin < kTurnNs || (isReading && ended < kRecords)) {
    if (isReading) {
      const uint64_t before = now;
      while (reader.underWay() < kRecords)
        MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
      MOERT_ASSIGN_OR_RETURN(size_t count, reader.takeEnded(!computes));
      ended += count;
      now = run.nowNs();
      askingNs += now - before;
    }
    if (computes) {
      const uint64_t before = now;
      processor.multiply(processor.allThreads(), matrices.next(), 1);
      now = run.nowNs();
      computeNs += now - before;
      ++products;
    }
  }
  const auto bytes = static_cast<double>(std::max<uint64_t>(1, ended) * kRecordBytes);
  turn.productNs =
      static_cast<double>(computeNs) / static_cast<double>(std::max<uint64_t>(1, products));
  turn.bytesPerSecond = 1e9 * bytes / static_cast<double>(std::max<uint64_t>(1, now - begin));
  turn.submitNsPerByte = static_cast<double>(askingNs) / bytes;
  while (reader.underWay() > 0)
    MOERT_RETURN_IF_ERROR(reader.takeEnded(true).status());
  return turn;
}

/// How much longer bursts of reads take after a millisecond of computing than directly after
/// another burst.
Result<double> ContentionProbe::measureWakeNs() {
  MOERT_ASSIGN_OR_RETURN(double behindRests, burstNs(true));
  MOERT_ASSIGN_OR_RETURN(double behindBursts, burstNs(false));
  // The limit of the device file format. A disk that has to spin up takes longer, but not after
  // every rest.
  constexpr double kLongestWakeNs = 1e9;
  return std::clamp(behindRests - behindBursts, 0.0, kLongestWakeNs);
}

Result<double> ContentionProbe::burstNs(bool rests) {
  std::vector<double> bursts;
  for (const uint64_t begin = run.nowNs(); bursts.empty() || run.nowNs() - begin < kTurnNs;) {
    for (const uint64_t rest = run.nowNs(); rests && run.nowNs() - rest < kRestNs;)
      processor.multiply(processor.allThreads(), matrices.next(), 1);
    const uint64_t before = run.nowNs();
    for (uint32_t i = 0; i < kBurstRecords; ++i)
      MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
    while (reader.underWay() > 0)
      MOERT_RETURN_IF_ERROR(reader.takeEnded(true).status());
    bursts.push_back(static_cast<double>(run.nowNs() - before));
  }
  return median(std::move(bursts));
}

ContentionReport ContentionProbe::report() const {
  return {{median(computing)},
          {fractionOf(steadyRate(beside), steadyRate(alone))},
          {median(submitNs)},
          {median(wakeNs)}};
}

} // namespace moert::probe
