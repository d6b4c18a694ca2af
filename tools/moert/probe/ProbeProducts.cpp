#include "tools/moert/probe/ProbeProducts.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace moert::probe {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kPageShift = 16;

static uint64_t memoryBytes() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  const uint64_t wanted = cache > 0 ? roundUp(4 * uint64_t(cache), kMiB) : 0;
  return std::clamp<uint64_t>(wanted, 128 * kMiB, 256 * kMiB);
}

Result<WeightMemory> WeightMemory::create() {
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

constexpr WeightKind kInt1 = WeightKind::kInt1, kInt2 = WeightKind::kInt2,
                     kInt4 = WeightKind::kInt4, kNl2 = WeightKind::kNl2;

static constexpr WeightFormat grouped(WeightKind kind) {
  return {kind, 32, 32, false, false};
}
static constexpr StoredWidth kStored[] = {
    {"int2", grouped(kInt2), {}, 0},
    {"int2+1", grouped(kInt2), {kInt1}, 1},
    {"int2+2", grouped(kInt2), {kInt2}, 1},
    {"int2+2+1", grouped(kInt2), {kInt2, kInt1}, 2},
    {"int2+2+2", grouped(kInt2), {kInt2, kInt2}, 2},
    {"int2+2+4", grouped(kInt2), {kInt2, kInt4}, 2},
    {"int4", grouped(kInt4), {}, 0},
    {"int8", grouped(WeightKind::kInt8), {}, 0},
    {"nl2", grouped(kNl2), {}, 0},
    {"nl2+1", grouped(kNl2), {kInt1}, 1},
    {"nl2+2", grouped(kNl2), {kInt2}, 1},
    {"nl4", grouped(WeightKind::kNl4), {}, 0},
    {"mxfp4", floatFormat(WeightKind::kMxfp4), {}, 0},
    {"blocks", floatFormat(WeightKind::kQ4K), {}, 0},
    {"bf16", floatFormat(WeightKind::kBF16), {}, 0},
    {"f16", floatFormat(WeightKind::kF16), {}, 0},
    {"f32", floatFormat(WeightKind::kF32), {}, 0},
};

std::span<const StoredWidth> storedWidths() {
  return kStored;
}

Result<ProductRows> ProductRows::create() {
  constexpr uint64_t kCodes = uint64_t(kManyTokens) * kShape.cols;
  constexpr uint64_t kOutputs = uint64_t(kManyTokens) * kShape.rows;
  MOERT_ASSIGN_OR_RETURN(HostRegion region,
                         HostRegion::create(kCodes * 13 + kOutputs * sizeof(float)));
  ProductRows rows{std::move(region), nullptr, nullptr, {}};
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

Matrices::Matrices(const StoredWidth &stored, const WeightMemory &weights) : memory(weights) {
  first.shape = kShape;
  first.format = stored.format;
  first.layout = layoutOf(kShape, stored.format).value(); // kStored has only valid formats.
  storedBytes = step = first.layout.bytes;
  for (uint32_t i = 0; i < stored.upperSliceCount; ++i) {
    step = roundUp(step, kRegionAlignment);
    first.planes[first.planeCount++] = {stored.upperSlices[i], step};
    const uint64_t bytes =
        first.layout.codesBytes * bitsOf(stored.upperSlices[i]) / bitsOf(stored.format.kind);
    step += bytes;
    storedBytes += bytes;
  }
  step = roundUp(step, kRegionAlignment);
}

WeightView Matrices::next() {
  if ((index + 1) * step > memory.region.bytes())
    index = 0;
  WeightView view = first;
  view.bytes = {memory.pages.data(), kPageShift, index++ * step};
  return view;
}

// Some microseconds of work, the engine's grain (runtime/engine/Execute.cpp).
static constexpr uint64_t kGrainOperations = 64 * 1024;

Result<Processor> Processor::create(const KernelTable &kernels, uint32_t threads) {
  MOERT_ASSIGN_OR_RETURN(WeightMemory weights, WeightMemory::create());
  MOERT_ASSIGN_OR_RETURN(ProductRows rows, ProductRows::create());
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> one, ThreadPool::create(1));
  std::unique_ptr<ThreadPool> many;
  if (threads > 1) {
    MOERT_ASSIGN_OR_RETURN(many, ThreadPool::create(threads));
  }
  return Processor{kernels, std::move(weights), std::move(rows), std::move(one), std::move(many)};
}

void Processor::multiply(ThreadPool &pool, const WeightView &w, uint32_t tokens,
                         uint32_t panels) const {
  const uint64_t perPanel = uint64_t(kPanelRows) * kShape.cols * tokens;
  const uint64_t grain = std::max<uint64_t>(1, kGrainOperations / perPanel);
  pool.run(panels, grain, [&](uint64_t begin, uint64_t end, uint32_t) {
    const auto panelBegin = static_cast<uint32_t>(begin), panelEnd = static_cast<uint32_t>(end);
    if (isQuantized(w.format.kind))
      kernels.linearQuantized(w, rows.quantized, tokens, rows.y, kShape.rows, panelBegin, panelEnd);
    else
      kernels.linearFloat(w, rows.x, kShape.cols, tokens, rows.y, kShape.rows, panelBegin,
                          panelEnd);
  });
}

} // namespace moert::probe
