#include "tools/moert/probe/ComputeProbe.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/HostMemory.h"
#include "runtime/engine/ThreadPool.h"
#include "tools/moert/probe/MemoryRead.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <unistd.h>
#include <utility>

namespace moert::probe {

namespace {

constexpr uint64_t kMiB = 1 << 20, kSecondNs = 1'000'000'000;
constexpr uint64_t kDispatchNs = kSecondNs / 10, kMemoryNs = kSecondNs,
                   kAttentionNs = kSecondNs / 2;
constexpr uint64_t kProductsNs = 5 * kSecondNs, kCoreShareNs = kSecondNs / 5;

/// An expert's matrix, as models of 30 billion parameters have it.
constexpr MatrixShape kShape = {768, 2048};
constexpr uint32_t kManyTokens = 32;
constexpr std::array<uint32_t, 2> kTokens = {1, kManyTokens};
constexpr uint32_t kPageShift = 16;

// One token with so many positions behind it.
constexpr uint32_t kHeads = 32, kKvHeads = 4, kHeadDim = 128, kPositions = 1024;

/// More than the last-level cache holds, so that weights come from memory. Systems name caches of
/// whole servers at times, of which a process has a part.
uint64_t memoryBytes() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const uint64_t wanted = cache > 0 ? roundUp(4 * uint64_t(cache), kMiB) : 0;
  return std::clamp<uint64_t>(wanted, 128 * kMiB, 256 * kMiB);
}

/// What the products read: one memory for all widths. No f16, bf16 or f32 of it is subnormal,
/// infinite or NaN, which some processors take longer for.
struct WeightMemory {
  static Result<WeightMemory> create() {
    MOERT_ASSIGN_OR_RETURN(HostRegion region, HostRegion::create(memoryBytes()));
    WeightMemory memory{std::move(region), {}};
    uint64_t state = 1;
    for (uint64_t at = 0; at < memory.region.bytes(); at += sizeof state) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const uint64_t word = 0x3838383838383838 | (state >> 7 & 0x0303030303030303);
      std::memcpy(memory.region.data() + at, &word, sizeof word);
    }
    for (uint64_t at = 0; at < memory.region.bytes(); at += uint64_t(1) << kPageShift)
      memory.pages.push_back(memory.region.data() + at);
    return memory;
  }

  HostRegion region;
  std::vector<const std::byte *> pages;
};

struct Stored {
  const char *name;
  WeightFormat format;
  std::array<WeightKind, kMaxPlanes - 1> planes;
  uint32_t planeCount;
};

constexpr WeightKind kInt1 = WeightKind::kInt1, kInt2 = WeightKind::kInt2,
                     kInt4 = WeightKind::kInt4;

/// As moec stores them by default: a scale for each 32 inputs.
constexpr WeightFormat grouped(WeightKind kind) {
  return {kind, 32, 32, false, false};
}
constexpr Stored kStored[] = {
    {"int2", grouped(kInt2), {}, 0},
    {"int2+1", grouped(kInt2), {kInt1}, 1},
    {"int2+2", grouped(kInt2), {kInt2}, 1},
    {"int2+2+2", grouped(kInt2), {kInt2, kInt2}, 2},
    {"int2+2+4", grouped(kInt2), {kInt2, kInt4}, 2},
    {"int4", grouped(kInt4), {}, 0},
    {"int8", grouped(WeightKind::kInt8), {}, 0},
    {"bf16", {WeightKind::kBF16, 0, 0, false, false}, {}, 0},
    {"f16", {WeightKind::kF16, 0, 0, false, false}, {}, 0},
    {"f32", {WeightKind::kF32, 0, 0, false, false}, {}, 0},
};

/// Rows of activations and of results; aligned as kernels want them.
struct Rows {
  static Result<Rows> create() {
    constexpr uint64_t kCodes = uint64_t(kManyTokens) * kShape.cols;
    constexpr uint64_t kOutputs = uint64_t(kManyTokens) * kShape.rows;
    MOERT_ASSIGN_OR_RETURN(HostRegion region,
                           HostRegion::create(kCodes * 13 + kOutputs * sizeof(float)));
    Rows rows{std::move(region), nullptr, nullptr, {}};
    std::byte *at = rows.region.data();
    rows.x = reinterpret_cast<float *>(at);
    std::fill_n(rows.x, kCodes, 0.5f);
    at += kCodes * sizeof(float);
    rows.y = reinterpret_cast<float *>(at);
    at += kOutputs * sizeof(float);
    auto *scales = reinterpret_cast<float *>(at), *sums = scales + kCodes;
    auto *codes = reinterpret_cast<int8_t *>(sums + kCodes);
    std::fill_n(scales, kCodes, 1.0f);
    std::fill_n(codes, kCodes, int8_t{1});
    rows.quantized = {codes,       scales,     reinterpret_cast<int32_t *>(sums), kShape.cols, 32,
                      kShape.cols, kShape.cols};
    return rows;
  }

  HostRegion region;
  float *x, *y;
  QuantizedRows quantized;
};

/// One width of weights, many matrices of it one behind the other.
class Matrices {
public:
  Matrices(const Stored &stored, const WeightMemory &weights) : memory(weights) {
    first.shape = kShape;
    first.format = stored.format;
    first.layout = layoutOf(kShape, stored.format).value(); // kStored has nothing to refuse.
    storedBytes = step = first.layout.bytes;
    for (uint32_t i = 0; i < stored.planeCount; ++i) {
      step = roundUp(step, kRegionAlignment);
      first.planes[first.planeCount++] = {stored.planes[i], step};
      const uint64_t bytes =
          first.layout.codesBytes * bitsOf(stored.planes[i]) / bitsOf(stored.format.kind);
      step += bytes;
      storedBytes += bytes;
    }
    step = roundUp(step, kRegionAlignment);
  }

  uint64_t bytes() const { return storedBytes; }

  /// The next one in memory, after the last one the first.
  WeightView next() {
    if ((index + 1) * step > memory.region.bytes())
      index = 0;
    WeightView view = first;
    view.bytes = {memory.pages.data(), kPageShift, index++ * step};
    return view;
  }

private:
  const WeightMemory &memory;
  WeightView first;
  uint64_t storedBytes = 0, step = 0, index = 0;
};

double threadNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/// Runs operations on a pool and adds up what each thread computed, in its own processor time:
/// other programs, which take turns on the same cores, do not count.
class TimedPool {
public:
  explicit TimedPool(ThreadPool &threadPool) : pool(threadPool), spent(threadPool.threads()) {}

  uint32_t threads() const { return pool.threads(); }

  template <typename Body> void run(uint64_t count, const Body &body) {
    pool.run(count, 1, [&](uint64_t begin, uint64_t end, uint32_t thread) {
      const double before = threadNs();
      body(begin, end, thread);
      spent[thread].ns += threadNs() - before;
    });
  }

  /// Since the last call; of the thread that took longest.
  double takeNs() {
    double most = 1;
    for (Spent &thread : spent)
      most = std::max(most, std::exchange(thread.ns, 0));
    return most;
  }

private:
  struct alignas(64) Spent {
    double ns = 0;
  };
  ThreadPool &pool;
  std::vector<Spent> spent;
};

/// Calls `once`, which runs on the pool, until the time is over; how often a second of computing.
template <typename Once>
double callsPerSecond(const ProbeRun &run, TimedPool &pool, uint64_t durationNs, Once once) {
  const uint64_t begin = run.nowNs();
  uint64_t calls = 0;
  pool.takeNs();
  for (; calls == 0 || run.nowNs() - begin < durationNs; ++calls)
    once();
  return 1e9 * static_cast<double>(calls) / pool.takeNs();
}

/// What all measurements use.
struct Bench {
  ProbeRun &run;
  const KernelTable &kernels;
  std::array<TimedPool *, 2> pools; // One thread, all threads; null where that is one.
  const WeightMemory &weights;
  Rows &rows;
};

/// One product of a measurement: some of a matrix's panels where all of them take too long.
struct Work {
  uint32_t tokens = 1;
  uint32_t panels = kShape.rows / kPanelRows;
};

/// Whole matrices a second, also where only a part of each is multiplied.
double productsPerSecond(const Bench &bench, Matrices &matrices, const Work &work, TimedPool &pool,
                         uint64_t durationNs) {
  const double calls = callsPerSecond(bench.run, pool, durationNs, [&] {
    const WeightView w = matrices.next();
    pool.run(work.panels, [&](uint64_t begin, uint64_t end, uint32_t) {
      const auto panelBegin = static_cast<uint32_t>(begin), panelEnd = static_cast<uint32_t>(end);
      if (isQuantized(w.format.kind))
        bench.kernels.linearQuantized(w, bench.rows.quantized, work.tokens, bench.rows.y,
                                      kShape.rows, panelBegin, panelEnd);
      else
        bench.kernels.linearFloat(w, bench.rows.x, kShape.cols, work.tokens, bench.rows.y,
                                  kShape.rows, panelBegin, panelEnd);
    });
  });
  return calls * work.panels / Work().panels;
}

/// As many panels as plain loops finish in the time, one for each thread at least; vector kernels
/// finish all of them.
uint32_t panelsFor(double oneTokenPerSecond, uint32_t tokens, uint32_t threads,
                   uint64_t durationNs) {
  const uint32_t all = Work().panels;
  const double share = oneTokenPerSecond / tokens * static_cast<double>(durationNs) / 1e9;
  const auto panels = static_cast<uint32_t>(all * std::min(1.0, share));
  return std::min(all, std::max(panels, threads));
}

/// How much of a core the calling thread gets while it multiplies without pause.
double measureCoreShare(const Bench &bench) {
  Matrices matrices(kStored[0], bench.weights);
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
    for (const Stored &stored : kStored) {
      Matrices matrices(stored, bench.weights);
      double oneToken = 0; // Its rate with one thread, which comes first.
      for (uint32_t tokens : kTokens)
        for (TimedPool *pool : bench.pools) {
          if (pool == nullptr)
            continue;
          constexpr uint64_t kOneNs = kProductsNs / (std::size(kStored) * 4 * kRounds);
          MOERT_RETURN_IF_ERROR(bench.run.begin("multiplying", kOneNs));
          const Work work =
              oneToken == 0 ? Work()
                            : Work{tokens, panelsFor(oneToken, tokens, pool->threads(), kOneNs)};
          const double rate = productsPerSecond(bench, matrices, work, *pool, kOneNs);
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
      bench, "reading memory", kMemoryNs, [&](TimedPool &pool, uint64_t durationNs) {
        const double passes = callsPerSecond(bench.run, pool, durationNs, [&] {
          pool.run(memory.size() / kGrain, [&](uint64_t begin, uint64_t end, uint32_t) {
            readThrough(memory.subspan(begin * kGrain, (end - begin) * kGrain));
          });
        });
        return passes * static_cast<double>(memory.size());
      });
}

Result<ThreadNumbers> measureAttention(const Bench &bench) {
  // Blocks of keys and values in the memory of the weights; 0.1 and the like are good enough.
  constexpr uint64_t kBlockBytes = uint64_t(kKvBlockTokens) * kKvHeads * kHeadDim * sizeof(float);
  std::vector<const float *> keys, values;
  for (uint32_t i = 0; i < kPositions / kKvBlockTokens; ++i) {
    const std::byte *block = bench.weights.region.data() + 2 * i * kBlockBytes;
    keys.push_back(reinterpret_cast<const float *>(block));
    values.push_back(reinterpret_cast<const float *>(block + kBlockBytes));
  }
  const KvView view = {keys.data(), values.data(), kKvHeads, kHeadDim, kHeadDim};
  constexpr uint64_t kScratchFloats = kPositions + kHeadDim;
  const uint32_t threads = bench.pools[1] != nullptr ? bench.pools[1]->threads() : 1;
  MOERT_ASSIGN_OR_RETURN(HostRegion scratch,
                         HostRegion::create(threads * kScratchFloats * sizeof(float)));
  auto *scratchFloats = reinterpret_cast<float *>(scratch.data());
  constexpr double kBytes = 2.0 * kHeads * kPositions * kHeadDim * sizeof(float);
  return measureThreads(
      bench, "attending", kAttentionNs, [&](TimedPool &pool, uint64_t durationNs) {
        return kBytes * callsPerSecond(bench.run, pool, durationNs, [&] {
                 pool.run(kHeads, [&](uint64_t begin, uint64_t end, uint32_t thread) {
                   bench.kernels.attend(bench.rows.x, view, kHeads, static_cast<uint32_t>(begin),
                                        static_cast<uint32_t>(end), 0, kPositions, 0.1f,
                                        bench.rows.y, scratchFloats + thread * kScratchFloats);
                 });
               });
      });
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
  MOERT_ASSIGN_OR_RETURN(Rows rows, Rows::create());
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> one, ThreadPool::create(1));
  std::unique_ptr<ThreadPool> all;
  if (threads > 1) {
    MOERT_ASSIGN_OR_RETURN(all, ThreadPool::create(threads));
  }
  TimedPool timedOne(*one), timedAll(all ? *all : *one);
  const Bench bench = {run, kernels, {&timedOne, all ? &timedAll : nullptr}, weights, rows};
  ComputeReport report;
  report.isa = kernels.name;
  report.threads = threads;
  MOERT_ASSIGN_OR_RETURN(report.dispatchNs, measureDispatch(run, all ? *all : *one));
  MOERT_ASSIGN_OR_RETURN(report.memoryBytesPerSecond, measureMemory(bench));
  MOERT_ASSIGN_OR_RETURN(report.attentionBytesPerSecond, measureAttention(bench));
  MOERT_RETURN_IF_ERROR(measureProducts(bench, report));
  return report;
}

} // namespace moert::probe
