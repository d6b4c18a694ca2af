// How fast the products read weights, against a plain read of the same memory.
//
//   KernelBench [--isa reference|avx2|avx512] [--rows N...]
//
// Matrices of an expert's size lie one behind the other in far more memory than the last-level
// cache holds, and are multiplied in turn, each thread its half of the panels. After every turn the
// same memory is read with plain loads by as many threads: the ratio of the two is the result.
// Times are the threads' own processor time, so that a busy machine disturbs both alike; each
// number is the median of several turns.
#include "runtime/base/CheckedMath.h"
#include "runtime/kernels/Kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace moert;

namespace {

// Four times a last-level cache of 32 MiB and twice that again; pages as an artifact has them.
constexpr uint64_t kMemoryBytes = 256u << 20;
constexpr uint32_t kPageShift = 16;
constexpr int kTurns = 9;

struct Arguments {
  const KernelTable *kernels = &bestKernels();
  std::vector<uint32_t> rows = {1, 32};
};

double threadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Runs work(thread) on each thread; the most processor time that any of them took.
double secondsOf(uint32_t threads, const std::function<void(uint32_t)> &work) {
  std::vector<double> seconds(threads);
  std::vector<std::thread> workers;
  for (uint32_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      double begin = threadSeconds();
      work(t);
      seconds[t] = threadSeconds() - begin;
    });
  for (std::thread &worker : workers)
    worker.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

double median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(), numbers.begin() + kTurns / 2, numbers.end());
  return numbers[kTurns / 2];
}

/// Plain loads of everything, in eight sums.
uint64_t readAll(const std::byte *from, uint64_t bytes) {
  uint64_t sums[8] = {};
  for (uint64_t i = 0; i + 64 <= bytes; i += 64)
    for (int k = 0; k < 8; ++k) {
      uint64_t word;
      std::memcpy(&word, from + i + 8 * k, 8);
      sums[k] += word;
    }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

/// The memory, and a table of its pages.
class Memory {
public:
  Memory() {
    void *mapped =
        mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      std::abort();
    madvise(mapped, kMemoryBytes, MADV_HUGEPAGE);
    data = static_cast<std::byte *>(mapped);
    for (uint64_t i = 0; i < kMemoryBytes; ++i)
      data[i] = static_cast<std::byte>(i * 2654435761u >> 13 & 0x3b); // No f16 or f32 of it is NaN.
    for (uint64_t page = 0; page < kMemoryBytes >> kPageShift; ++page)
      pages.push_back(data + (page << kPageShift));
  }
  ~Memory() { munmap(data, kMemoryBytes); }
  Memory(const Memory &) = delete;

  std::byte *data;
  std::vector<const std::byte *> pages;
};

struct Activations {
  explicit Activations(uint32_t rows, MatrixShape shape, const WeightFormat &format)
      : x(uint64_t(rows) * roundUp(shape.cols, 64), 0.5f), codes(x.size(), 1), scales(x.size(), 1),
        sums(x.size(), 1), y(uint64_t(rows) * roundUp(shape.rows, 16)) {
    uint64_t stride = roundUp(shape.cols, 64);
    quantized = {codes.data(),           scales.data(), sums.data(), 0,
                 format.activationGroup, stride,        stride};
  }

  std::vector<float> x;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> y;
  QuantizedRows quantized;
};

/// A matrix and the planes that refine it, one behind the other. Returns the bytes of all.
uint64_t layOut(WeightView &w, std::span<const WeightKind> planes) {
  w.layout = layoutOf(w.shape, w.format).value();
  uint64_t bytes = roundUp(w.layout.bytes, kRegionAlignment);
  for (WeightKind kind : planes) {
    w.planes[w.planeCount++] = {kind, bytes};
    uint64_t planeBytes = w.layout.codesBytes * bitsOf(kind) / bitsOf(w.format.kind);
    bytes += roundUp(planeBytes, kRegionAlignment);
  }
  return bytes;
}

/// What is multiplied: one format, and the planes on top.
struct Stored {
  WeightFormat format;
  std::vector<WeightKind> planes = {};

  std::string name() const {
    std::string text = nameOf(format.kind);
    for (WeightKind kind : planes)
      text.append("+").append(std::to_string(bitsOf(kind)));
    return text;
  }
};

void benchOne(const Arguments &arguments, const Memory &memory, const Stored &stored,
              MatrixShape shape, uint32_t rows, uint32_t threads) {
  const WeightFormat &format = stored.format;
  WeightView first = {shape, format, {}, {}};
  uint64_t step = layOut(first, stored.planes), count = kMemoryBytes / step;
  const MatrixLayout &layout = first.layout;
  Activations activations(rows, shape, format);
  activations.quantized.cols = layout.paddedCols;
  uint64_t xStride = activations.quantized.codesStride, yStride = roundUp(shape.rows, 16);

  auto multiply = [&](uint32_t thread) {
    uint32_t begin = layout.panels * thread / threads, end = layout.panels * (thread + 1) / threads;
    for (uint64_t i = 0; i < count; ++i) {
      WeightView w = first;
      w.bytes = {memory.pages.data(), kPageShift, i * step};
      if (isQuantized(format.kind))
        arguments.kernels->linearQuantized(w, activations.quantized, rows, activations.y.data(),
                                           yStride, begin, end);
      else
        arguments.kernels->linearFloat(w, activations.x.data(), xStride, rows, activations.y.data(),
                                       yStride, begin, end);
    }
  };
  std::vector<uint64_t> keep(threads);
  auto read = [&](uint32_t thread) {
    uint64_t part = count * step / threads;
    keep[thread] = readAll(memory.data + part * thread, part);
  };

  std::vector<double> products, reads;
  for (int turn = 0; turn < kTurns; ++turn) {
    products.push_back(secondsOf(threads, multiply));
    reads.push_back(secondsOf(threads, read));
  }
  double bytes = static_cast<double>(count * step);
  double rate = bytes / median(products), readRate = bytes / median(reads);
  double multiplications = bytes / static_cast<double>(step) * rows * shape.rows * shape.cols;
  std::printf("%-8s g%-3u %5u x %-5u %4u rows %u threads %7.2f GB/s %7.2f GB/s read  ratio %.2f "
              "%8.1f GMAC/s%s\n",
              stored.name().c_str(), format.group, shape.rows, shape.cols, rows, threads,
              rate / 1e9, readRate / 1e9, rate / readRate, multiplications / median(products) / 1e9,
              keep[0] == 1 ? " " : "");
  std::fflush(stdout);
}

bool parse(int argc, char **argv, Arguments &arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    if (flag == "--isa" && i + 1 < argc) {
      std::string_view name = argv[++i];
      auto kernels = kernelsFor(parseIsa(name).value_or(Isa::kReference));
      if (!kernels.isOk()) {
        std::fprintf(stderr, "%s\n", kernels.status().message().c_str());
        return false;
      }
      arguments.kernels = *kernels;
    } else if (flag == "--rows") {
      arguments.rows.clear();
      while (i + 1 < argc && argv[i + 1][0] != '-')
        arguments.rows.push_back(static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 10)));
    } else {
      std::fprintf(stderr, "usage: KernelBench [--isa reference|avx2|avx512] [--rows N...]\n");
      return false;
    }
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments))
    return 2;
  Memory memory;
  constexpr MatrixShape kShape = {1536, 768};
  constexpr WeightKind k1 = WeightKind::kInt1, k2 = WeightKind::kInt2, k4 = WeightKind::kInt4;
  constexpr WeightFormat kNested = {k2, 32, 32, false};
  const std::vector<Stored> kFormats = {{{WeightKind::kF32, 0, 0, false}},
                                        {{WeightKind::kF16, 0, 0, false}},
                                        {{WeightKind::kBF16, 0, 0, false}},
                                        {{WeightKind::kInt8, 32, 32, false}},
                                        {{WeightKind::kInt4, 32, 32, false}},
                                        {{WeightKind::kInt4, 64, 64, true}},
                                        {{WeightKind::kInt2, 64, 64, true}},
                                        {kNested},
                                        {kNested, {k1}},
                                        {kNested, {k2}},
                                        {kNested, {k2, k2}},
                                        {kNested, {k2, k4}}};
  std::printf("kernels: %s\n", arguments.kernels->name);
  for (uint32_t rows : arguments.rows)
    for (const Stored &stored : kFormats)
      for (uint32_t threads : {1u, 2u})
        benchOne(arguments, memory, stored, kShape, rows, threads);
  return 0;
}
