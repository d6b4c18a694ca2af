// How fast the products with stored matrices are, relative to what the machine can do.
//
//   kernel_bench [--isa NAME] [--rows N...] [--threads N...] [--formats NAME...]
//                [--shapes OUTPUTSxINPUTS...] [--rounds N] [--memory MIB]
//   kernel_bench --quantize INPUTS... [--isa NAME] [--rows N...] [--rounds N]
//
// Matrices lie one after the other in far more memory than the last-level cache holds, and are
// multiplied in turn by --rows rows of activations. As in the engine each thread has a work range
// of a matrix, panels next to each other, in four calls. In every round the same memory is also
// read by as many threads, and a loop in registers executes only multiply-adds. So each line
// has, as medians of the rounds with the lower and the upper quartile:
//
//   GB/s     stored bytes that were multiplied a second, and their fraction of what was read:
//            one row is limited by memory, so about 1.00 is the maximum;
//   GMAC/s   1e9 multiply-adds a second, and their fraction of the loop in registers: many rows are
//            limited by arithmetic. With groups of 32 inputs two of ten multiplying instructions
//            scale the sums, so 0.80 is the maximum with AVX-512. 0 where there is no such loop
//            (reference, ARM).
//
// Fractions are of the same round and times are the threads' own processor time, so that a busy
// machine disturbs both alike. With --memory 4 everything comes from the cache. To compare two
// builds run them in turn and compare the medians: the machine's own rates move between runs.
//
// --quantize measures how long one thread takes to quantize rows of so many inputs from the cache,
// and their Hadamard transform, relative to that in the same round.
#include "runtime/base/CheckedMath.h"
#include "runtime/exec/Hadamard.h"
#include "runtime/exec/Kernels.h"
#include "tests/bench/MachineLimits.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

using namespace moert;
using namespace moert::bench;

namespace {

constexpr uint32_t kPageShift = 16; // As an artifact has them.
constexpr uint32_t kCallsPerThread = 4;
// In one round: enough for the clock's resolution, and few enough for many rows.
constexpr double kOperationsPerRound = 4e9;
constexpr uint64_t kQuantizedPerRound = 1 << 24; // Inputs.

/// What is multiplied: one format, and the planes on top.
struct Stored {
  WeightFormat format;
  std::vector<WeightKind> planes = {};

  std::string name() const {
    std::string text = nameOf(format.kind);
    for (WeightKind kind : planes)
      text.append("+").append(std::to_string(bitsOf(kind)));
    return isQuantized(format.kind)
               ? text + "/" + std::to_string(format.group) + (format.hasByteScales ? "b" : "")
               : text;
  }
};

std::vector<Stored> allStored() {
  constexpr WeightKind k1 = WeightKind::kInt1, k2 = WeightKind::kInt2, k4 = WeightKind::kInt4;
  constexpr WeightFormat kNested = {k2, 32, 32, false},
                         kNonLinear = {WeightKind::kNl2, 32, 32, false},
                         kBytes = {k2, 32, 32, false, false, true},
                         kNonLinearBytes = {WeightKind::kNl2, 32, 32, false, false, true};
  return {{floatFormat(WeightKind::kF32)},
          {floatFormat(WeightKind::kF16)},
          {floatFormat(WeightKind::kBF16)},
          {floatFormat(WeightKind::kMxfp4)},
          {{WeightKind::kInt8, 32, 32, false}},
          {{WeightKind::kInt4, 32, 32, false}},
          {{WeightKind::kInt4, 64, 64, true}},
          {{WeightKind::kInt2, 64, 64, true}},
          {kNested},
          {kNonLinear},
          {kNonLinear, {k1}},
          {kNonLinear, {k2}},
          {{WeightKind::kNl4, 32, 32, false}},
          {kNested, {k1}},
          {kNested, {k2}},
          {kNested, {k2, k1}},
          {kNested, {k2, k2}},
          {kNested, {k2, k4}},
          {kNonLinearBytes},
          {kNonLinearBytes, {k1}},
          {kNonLinearBytes, {k2}},
          {{WeightKind::kNl4, 32, 32, false, false, true}},
          {kBytes, {k2, k1}},
          {kBytes, {k2, k2}},
          {kBytes, {k2, k4}}};
}

struct Arguments {
  const KernelTable *kernels = &bestKernels();
  std::vector<uint32_t> rows = {1, 32}, threads = {1, 2};
  std::vector<std::string> formats; // Empty: all.
  std::vector<MatrixShape> shapes = {{1536, 768}, {768, 1536}};
  // Inputs of rows, and positions; if both are empty, products are measured.
  std::vector<uint32_t> quantize, attention;
  uint32_t rounds = 9;
  uint64_t memoryMiB = 256; // Four times a last-level cache of 32 MiB and twice that again.
};

/// Median and quartiles of the rounds' results.
struct Spread {
  explicit Spread(std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    size_t last = numbers.size() - 1;
    low = numbers[last / 4], median = numbers[last / 2], high = numbers[last - last / 4];
  }
  double low, median, high;
};

/// The memory, and a table of its pages.
class Memory {
public:
  explicit Memory(uint64_t size) : bytes(size) {
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      std::abort();
    madvise(mapped, bytes, MADV_HUGEPAGE); // As the engine's memory.
    data = static_cast<std::byte *>(mapped);
    // As f16, bf16, f32 and MXFP4 no number of it is NaN, infinite or subnormal, which some
    // processors multiply more slowly.
    for (uint64_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>((i * 2654435761u >> 13 & 0x1b) | 0x20);
    for (uint64_t page = 0; page < bytes >> kPageShift; ++page)
      pages.push_back(data + (page << kPageShift));
  }
  ~Memory() { munmap(data, bytes); }
  Memory(const Memory &) = delete;

  uint64_t bytes;
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

/// A matrix and the planes that refine it, one after the other. Returns the bytes of all.
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

void benchOne(const Arguments &arguments, const Memory &memory, const Stored &stored,
              MatrixShape shape, uint32_t rows, uint32_t threads) {
  const bool isInteger = isQuantized(stored.format.kind);
  WeightView first = {shape, stored.format, {}, {}};
  const uint64_t step = layOut(first, stored.planes), count = memory.bytes / step;
  if (count == 0) {
    std::printf("%s %u x %u: larger than the memory\n", stored.name().c_str(), shape.rows,
                shape.cols);
    return;
  }
  const uint32_t panels = first.layout.panels, calls = threads * kCallsPerThread;
  Activations activations(rows, shape, stored.format);
  activations.quantized.cols = first.layout.paddedCols;
  const uint64_t xStride = activations.quantized.codesStride, yStride = roundUp(shape.rows, 16);
  const double operations = static_cast<double>(shape.rows) * shape.cols * rows;
  const uint64_t matrices = std::clamp<uint64_t>(
      static_cast<uint64_t>(kOperationsPerRound / operations), 1, std::max<uint64_t>(count, 100));
  uint64_t next = 0; // A round continues where the last one ended.

  auto multiply = [&](uint32_t thread) {
    for (uint64_t i = next; i < next + matrices; ++i) {
      WeightView w = first;
      w.bytes = {memory.pages.data(), kPageShift, i % count * step};
      for (uint32_t call = thread * kCallsPerThread; call < (thread + 1) * kCallsPerThread;
           ++call) {
        uint32_t begin = panels * call / calls, end = panels * (call + 1) / calls;
        if (isInteger)
          arguments.kernels->linearQuantized(w, activations.quantized, rows, activations.y.data(),
                                             yStride, begin, end);
        else
          arguments.kernels->linearFloat(w, activations.x.data(), xStride, rows,
                                         activations.y.data(), yStride, begin, end);
      }
    }
  };
  std::vector<double> rates, ofRead, operationRates, ofPeak;
  for (uint32_t round = 0; round < arguments.rounds; ++round) {
    double perSecond = static_cast<double>(matrices) / secondsOf(threads, multiply);
    double read = readRate(memory.data, memory.bytes, threads);
    double peak = peakRate(arguments.kernels->isa, isInteger, threads);
    rates.push_back(perSecond * static_cast<double>(step) / 1e9);
    ofRead.push_back(perSecond * static_cast<double>(step) / read);
    operationRates.push_back(perSecond * operations / 1e9);
    ofPeak.push_back(peak > 0 ? perSecond * operations / peak : 0);
    next = (next + matrices) % count;
  }
  const Spread read(ofRead), peak(ofPeak);
  std::printf("%-11s %4u x %-4u %3u rows %u threads %7.2f GB/s %.2f (%.2f-%.2f) of reading "
              "%7.1f GMAC/s %.2f (%.2f-%.2f) of peak\n",
              stored.name().c_str(), shape.rows, shape.cols, rows, threads, Spread(rates).median,
              read.median, read.low, read.high, Spread(operationRates).median, peak.median,
              peak.low, peak.high);
  std::fflush(stdout);
}

void benchQuantize(const Arguments &arguments, uint32_t cols, uint32_t rows) {
  Activations activations(rows, {1, cols}, {WeightKind::kInt8, 32, 32});
  const uint64_t inputs = activations.x.size();
  const std::unique_ptr<float, decltype(&std::free)> x(
      static_cast<float *>(std::aligned_alloc(64, inputs * sizeof(float))), &std::free);
  for (uint64_t i = 0; i < inputs; ++i)
    x.get()[i] = static_cast<float>(i * 2654435761u >> 13 & 0xff) - 127.5f;
  QuantizedRows plain = activations.quantized;
  plain.cols = static_cast<uint32_t>(roundUp(cols, plain.group));
  QuantizedRows transformed = plain;
  transformed.hadamardBlock = hadamardBlockOf(cols);
  const uint64_t calls = std::max<uint64_t>(kQuantizedPerRound / (uint64_t(rows) * cols), 1);
  auto nsOf = [&](const QuantizedRows &out) {
    const double seconds = secondsOf(1, [&](uint32_t) {
      for (uint64_t call = 0; call < calls; ++call)
        arguments.kernels->quantizeRows(x.get(), out.codesStride, rows, cols, out);
    });
    return seconds * 1e9 / static_cast<double>(calls * rows);
  };
  std::vector<double> plainNs, transformedNs, ratios;
  for (uint32_t round = 0; round < arguments.rounds; ++round) {
    plainNs.push_back(nsOf(plain));
    transformedNs.push_back(nsOf(transformed));
    ratios.push_back(transformedNs.back() / plainNs.back());
  }
  const Spread ratio(ratios);
  std::printf("quantize %5u inputs %3u rows %8.1f ns a row, transformed in blocks of %-2u %8.1f, "
              "%.2f (%.2f-%.2f) of it\n",
              cols, rows, Spread(plainNs).median, transformed.hadamardBlock,
              Spread(transformedNs).median, ratio.median, ratio.low, ratio.high);
  std::fflush(stdout);
}

/// Attention of one token over so many positions, in each width of keys and values, with 4 key
/// heads of 128 elements.
void benchAttention(const Arguments &arguments, uint32_t positions, uint32_t headsPerKey) {
  constexpr uint32_t kKeyHeads = 4, kDim = 128;
  constexpr KvKind kKinds[] = {KvKind::kF32, KvKind::kF16, KvKind::kInt8};
  const uint32_t heads = kKeyHeads * headsPerKey;
  const uint64_t blocks = divideUp(positions, kKvBlockTokens), tokens = blocks * kKvBlockTokens;
  // Many layers, so that keys and values come from memory as they do in a model.
  const uint64_t layers = std::max<uint64_t>(1, (uint64_t(arguments.memoryMiB) << 20) /
                                                    (tokens * kKeyHeads * kDim * 8));
  Memory memory(tokens * kKeyHeads * kDim * 8 * layers);
  const uint64_t row = uint64_t(heads) * kDim;
  const Memory activations((2 * row + attentionScratchFloats(positions, kWidenedKeys * kDim)) *
                           sizeof(float));
  auto *query = reinterpret_cast<float *>(activations.data);
  std::vector<double> ns[3];
  for (uint32_t round = 0; round < arguments.rounds; ++round)
    for (KvKind kind : kKinds) {
      const uint64_t step = kvRowBytes(kind, kDim), slotBytes = tokens * kKeyHeads * step;
      const double seconds = secondsOf(1, [&](uint32_t) {
        for (uint64_t layer = 0; layer < layers; ++layer) {
          std::vector<const std::byte *> tables[2];
          for (uint32_t i = 0; i < 2; ++i)
            for (uint64_t block = 0; block < blocks; ++block)
              tables[i].push_back(memory.data + (2 * layer + i) * slotBytes +
                                  block * kKvBlockTokens * step);
          const KvView view = {
              tables[0].data(), tables[1].data(), kKeyHeads, kDim, kDim, tokens, false, kind};
          arguments.kernels->attend(query, view, heads, 0, heads, 0, positions, 0.1f, nullptr,
                                    query + row, query + 2 * row);
        }
      });
      ns[int(kind)].push_back(seconds * 1e9 / static_cast<double>(layers));
    }
  for (KvKind kind : kKinds) {
    std::vector<double> ratios;
    for (size_t i = 0; i < ns[0].size(); ++i)
      ratios.push_back(ns[int(kind)][i] / ns[0][i]);
    const Spread ratio(ratios);
    std::printf(
        "attention %6u positions, %u heads for a key, %2u bits: %10.1f us, %.2f (%.2f-%.2f) "
        "of f32\n",
        positions, headsPerKey, bitsOf(kind), Spread(ns[int(kind)]).median / 1e3, ratio.median,
        ratio.low, ratio.high);
  }
  std::fflush(stdout);
}

void printLimits(const Arguments &arguments, const Memory &memory) {
  std::printf("kernels: %s\n", arguments.kernels->name);
  for (uint32_t threads : arguments.threads) {
    std::vector<double> reads, integers, floats;
    for (uint32_t round = 0; round < arguments.rounds; ++round) {
      reads.push_back(readRate(memory.data, memory.bytes, threads) / 1e9);
      integers.push_back(peakRate(arguments.kernels->isa, true, threads) / 1e9);
      floats.push_back(peakRate(arguments.kernels->isa, false, threads) / 1e9);
    }
    const Spread read(reads), integer(integers), floating(floats);
    std::printf("limits with %u threads: reading %.1f (%.1f-%.1f) GB/s, multiply-adds of bytes "
                "%.1f (%.1f-%.1f), of f32 %.1f (%.1f-%.1f) GMAC/s\n",
                threads, read.median, read.low, read.high, integer.median, integer.low,
                integer.high, floating.median, floating.low, floating.high);
  }
}

const char *const kUsage =
    "usage: kernel_bench [--isa NAME] [--rows N...] [--threads N...]\n"
    "                   [--formats NAME...] [--shapes OUTPUTSxINPUTS...] [--rounds N]\n"
    "                   [--memory MIB]\n"
    "       kernel_bench --quantize INPUTS... [--isa NAME] [--rows N...] [--rounds N]\n"
    "       kernel_bench --attention POSITIONS... [--isa NAME] [--rounds N] [--memory MIB]\n";

/// A number of at least 1.
bool parseNumber(const char *text, uint32_t &number) {
  char *end = nullptr;
  unsigned long value = std::strtoul(text, &end, 10);
  number = static_cast<uint32_t>(value);
  return *end == 0 && value >= 1 && value <= 1u << 20;
}

bool parseKernels(std::string_view name, const KernelTable *&kernels) {
  const std::optional<Isa> isa = parseIsa(name);
  if (!isa)
    return false;
  const auto found = kernelsFor(*isa);
  if (found.isOk())
    kernels = *found;
  else
    std::fprintf(stderr, "%s\n", found.status().message().c_str());
  return found.isOk();
}

bool parseShape(const char *text, MatrixShape &shape) {
  char rest = 0;
  return std::sscanf(text, "%ux%u%c", &shape.rows, &shape.cols, &rest) == 2 && shape.rows > 0 &&
         shape.cols > 0;
}

bool parseFormat(const std::string &name, std::vector<std::string> &formats) {
  std::string known;
  for (const Stored &stored : allStored()) {
    if (stored.name() == name) {
      formats.push_back(name);
      return true;
    }
    known.append(" ").append(stored.name());
  }
  std::fprintf(stderr, "--formats '%s', expected some of:%s\n", name.c_str(), known.c_str());
  return false;
}

/// Takes one value of a flag.
bool parseValue(std::string_view flag, const char *text, Arguments &arguments) {
  uint32_t number = 0;
  if (flag == "--isa")
    return parseKernels(text, arguments.kernels);
  if (flag == "--formats")
    return parseFormat(text, arguments.formats);
  if (flag == "--shapes")
    return parseShape(text, arguments.shapes.emplace_back());
  if (!parseNumber(text, number))
    return false;
  if (flag == "--rows")
    arguments.rows.push_back(number);
  else if (flag == "--threads")
    arguments.threads.push_back(number);
  else if (flag == "--quantize")
    arguments.quantize.push_back(number);
  else if (flag == "--attention")
    arguments.attention.push_back(number);
  else if (flag == "--rounds")
    arguments.rounds = number;
  else if (flag == "--memory")
    arguments.memoryMiB = number;
  else
    return false;
  return true;
}

bool parse(int argc, char **argv, Arguments &arguments) {
  for (int i = 1; i < argc;) {
    std::string_view flag = argv[i++];
    if (flag == "--rows")
      arguments.rows.clear();
    if (flag == "--threads")
      arguments.threads.clear();
    if (flag == "--shapes")
      arguments.shapes.clear();
    if (i == argc)
      return false;
    do {
      if (!parseValue(flag, argv[i++], arguments))
        return false;
    } while (i < argc && argv[i][0] != '-');
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  for (uint32_t rows : arguments.rows)
    for (uint32_t cols : arguments.quantize)
      benchQuantize(arguments, cols, rows);
  for (uint32_t positions : arguments.attention)
    for (uint32_t headsPerKey : {1u, 8u})
      benchAttention(arguments, positions, headsPerKey);
  if (!arguments.quantize.empty() || !arguments.attention.empty())
    return 0;
  Memory memory(arguments.memoryMiB << 20);
  printLimits(arguments, memory);
  for (uint32_t rows : arguments.rows)
    for (const Stored &stored : allStored()) {
      const std::vector<std::string> &wanted = arguments.formats;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), stored.name()) == wanted.end())
        continue;
      for (const MatrixShape &shape : arguments.shapes)
        for (uint32_t threads : arguments.threads)
          benchOne(arguments, memory, stored, shape, rows, threads);
    }
  return 0;
}
