#include "tools/moert/probe/ComputeProbe.h"

#include "tools/moert/probe/MemoryRead.h"
#include "tools/moert/probe/ProbeProducts.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <span>

namespace moert::probe {

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kDispatchNs = kSecondNs / 10, kMemoryNs = kSecondNs, kAttentionNs = kSecondNs;
constexpr uint64_t kProductsNs = 5 * kSecondNs, kCoreShareNs = kSecondNs / 5;

constexpr std::array<uint32_t, 2> kTokens = {1, kManyTokens};

// One token with so many positions behind it: more keys and values than the caches next to a core
// hold are there twice over, and all of one call fit.
constexpr uint32_t kHeads = 32, kKvHeads = 4, kHeadDim = 64, kPositions = 256;

double threadNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/// What all measurements use.
struct Bench {
  ProbeRun &run;
  Multiplier multiplier;
  std::array<ThreadPool *, 2> pools; // One thread, all threads; null where that is one.
  const WeightMemory &weights;
  double dispatchNs; // Of all threads.
};

/// Calls `once`, which runs one operation on the pool, until the time is over; what a call takes
/// beyond the start of an operation. The median does not see those that other programs came
/// between.
template <typename Once>
double nsPerCall(const Bench &bench, ThreadPool &pool, uint64_t durationNs, Once once) {
  constexpr size_t kMostCalls = 20000;
  std::vector<double> times;
  const uint64_t begin = bench.run.nowNs();
  uint64_t now = begin;
  do {
    const uint64_t before = now;
    once();
    now = bench.run.nowNs();
    times.push_back(static_cast<double>(now - before));
  } while (times.size() < kMostCalls && now - begin < durationNs);
  const double ns = std::max(1.0, median(std::move(times)));
  return pool.threads() > 1 ? std::max(ns / 2, ns - bench.dispatchNs) : ns;
}

/// One product of a measurement: some of a matrix's panels where all of them take too long.
struct Work {
  uint32_t tokens = 1;
  uint32_t panels = kPanels;
};

/// Whole matrices a second, also where only a part of each is multiplied.
double productsPerSecond(const Bench &bench, Matrices &matrices, const Work &work, ThreadPool &pool,
                         uint64_t durationNs) {
  const double ns = nsPerCall(bench, pool, durationNs, [&] {
    bench.multiplier.run(pool, matrices.next(), work.tokens, work.panels);
  });
  return 1e9 / ns * work.panels / kPanels;
}

/// As many panels as plain loops finish in the time, one for each thread at least; vector kernels
/// finish all of them.
uint32_t panelsFor(double oneTokenPerSecond, uint32_t tokens, uint32_t threads,
                   uint64_t durationNs) {
  const double share = oneTokenPerSecond / tokens * static_cast<double>(durationNs) / 1e9;
  const auto panels = static_cast<uint32_t>(kPanels * std::min(1.0, share));
  return std::min(kPanels, std::max(panels, threads));
}

/// How much of a core the calling thread gets while it multiplies without pause.
double measureCoreShare(const Bench &bench) {
  Matrices matrices(storedWidths().front(), bench.weights);
  const double processorBegin = threadNs();
  const uint64_t begin = monotonicNs();
  productsPerSecond(bench, matrices, {}, *bench.pools[0], kCoreShareNs);
  const auto passed = static_cast<double>(std::max<uint64_t>(1, monotonicNs() - begin));
  return std::min(1.0, (threadNs() - processorBegin) / passed);
}

Status measureProducts(const Bench &bench, ComputeReport &report) {
  std::vector<ProductRate> &products = report.products;
  std::vector<double> shares;
  std::vector<std::vector<double>> rates; // By product, then round.
  const uint64_t begin = bench.run.nowNs();
  for (uint32_t round = 0; round < kRounds; ++round) {
    if (round > 0 && bench.run.nowNs() - begin > kProductsNs)
      break; // Plain loops, or a machine that does other things as well.
    MOERT_RETURN_IF_ERROR(bench.run.begin("multiplying", kCoreShareNs));
    shares.push_back(measureCoreShare(bench));
    size_t product = 0;
    for (const StoredWidth &stored : storedWidths()) {
      Matrices matrices(stored, bench.weights);
      double oneToken = 0; // Its rate with one thread, which comes first.
      for (uint32_t tokens : kTokens)
        for (ThreadPool *pool : bench.pools) {
          if (pool == nullptr)
            continue;
          const uint64_t oneNs = kProductsNs / (storedWidths().size() * 4 * kRounds);
          MOERT_RETURN_IF_ERROR(bench.run.begin("multiplying", oneNs));
          const Work work = oneToken == 0
                                ? Work()
                                : Work{tokens, panelsFor(oneToken, tokens, pool->threads(), oneNs)};
          const double rate = productsPerSecond(bench, matrices, work, *pool, oneNs);
          oneToken = oneToken == 0 ? rate : oneToken;
          if (round == 0) {
            products.push_back({stored.name, tokens, pool->threads(), {}, {}});
            rates.emplace_back();
          }
          rates[product].push_back(rate);
          const double perSecond = median(rates[product]);
          products[product].weightBytesPerSecond.value =
              perSecond * static_cast<double>(matrices.bytes());
          products[product].multiplyAddsPerSecond.value =
              perSecond * tokens * kShape.rows * kShape.cols;
          ++product;
        }
    }
  }
  report.coreShare = median(shares);
  return {};
}

/// Medians of kRounds turns with one thread and with all: measure(pool) gives a rate.
template <typename Measure>
Result<ThreadNumbers> measureThreads(const Bench &bench, const char *step, uint64_t plannedNs,
                                     Measure measure) {
  std::array<std::vector<double>, 2> rates;
  for (uint32_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < 2; ++i)
      if (bench.pools[i] != nullptr) {
        MOERT_RETURN_IF_ERROR(bench.run.begin(step, plannedNs / (2 * kRounds)));
        rates[i].push_back(measure(*bench.pools[i], plannedNs / (2 * kRounds)));
      }
  const double one = median(rates[0]);
  return ThreadNumbers{{one}, {bench.pools[1] != nullptr ? median(rates[1]) : one}};
}

Result<ThreadNumbers> measureMemory(const Bench &bench) {
  const std::span<const std::byte> memory = bench.weights.region.span();
  constexpr uint64_t kGrain = 64 * 1024;
  return measureThreads(
      bench, "reading memory", kMemoryNs, [&](ThreadPool &pool, uint64_t durationNs) {
        const double ns = nsPerCall(bench, pool, durationNs, [&] {
          pool.run(memory.size() / kGrain, 1, [&](uint64_t begin, uint64_t end, uint32_t) {
            readThrough(memory.subspan(begin * kGrain, (end - begin) * kGrain));
          });
        });
        return 1e9 / ns * static_cast<double>(memory.size());
      });
}

/// Attentions over keys and values in the memory of the weights; 0.1 and the like are good enough.
class Attentions {
public:
  static Result<Attentions> create(const Bench &bench) {
    const uint32_t threads = bench.pools[1] != nullptr ? bench.pools[1]->threads() : 1;
    MOERT_ASSIGN_OR_RETURN(HostRegion scratch,
                           HostRegion::create(threads * kScratchFloats * sizeof(float)));
    return Attentions(bench, std::move(scratch));
  }

  /// One token's. `isElsewhere`: over other keys and values than the last one's, which have left
  /// the caches.
  void run(ThreadPool &pool, bool isElsewhere) {
    const uint64_t places = bench.weights.region.bytes() / kBytes;
    place = isElsewhere ? (place + 1) % places : place;
    const std::byte *at = bench.weights.region.data() + place * kBytes;
    for (auto *blocks : {&keys, &values}) {
      for (uint64_t block = 0; block < kBlocks; ++block)
        (*blocks)[block] = reinterpret_cast<const float *>(at) + block * kKvBlockTokens * kHeadDim;
      at += kBytes / 2;
    }
    const KvView view = {keys.data(), values.data(), kKvHeads, kHeadDim, kHeadDim, kPositions};
    auto *floats = reinterpret_cast<float *>(scratch.data());
    pool.run(kHeads / kAttendHeads, 1, [&](uint64_t begin, uint64_t end, uint32_t thread) {
      bench.multiplier.kernels.attend(
          bench.multiplier.rows.x, view, kHeads, static_cast<uint32_t>(begin) * kAttendHeads,
          static_cast<uint32_t>(end) * kAttendHeads, 0, kPositions, 0.1f, bench.multiplier.rows.y,
          floats + thread * kScratchFloats);
    });
  }

  static constexpr uint64_t kBlocks = kPositions / kKvBlockTokens;
  static constexpr uint64_t kBytes = // Counted once for all heads.
      2 * uint64_t(kPositions) * kKvHeads * kHeadDim * sizeof(float);

private:
  static constexpr uint64_t kScratchFloats = kAttendHeads * kPositions + kHeadDim;

  Attentions(const Bench &from, HostRegion region) : bench(from), scratch(std::move(region)) {}

  const Bench &bench;
  HostRegion scratch;
  uint64_t place = 0;
  std::array<const float *, kBlocks> keys{}, values{};
};

/// With keys and values in the caches, and what it takes more when they come from memory.
Status measureAttention(const Bench &bench, ComputeReport &report) {
  MOERT_ASSIGN_OR_RETURN(Attentions attentions, Attentions::create(bench));
  constexpr double kHeadBytes = static_cast<double>(Attentions::kBytes) * kHeads / kKvHeads;
  auto bytesPerSecond = [&](bool isElsewhere) {
    return measureThreads(bench, "attending", kAttentionNs / 2,
                          [&, isElsewhere](ThreadPool &pool, uint64_t durationNs) {
                            return 1e9 * kHeadBytes / nsPerCall(bench, pool, durationNs, [&] {
                                     attentions.run(pool, isElsewhere);
                                   });
                          });
  };
  MOERT_ASSIGN_OR_RETURN(report.attentionBytesPerSecond, bytesPerSecond(false));
  MOERT_ASSIGN_OR_RETURN(ThreadNumbers elsewhere, bytesPerSecond(true));
  // No faster than memory is read from end to end, whatever two noisy times are apart.
  auto beside = [](const Number &near, const Number &far, const Number &most) {
    const double moreNs = 1e9 * kHeadBytes * (1 / far.value - 1 / near.value);
    const double leastNs = 1e9 * static_cast<double>(Attentions::kBytes) / most.value;
    return Number{1e9 * static_cast<double>(Attentions::kBytes) / std::max(moreNs, leastNs)};
  };
  const ThreadNumbers &near = report.attentionBytesPerSecond, &most = report.memoryBytesPerSecond;
  report.attentionMemoryBytesPerSecond = {
      beside(near.oneThread, elsewhere.oneThread, most.oneThread),
      beside(near.allThreads, elsewhere.allThreads, most.allThreads)};
  return {};
}

/// Each start by itself: the median does not see those that other programs came between.
Result<Number> measureDispatch(ProbeRun &run, ThreadPool &pool) {
  MOERT_RETURN_IF_ERROR(run.begin("starting operations", kDispatchNs));
  constexpr size_t kMostStarts = 20000;
  std::vector<double> times;
  const uint64_t begin = run.nowNs();
  while (times.empty() || (times.size() < kMostStarts && run.nowNs() - begin < kDispatchNs)) {
    const uint64_t before = run.nowNs();
    pool.run(pool.threads(), 1, [](uint64_t, uint64_t, uint32_t) {});
    times.push_back(static_cast<double>(run.nowNs() - before));
  }
  return Number{median(std::move(times))};
}

} // namespace

uint64_t plannedComputeNs() {
  return kDispatchNs + kMemoryNs + kAttentionNs + kProductsNs + kRounds * kCoreShareNs;
}

Result<ComputeReport> probeCompute(ProbeRun &run, const KernelTable &kernels, uint32_t threads) {
  MOERT_ASSIGN_OR_RETURN(WeightMemory weights, WeightMemory::create());
  MOERT_ASSIGN_OR_RETURN(ProductRows rows, ProductRows::create());
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> one, ThreadPool::create(1));
  std::unique_ptr<ThreadPool> all;
  if (threads > 1) {
    MOERT_ASSIGN_OR_RETURN(all, ThreadPool::create(threads));
  }
  ComputeReport report;
  report.isa = kernels.name;
  report.threads = threads;
  MOERT_ASSIGN_OR_RETURN(report.dispatchNs, measureDispatch(run, all ? *all : *one));
  const Bench bench = {
      run, {kernels, rows}, {one.get(), all.get()}, weights, report.dispatchNs.value};
  MOERT_ASSIGN_OR_RETURN(report.memoryBytesPerSecond, measureMemory(bench));
  MOERT_RETURN_IF_ERROR(measureAttention(bench, report));
  MOERT_RETURN_IF_ERROR(measureProducts(bench, report));
  return report;
}

} // namespace moert::probe
