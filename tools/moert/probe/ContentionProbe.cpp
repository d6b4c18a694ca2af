#include "tools/moert/probe/ContentionProbe.h"

#include "tools/moert/probe/ProbeProducts.h"
#include "tools/moert/probe/ProbeReader.h"

#include <algorithm>
#include <memory>

namespace moert::probe {

namespace {

// Experts of that size, and so many of them at a time, are what a layer asks for.
constexpr uint64_t kRecordBytes = 2 << 20;
constexpr uint32_t kRecords = 4;

// Short turns, many of them: the rates of a shared machine change within seconds, and what counts
// is how one kind of turn compares with those of another kind beside it.
constexpr uint32_t kTurns = 20;
constexpr uint64_t kTurnNs = 50'000'000;

// What a layer misses.
constexpr uint32_t kBurstRecords = 2;

struct Turn {
  double productNs = 0, bytesPerSecond = 0, submitNsPerByte = 0;
};

/// Computes, reads, or does both, as the engine does: one thread looks at the reads between
/// products.
class Contenders {
public:
  Contenders(const ProbeRun &probeRun, ThreadPool &threadPool, const Multiplier &multiplies,
             const WeightMemory &weights, ProbeReader &reads, uint64_t fileBytes)
      : run(probeRun), pool(threadPool), multiplier(multiplies),
        matrices(storedWidths()[kWidth], weights), reader(reads),
        places(fileBytes, kRecordBytes, false) {}

  Result<Turn> turn(bool computes, bool isReading) {
    Turn turn;
    uint64_t products = 0, ended = 0, computeNs = 0, submitNs = 0;
    const uint64_t begin = run.nowNs();
    uint64_t now = begin;
    // A slow disk gets the time for some records.
    while (now - begin < kTurnNs || (isReading && ended < kRecords)) {
      if (isReading) {
        const uint64_t before = now;
        while (reader.underWay() < kRecords)
          MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
        MOERT_ASSIGN_OR_RETURN(size_t count, reader.takeEnded(!computes));
        ended += count;
        now = run.nowNs();
        submitNs += now - before;
      }
      if (computes) {
        const uint64_t before = now;
        multiplier.run(pool, matrices.next(), 1);
        now = run.nowNs();
        computeNs += now - before;
        ++products;
      }
    }
    const auto bytes = static_cast<double>(std::max<uint64_t>(1, ended) * kRecordBytes);
    turn.productNs =
        static_cast<double>(computeNs) / static_cast<double>(std::max<uint64_t>(1, products));
    turn.bytesPerSecond = 1e9 * bytes / static_cast<double>(std::max<uint64_t>(1, now - begin));
    turn.submitNsPerByte = static_cast<double>(submitNs) / bytes;
    while (reader.underWay() > 0)
      MOERT_RETURN_IF_ERROR(reader.takeEnded(true).status());
    return turn;
  }

  /// How much longer bursts of reads take with so much computing before each than one behind the
  /// other.
  Result<double> wakeNs() {
    MOERT_ASSIGN_OR_RETURN(double behindRests, burstNs(true));
    MOERT_ASSIGN_OR_RETURN(double behindBursts, burstNs(false));
    return std::max(0.0, behindRests - behindBursts);
  }

private:
  Result<double> burstNs(bool rests) {
    std::vector<double> bursts;
    for (const uint64_t begin = run.nowNs(); bursts.empty() || run.nowNs() - begin < kTurnNs;) {
      for (const uint64_t rest = run.nowNs(); rests && run.nowNs() - rest < kRestNs;)
        multiplier.run(pool, matrices.next(), 1);
      const uint64_t before = run.nowNs();
      for (uint32_t i = 0; i < kBurstRecords; ++i)
        MOERT_RETURN_IF_ERROR(reader.begin(*places.next(), kRecordBytes));
      while (reader.underWay() > 0)
        MOERT_RETURN_IF_ERROR(reader.takeEnded(true).status());
      bursts.push_back(static_cast<double>(run.nowNs() - before));
    }
    return median(std::move(bursts));
  }

  static constexpr size_t kWidth = 2; // int2+2: what moec makes of 4 bits.

  const ProbeRun &run;
  ThreadPool &pool;
  const Multiplier &multiplier;
  Matrices matrices;
  ProbeReader &reader;
  Places places;
};

/// Noise makes the one or the other faster beside its rival than alone.
double shareOf(double part, double whole) {
  return std::clamp(part / std::max(whole, 1e-9), 0.01, 1.0);
}

} // namespace

uint64_t plannedContentionNs() {
  return 5 * kTurns * kTurnNs;
}

Result<ContentionReport> probeContention(ProbeRun &run, const ProbeFile &file,
                                         const KernelTable &kernels, uint32_t threads) {
  MOERT_ASSIGN_OR_RETURN(ArtifactFile opened, file.open());
  MOERT_ASSIGN_OR_RETURN(HostRegion memory, HostRegion::create(kProbeMemoryBytes));
  MOERT_ASSIGN_OR_RETURN(ProbeReader reader, ProbeReader::create(opened, memory, IoBackend::kAuto));
  MOERT_ASSIGN_OR_RETURN(WeightMemory weights, WeightMemory::create());
  MOERT_ASSIGN_OR_RETURN(ProductRows rows, ProductRows::create());
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(threads));
  const Multiplier multiplier{kernels, rows};
  Contenders contenders(run, *pool, multiplier, weights, reader, file.bytes());
  std::vector<double> computing, alone, beside, submitNs, wakeNs;
  const uint64_t begin = run.nowNs();
  for (uint32_t i = 0; i < kTurns && (i == 0 || run.nowNs() - begin < plannedContentionNs()); ++i) {
    MOERT_RETURN_IF_ERROR(run.begin("computing and reading at once", 5 * kTurnNs));
    MOERT_ASSIGN_OR_RETURN(Turn computes, contenders.turn(true, false));
    // A disk whose rate is held down may be let go faster behind a rest: each comes first in turn.
    MOERT_ASSIGN_OR_RETURN(Turn first, contenders.turn(i % 2 == 1, true));
    MOERT_ASSIGN_OR_RETURN(Turn second, contenders.turn(i % 2 == 0, true));
    const Turn &reads = i % 2 == 0 ? first : second, &both = i % 2 == 0 ? second : first;
    MOERT_ASSIGN_OR_RETURN(double longer, contenders.wakeNs());
    wakeNs.push_back(longer);
    computing.push_back(shareOf(computes.productNs, both.productNs));
    alone.push_back(reads.bytesPerSecond);
    beside.push_back(both.bytesPerSecond);
    submitNs.push_back(both.submitNsPerByte * (1 << 20));
  }
  return ContentionReport{{median(computing)},
                          {shareOf(median(beside), median(alone))},
                          {median(submitNs)},
                          {median(wakeNs)}};
}

} // namespace moert::probe
