#include "tools/moert/probe/ComputeProbe.h"

#include "tools/moert/probe/MemoryRead.h"

#include <algorithm>
#include <ctime>
#include <span>
#include <utility>

namespace moert::probe {

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// Total over all rounds.
constexpr uint64_t kDispatchNs = kSecondNs / 10, kMemoryNs = kSecondNs, kAttentionNs = kSecondNs;
constexpr uint64_t kProductsNs = 5 * kSecondNs, kCoreFractionNs = kSecondNs * 3 / 5;

constexpr std::array<uint32_t, 2> kTokens = {1, kManyTokens};

// One token that attends to kPositions earlier ones. The test memory holds more than twice the keys
// and values that fit into the caches next to a core; those of one call fit.
constexpr uint32_t kHeads = 32, kKvHeads = 4, kHeadDim = 64, kPositions = 256;
constexpr uint64_t kKvBytes = // Counted once for all heads.
    2 * uint64_t(kPositions) * kKvHeads * kHeadDim * sizeof(float);
constexpr double kHeadBytes = static_cast<double>(kKvBytes) * kHeads / kKvHeads;
constexpr uint64_t kScratchFloats = kAttendHeads * kPositions + kHeadDim; // Per thread.

double threadNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/// Number of panels that plain loops finish in the time, at least one per thread; vector kernels
/// finish all of them.
uint32_t panelsFor(double oneTokenPerSecond, uint32_t tokens, uint32_t threads,
                   uint64_t durationNs) {
  const double fraction = oneTokenPerSecond / tokens * static_cast<double>(durationNs) / 1e9;
  const auto panels = static_cast<uint32_t>(kPanels * std::min(1.0, fraction));
  return std::min(kPanels, std::max(panels, threads));
}

/// Attention over keys and values that lie in the weights' memory; their values do not matter (0.1,
/// say).
class Attentions {
public:
  Attentions(const Processor &computes, const HostRegion &memory)
      : processor(computes), scratch(reinterpret_cast<float *>(memory.data())) {}

  /// Attention of one token. `isElsewhere`: over other keys and values than last time, which have
  /// left the caches.
  void run(ThreadPool &pool, bool isElsewhere) {
    const uint64_t places = processor.weights.region.bytes() / kKvBytes;
    place = isElsewhere ? (place + 1) % places : place;
    const std::byte *at = processor.weights.region.data() + place * kKvBytes;
    for (auto *blocks : {&keys, &values}) {
      for (uint64_t block = 0; block < kBlocks; ++block)
        (*blocks)[block] = at + block * kKvBlockTokens * kHeadDim * sizeof(float);
      at += kKvBytes / 2;
    }
    const KvView view = {keys.data(), values.data(), kKvHeads, kHeadDim, kHeadDim, kPositions};
    pool.run(kHeads / kAttendHeads, 1, [&](uint64_t begin, uint64_t end, uint32_t thread) {
      processor.kernels.attend(processor.rows.x, view, kHeads,
                               static_cast<uint32_t>(begin) * kAttendHeads,
                               static_cast<uint32_t>(end) * kAttendHeads, 0, kPositions, 0.1f,
                               nullptr, processor.rows.y, scratch + thread * kScratchFloats);
    });
  }

private:
  static constexpr uint64_t kBlocks = kPositions / kKvBlockTokens;

  const Processor &processor;
  float *scratch;
  uint64_t place = 0;
  std::array<const std::byte *, kBlocks> keys{}, values{};
};

} // namespace

Result<ComputeProbe> ComputeProbe::create(ProbeRun &run, const Processor &processor) {
  const uint64_t bytes = processor.allThreads().threads() * kScratchFloats * sizeof(float);
  MOERT_ASSIGN_OR_RETURN(HostRegion scratch, HostRegion::create(bytes));
  return ComputeProbe(run, processor, std::move(scratch));
}

uint64_t ComputeProbe::plannedNs() {
  return kDispatchNs + kMemoryNs + kAttentionNs + kProductsNs + kCoreFractionNs;
}

Status ComputeProbe::measureRound() {
  MOERT_RETURN_IF_ERROR(measureDispatch());
  MOERT_RETURN_IF_ERROR(measureMemory());
  MOERT_RETURN_IF_ERROR(measureAttention());
  return measureProducts();
}

/// Calls `once`, which runs one operation on the pool, until the time is over. Returns the median
/// time of a call minus the time to start an operation. The median excludes calls that other
/// programs interrupted.
template <typename Once>
double ComputeProbe::nsPerCall(ThreadPool &pool, uint64_t durationNs, Once once) const {
  constexpr size_t kMostCalls = 20000;
  std::vector<double> times;
  const uint64_t begin = run.nowNs();
  uint64_t now = begin;
  do {
    const uint64_t before = now;
    once();
    now = run.nowNs();
    times.push_back(static_cast<double>(now - before));
  } while (times.size() < kMostCalls && now - begin < durationNs);
  const double ns = std::max(1.0, median(std::move(times)));
  return pool.threads() > 1 ? std::max(ns / 2, ns - dispatchNs) : ns;
}

/// Times each start separately, since the median excludes those that other programs interrupted.
Status ComputeProbe::measureDispatch() {
  MOERT_RETURN_IF_ERROR(run.begin("starting operations", kDispatchNs / kRounds));
  constexpr size_t kMostStarts = 20000;
  ThreadPool &pool = processor.allThreads();
  std::vector<double> times;
  const uint64_t begin = run.nowNs();
  while (times.empty() ||
         (times.size() < kMostStarts && run.nowNs() - begin < kDispatchNs / kRounds)) {
    const uint64_t before = run.nowNs();
    pool.run(pool.threads(), 1, [](uint64_t, uint64_t, uint32_t) {});
    times.push_back(static_cast<double>(run.nowNs() - before));
  }
  dispatches.push_back(median(std::move(times)));
  dispatchNs = median(dispatches);
  return {};
}

/// measure(pool, ns) returns a rate.
template <typename Measure>
Status ComputeProbe::measureThreads(const char *step, uint64_t roundNs, ThreadSamples &samples,
                                    Measure measure) {
  const std::array<ThreadPool *, 2> pools = {processor.one.get(), processor.many.get()};
  for (size_t i = 0; i < 2; ++i)
    if (pools[i] != nullptr) {
      MOERT_RETURN_IF_ERROR(run.begin(step, roundNs / 2));
      samples[i].push_back(measure(*pools[i], roundNs / 2));
    }
  return {};
}

Status ComputeProbe::measureMemory() {
  const std::span<const std::byte> bytes = processor.weights.region.span();
  constexpr uint64_t kGrain = 64 * 1024;
  return measureThreads(
      "reading memory", kMemoryNs / kRounds, memory, [&](ThreadPool &pool, uint64_t durationNs) {
        const double ns = nsPerCall(pool, durationNs, [&] {
          pool.run(bytes.size() / kGrain, 1, [&](uint64_t begin, uint64_t end, uint32_t) {
            readThrough(bytes.subspan(begin * kGrain, (end - begin) * kGrain));
          });
        });
        return 1e9 / ns * static_cast<double>(bytes.size());
      });
}

/// Once with keys and values in the caches, and once with other ones at each call.
Status ComputeProbe::measureAttention() {
  Attentions attentions(processor, scratch);
  auto attend = [&](ThreadSamples &samples, bool isElsewhere) {
    return measureThreads("attending", kAttentionNs / (2 * kRounds), samples,
                          [&](ThreadPool &pool, uint64_t durationNs) {
                            return 1e9 * kHeadBytes / nsPerCall(pool, durationNs, [&] {
                                     attentions.run(pool, isElsewhere);
                                   });
                          });
  };
  MOERT_RETURN_IF_ERROR(attend(attentionNear, false));
  return attend(attentionFar, true);
}

/// Whole matrices per second, even if only part of each is multiplied.
double ComputeProbe::productsPerSecond(Matrices &matrices, uint32_t tokens, uint32_t panels,
                                       ThreadPool &pool, uint64_t durationNs) const {
  const double ns = nsPerCall(pool, durationNs,
                              [&] { processor.multiply(pool, matrices.next(), tokens, panels); });
  return 1e9 / ns * panels / kPanels;
}

/// The fraction of a core that the calling thread gets while it multiplies without pause.
void ComputeProbe::measureCoreFraction() {
  Matrices matrices(storedWidths().front(), processor.weights);
  const double processorBegin = threadNs();
  const uint64_t begin = monotonicNs();
  productsPerSecond(matrices, 1, kPanels, *processor.one, kCoreFractionNs / kRounds);
  const auto passed = static_cast<double>(std::max<uint64_t>(1, monotonicNs() - begin));
  coreFractions.push_back(std::min(1.0, (threadNs() - processorBegin) / passed));
}

Status ComputeProbe::measureProducts() {
  if (productsSpentNs > kProductsNs)
    return {}; // Slow kernels, or a busy machine.
  MOERT_RETURN_IF_ERROR(run.begin("multiplying", kCoreFractionNs / kRounds));
  measureCoreFraction();
  const bool isFirst = products.empty();
  const uint64_t begin = run.nowNs();
  const uint64_t oneNs = kProductsNs / (storedWidths().size() * 4 * kRounds);
  size_t product = 0;
  for (const StoredWidth &stored : storedWidths()) {
    Matrices matrices(stored, processor.weights);
    double oneToken = 0; // Rate with one thread, which is measured first.
    for (uint32_t tokens : kTokens)
      for (ThreadPool *pool : {processor.one.get(), processor.many.get()}) {
        if (pool == nullptr)
          continue;
        MOERT_RETURN_IF_ERROR(run.begin("multiplying", oneNs));
        const uint32_t panels =
            oneToken == 0 ? kPanels : panelsFor(oneToken, tokens, pool->threads(), oneNs);
        const double rate = productsPerSecond(matrices, tokens, panels, *pool, oneNs);
        oneToken = oneToken == 0 ? rate : oneToken;
        if (isFirst) {
          products.push_back({stored.name, tokens, pool->threads(), {}, {}});
          productRates.emplace_back();
          productBytes.push_back(matrices.bytes());
        }
        productRates[product++].push_back(rate);
      }
  }
  productsSpentNs += run.nowNs() - begin;
  return {};
}

ComputeReport ComputeProbe::report() const {
  auto steady = [](const ThreadSamples &samples) {
    const double one = steadyRate(samples[0]);
    return ThreadNumbers{{one}, {samples[1].empty() ? one : steadyRate(samples[1])}};
  };
  ComputeReport report;
  report.isa = processor.kernels.name;
  report.threads = processor.allThreads().threads();
  report.dispatchNs = {dispatchNs};
  report.memoryBytesPerSecond = steady(memory);
  report.attentionBytesPerSecond = steady(attentionNear);
  // Not above the rate of sequential reads, even if noise makes the two times almost equal.
  auto beside = [](const Number &near, const Number &far, const Number &most) {
    const double moreNs = 1e9 * kHeadBytes * (1 / far.value - 1 / near.value);
    const double leastNs = 1e9 * static_cast<double>(kKvBytes) / most.value;
    return Number{1e9 * static_cast<double>(kKvBytes) / std::max(moreNs, leastNs)};
  };
  const ThreadNumbers far = steady(attentionFar);
  const ThreadNumbers &near = report.attentionBytesPerSecond, &most = report.memoryBytesPerSecond;
  report.attentionMemoryBytesPerSecond = {beside(near.oneThread, far.oneThread, most.oneThread),
                                          beside(near.allThreads, far.allThreads, most.allThreads)};
  report.products = products;
  for (size_t i = 0; i < products.size(); ++i) {
    const double perSecond = steadyRate(productRates[i]);
    report.products[i].weightBytesPerSecond.value =
        perSecond * static_cast<double>(productBytes[i]);
    report.products[i].multiplyAddsPerSecond.value =
        perSecond * products[i].tokens * kShape.rows * kShape.cols;
  }
  report.coreFraction = median(coreFractions);
  return report;
}

} // namespace moert::probe
