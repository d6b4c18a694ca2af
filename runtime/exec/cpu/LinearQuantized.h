// Products with quantized matrices in lanes, one panel times a few rows at a time. dotGroup, the
// integer sum of one group, is specific to the instruction set (Dot256.h, Dot512.h, GroupNeon.h).
// Included after those and LinearFloat.h.
#pragma once

#include <bit>

#include "runtime/exec/Kernels.h"
#include "runtime/format/CodeLevels.h"

namespace moert {
namespace {

struct QuantizedTask {
  const WeightView &w;
  QuantizedRows x; // From the first row of the tile.
  float *y;
  uint64_t yStride;
};

/// Prefetch distance for codes while one row is multiplied. Measured with KernelBench (Zen 4, int4
/// with groups of 32): 0.83 of a plain read's rate without, 0.85, 0.85, 0.92, 0.90 at 1, 2, 4, 8
/// KiB. int8, which computes half as much per byte, gets slower. A tile of many rows prefetches the
/// next panel instead, into the second-level cache, during computation: 1.2 to 1.6 times the rate
/// with 8 to 32 rows of int8, 1.1 to 1.4 of int4; with several planes, or 4 rows in a tile,
/// prefetching costs more than it gains.
constexpr uint32_t kAheadBytes = 4096;
/// Several planes are several streams, which the hardware prefetcher follows less well: they are
/// prefetched from further ahead, into the second-level cache. Two threads with int2+2 then reach
/// 0.86 of a plain read's rate instead of 0.72, with int2+2+4 0.87 instead of 0.75. One plane of 2
/// bits, which computes the most per byte, profits too: with nl2, 0.97 and 0.85 (1 and 2 threads)
/// instead of 0.92 and 0.80.
constexpr uint32_t kPlaneAheadBytes = 8192;
template <typename P> constexpr bool kReadsFarAhead = P::kCount > 1 || P::template is<2>();

/// A run of whole activation groups whose codes (in each plane) and scales each lie in one page.
struct GroupRun {
  const std::byte *codes[kMaxExpertSlices];
  const std::byte *ahead[kMaxExpertSlices]; // To prefetch, if the plane extends that far.
  const std::byte *table;                   // The entry of the first group.
  uint32_t count;

  void limit(uint64_t groups) {
    if (groups < count)
      count = static_cast<uint32_t>(groups);
  }
};

/// Bytes of a group in a plane of `bits` bits.
constexpr uint32_t groupBytes(int group, int bits) {
  return kPanelRows * static_cast<uint32_t>(group * bits) / 8;
}

/// Finds the entries from activation group `group` of a panel on, in the table at byte `table`;
/// `ratio` activation groups share an entry.
inline void findEntries(const WeightView &w, uint64_t table, uint32_t panel, uint32_t group,
                        uint32_t ratio, GroupRun &run) {
  const uint64_t entryBytes = kPanelRows * scaleBytesOf(w.format);
  uint32_t entry = group / ratio;
  uint64_t index = uint64_t(panel) * w.layout.groupsPerRow + entry;
  PageRun entries = runFrom(w.bytes, table + index * entryBytes);
  run.table = entries.data;
  run.limit((entry + entries.bytes / entryBytes) * ratio - group);
}

/// The planes of a matrix whose activation groups have 1 << groupShift inputs.
struct PlaneShape {
  int planes;
  int groupShift;
  int byteShift[kMaxExpertSlices]; // A group has 1 << byteShift bytes in a plane.
  uint64_t ahead;                  // In bytes, to prefetch; 0: the same group of the next panel.
};

template <typename P, int kGroup, bool kIsOneRow> constexpr PlaneShape planeShape() {
  PlaneShape shape = {P::kCount, std::countr_zero(unsigned(kGroup)), {}, 0};
  for (int p = 0; p < P::kCount; ++p)
    shape.byteShift[p] = std::countr_zero(groupBytes(kGroup, P::kBitsOf[p]));
  if (kIsOneRow)
    shape.ahead = kReadsFarAhead<P> ? kPlaneAheadBytes : kAheadBytes;
  return shape;
}

/// The run that starts with activation group `group` of a panel, `atMost` groups; `ratio`
/// activation groups share an entry.
inline GroupRun findRun(const WeightView &w, const PlaneShape &shape, uint32_t panel,
                        uint32_t group, uint32_t ratio, uint32_t atMost) {
  GroupRun run = {{}, {}, nullptr, atMost};
  const uint64_t perPanel = w.layout.paddedCols >> shape.groupShift;
  const uint64_t index = panel * perPanel + group;
  const uint64_t groups = w.layout.panels * perPanel;
  for (int p = 0; p < shape.planes; ++p) {
    const int shift = shape.byteShift[p];
    const uint64_t plane = p == 0 ? 0 : w.planes[static_cast<uint32_t>(p - 1)].offset;
    PageRun codes = runFrom(w.bytes, plane + (index << shift));
    const uint64_t aheadBytes = shape.ahead == 0 ? perPanel << shift : shape.ahead;
    PageRun ahead = codes;
    if ((index << shift) + aheadBytes < groups << shift)
      ahead = runFrom(w.bytes, plane + (index << shift) + aheadBytes);
    run.codes[p] = codes.data;
    run.ahead[p] = ahead.data;
    run.limit(codes.bytes >> shift);
    run.limit(ahead.bytes >> shift);
  }
  findEntries(w, w.layout.scalesOffset, panel, group, ratio, run);
  return run;
}

/// The same, shared by the tiles of 4 and 8 rows, which compute long enough between two runs: saves
/// 50 KB. With 1 or 2 rows a call costs up to a quarter of the rate (int2+2, AVX2).
__attribute__((noinline)) GroupRun findRunShared(const WeightView &w, const PlaneShape &shape,
                                                 uint32_t panel, uint32_t group, uint32_t ratio,
                                                 uint32_t atMost) {
  return findRun(w, shape, panel, group, ratio, atMost);
}

/// The scales of a panel's groups.
struct ScaleReader {
  bool isByte;
  Lanes rowScales; // Only with byte scales.

  explicit ScaleReader(const WeightView &w, uint32_t panel)
      : isByte(w.format.hasByteScales), rowScales(zeroLanes()) {
    if (isByte)
      rowScales = loadBF16(
          runFrom(w.bytes, w.layout.rowScalesOffset + uint64_t(panel) * kPanelRows * 2).data);
  }
  Lanes load(const std::byte *entry) const {
    return isByte ? multiply(loadI8(entry), rowScales) : loadF16(entry);
  }
};

/// Steps through the entries of a table by activation group; `ratio` groups share an entry.
class EntryCursor {
public:
  EntryCursor(uint32_t group, uint32_t entryRatio, const WeightFormat &format)
      : ratio(entryRatio), left(entryRatio - group % entryRatio),
        entryBytes(kPanelRows * scaleBytesOf(format)) {}

  /// In bytes from the first group's entry.
  uint64_t offset() const { return bytes; }
  void advance() {
    if (--left == 0) {
      left = ratio;
      bytes += entryBytes;
    }
  }

private:
  uint32_t ratio, left, entryBytes;
  uint64_t bytes = 0;
};

/// Prefetches the codes of a later group.
template <typename P, int kGroup, int kRows>
inline void prefetchGroup(const GroupRun &run, uint32_t group) {
  for (int p = 0; p < P::kCount; ++p) {
    const uint32_t bytes = groupBytes(kGroup, P::kBitsOf[p]);
    const std::byte *ahead = run.ahead[p] + uint64_t(group) * bytes;
    for (uint32_t line = 0; line < bytes; line += 64)
      __builtin_prefetch(ahead + line, 0,
                         kRows == 1 && !kReadsFarAhead<P> ? 3
                                                          : 2); // Of 3, which is the nearest cache.
  }
}

/// kIsWhole: these planes always hold every bit of the matrix's grid. Otherwise bits may be
/// missing; one version handles both cases, since a second would make the kernels a quarter larger.
template <typename P, bool kIsWhole, int kGroup, int kRows>
inline void addProducts(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  const uint32_t groups = task.x.cols / kGroup;
  const uint32_t ratio = task.w.format.group / kGroup;
  static constexpr PlaneShape kShape = planeShape<P, kGroup, kRows == 1>();
  const GridSteps steps = gridSteps<P>(task.w.missingBits);
  const ScaleReader scales(task.w, panel);
  const uint8_t *levels = nullptr;
  if constexpr (P::kLooksUp && P::template is<2>())
    levels = kPairLevels[task.w.missingBits].of;
  else if constexpr (P::kLooksUp)
    levels = kLevelTables.levels[P::kBits + task.w.missingBits - 2][task.w.missingBits].of;
  for (uint32_t group = 0; group < groups;) {
    const GroupRun run =
        (kRows < 4 ? findRun : findRunShared)(task.w, kShape, panel, group, ratio, groups - group);
    EntryCursor entry(group, ratio, task.w.format);
    const int8_t *x = task.x.codes + group * kGroup;
    for (uint32_t k = 0; k < run.count; ++k, ++group, entry.advance()) {
      if constexpr (kRows == 1 ? !P::template is<8>() : kRows == 8 && P::kCount == 1)
        prefetchGroup<P, kGroup, kRows>(run, k);
      GroupCodes<P> codes = {{}, levels};
      for (int p = 0; p < P::kCount; ++p)
        codes.planes[p] = run.codes[p] + uint64_t(k) * groupBytes(kGroup, P::kBitsOf[p]);
      Lanes products[kRows];
      Lanes stepScale = scales.load(run.table + entry.offset());
      if constexpr (kIsWhole) {
        dotGroup<P, kGroup, kRows>(codes, x + k * kGroup, task.x.codesStride, task.x.sums + group,
                                   task.x.groupsStride, products);
      } else {
        dotGroupOnGrid<P, kGroup, kRows>(codes, x + k * kGroup, task.x.codesStride,
                                         task.x.sums + group, task.x.groupsStride, steps, products);
        stepScale = multiply(stepScale, splat(steps.step));
      }
      for (int r = 0; r < kRows; ++r) {
        float scale = task.x.scales[r * task.x.groupsStride + group];
        sums[r] = fma(products[r], multiply(stepScale, splat(scale)), sums[r]);
      }
    }
  }
}

/// One version for all planes and groups.
template <int kRows>
__attribute__((noinline)) void addOffsets(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  const uint32_t groups = task.x.cols / task.x.group;
  const uint32_t ratio = task.w.format.group / task.x.group;
  for (uint32_t group = 0; group < groups;) {
    GroupRun run = {{}, {}, nullptr, groups - group};
    findEntries(task.w, task.w.layout.offsetsOffset, panel, group, ratio, run);
    EntryCursor entry(group, ratio, task.w.format);
    for (uint32_t k = 0; k < run.count; ++k, ++group, entry.advance()) {
      Lanes offset = loadF16(run.table + entry.offset());
      for (int r = 0; r < kRows; ++r) {
        uint64_t at = r * task.x.groupsStride + group;
        float sum = static_cast<float>(task.x.sums[at]) * task.x.scales[at];
        sums[r] = fma(splat(sum), offset, sums[r]);
      }
    }
  }
}

template <typename P, bool kIsWhole, int kGroup, int kRows>
void quantizedTile(const QuantizedTask &task, uint32_t panel) {
  Lanes sums[kRows];
  for (int r = 0; r < kRows; ++r)
    sums[r] = zeroLanes();
  addProducts<P, kIsWhole, kGroup, kRows>(task, panel, sums);
  if (task.w.format.hasOffsets) {
    Lanes more[kRows]; // Its address is taken, so that the other sums stay in registers.
    for (int r = 0; r < kRows; ++r)
      more[r] = sums[r];
    addOffsets<kRows>(task, panel, more);
    for (int r = 0; r < kRows; ++r)
      sums[r] = more[r];
  }
  for (int r = 0; r < kRows; ++r)
    storeUpTo(task.y + r * task.yStride + panel * kPanelRows, sums[r], realOutputs(task.w, panel));
}

/// The task starting at a later row.
inline QuantizedTask fromRow(QuantizedTask task, uint32_t row) {
  task.x.codes += row * task.x.codesStride;
  task.x.scales += row * task.x.groupsStride;
  task.x.sums += row * task.x.groupsStride;
  task.y += row * task.yStride;
  return task;
}

/// Panels in the outer loop, rows in the inner: a panel is read once from memory and then from the
/// cache. One panel at a time even for one row: two halve the rate, since the hardware prefetcher
/// follows one stream best.
template <typename P, bool kIsWhole, int kGroup>
void quantizedPanels(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  for (uint32_t panel = panelBegin; panel < panelEnd; ++panel) {
    uint32_t row = 0;
    if constexpr (kQuantizedRows > 4)
      for (; row + 8 <= rows; row += 8)
        quantizedTile<P, kIsWhole, kGroup, 8>(fromRow(task, row), panel);
    for (; row + 4 <= rows; row += 4)
      quantizedTile<P, kIsWhole, kGroup, 4>(fromRow(task, row), panel);
    for (; row + 2 <= rows; row += 2)
      quantizedTile<P, kIsWhole, kGroup, 2>(fromRow(task, row), panel);
    for (; row < rows; ++row)
      quantizedTile<P, kIsWhole, kGroup, 1>(fromRow(task, row), panel);
  }
}

template <typename P, bool kIsWhole>
void quantizedGroups(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  if (task.x.group == 64)
    return quantizedPanels<P, kIsWhole, 64>(task, rows, panelBegin, panelEnd);
  // The layout has no 1-bit planes in groups of 16.
  if constexpr (P::kInputs <= 16)
    if (task.x.group == 16)
      return quantizedPanels<P, kIsWhole, 16>(task, rows, panelBegin, panelEnd);
  quantizedPanels<P, kIsWhole, 32>(task, rows, panelBegin, panelEnd);
}

/// Non-linear codes, whose activation groups have 32 inputs, with any planes and missing bits: the
/// table of levels differs.
void levelPanels(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin, uint32_t panelEnd) {
  if (task.w.format.kind == WeightKind::kNl4)
    return quantizedPanels<Planes<4, 0, 0, true>, true, 32>(task, rows, panelBegin, panelEnd);
  if (task.w.planeCount == 0)
    return quantizedPanels<Planes<2, 0, 0, true>, true, 32>(task, rows, panelBegin, panelEnd);
  if (task.w.planes[0].kind == WeightKind::kInt1)
    return quantizedPanels<Planes<2, 1, 0, true>, true, 32>(task, rows, panelBegin, panelEnd);
  quantizedPanels<Planes<2, 2, 0, true>, true, 32>(task, rows, panelBegin, panelEnd);
}

void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  QuantizedTask task = {w, x, y, yStride};
  auto execute = [&](auto multiplyWith) { multiplyWith(task, rows, panelBegin, panelEnd); };
  if (hasLevels(w.format.kind))
    return execute(levelPanels);
  if (w.format.kind == WeightKind::kInt8)
    return execute(quantizedGroups<Planes<8>, true>);
  if (w.format.kind == WeightKind::kInt4)
    return execute(quantizedGroups<Planes<4>, true>);
  if (w.planeCount == 0)
    return execute(quantizedGroups<Planes<2>, false>);
  if (w.planeCount == 2 && w.planes[1].kind == WeightKind::kInt1)
    return execute(quantizedGroups<Planes<2, 2, 1>, true>);
  if (w.planeCount == 2)
    return w.planes[1].kind == WeightKind::kInt4 ? execute(quantizedGroups<Planes<2, 2, 4>, true>)
                                                 : execute(quantizedGroups<Planes<2, 2, 2>, true>);
  if (w.planes[0].kind == WeightKind::kInt1)
    return execute(quantizedGroups<Planes<2, 1>, true>);
  execute(quantizedGroups<Planes<2, 2>, false>);
}

} // namespace
} // namespace moert
