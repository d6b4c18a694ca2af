// Products with quantized matrices in lanes, one panel times a few rows at a time. dotGroup, the
// sum of one group in integers, is the instruction set's own (Dot256.h, Dot512.h). Included behind
// those and LinearFloat.h.
#pragma once

#include "runtime/kernels/Kernels.h"

namespace moert {
namespace {

struct QuantizedTask {
  const WeightView &w;
  QuantizedRows x; // From the tile's first row on.
  float *y;
  uint64_t yStride;
};

/// How far in front of the products codes are asked for while one row is multiplied. Measured with
/// KernelBench (Zen 4, int4 with groups of 32): 0.83 of a plain read's rate without, 0.85, 0.85,
/// 0.92, 0.90 at 1, 2, 4, 8 KiB. int8, which computes half as much per byte, loses by it.
constexpr uint32_t kAheadBytes = 4096;

/// A run of whole activation groups whose codes and scales each lie in one page.
struct GroupRun {
  const std::byte *codes;
  const std::byte *ahead; // kAheadBytes behind the codes, where the matrix has that much.
  const std::byte *table; // The entry of the first group.
  uint32_t count;

  void limit(uint64_t groups) {
    if (groups < count)
      count = static_cast<uint32_t>(groups);
  }
};

/// Finds the codes of the run that starts at byte `index`.
template <uint32_t kGroupBytes>
inline void findCodes(const WeightView &w, uint64_t index, GroupRun &run) {
  PageRun codes = runFrom(w.bytes, index);
  PageRun ahead = codes;
  if (index + kAheadBytes < w.layout.codesBytes)
    ahead = runFrom(w.bytes, index + kAheadBytes);
  run.codes = codes.data;
  run.ahead = ahead.data;
  run.limit(codes.bytes / kGroupBytes);
  run.limit(ahead.bytes / kGroupBytes);
}

/// From activation group `group` of a panel on, of the table at byte `table`: `ratio` activation
/// groups share an entry.
inline void findEntries(const WeightView &w, uint64_t table, uint32_t panel, uint32_t group,
                        uint32_t ratio, GroupRun &run) {
  constexpr uint64_t kEntryBytes = kPanelRows * 2;
  uint32_t entry = group / ratio;
  uint64_t index = uint64_t(panel) * w.layout.groupsPerRow + entry;
  PageRun entries = runFrom(w.bytes, table + index * kEntryBytes);
  run.table = entries.data;
  run.limit((entry + entries.bytes / kEntryBytes) * ratio - group);
}

/// Which entry of a table applies, activation group after activation group: `ratio` of them share
/// one.
class EntryCursor {
public:
  EntryCursor(uint32_t group, uint32_t entryRatio)
      : ratio(entryRatio), left(entryRatio - group % entryRatio) {}

  /// In bytes from the first group's entry.
  uint64_t offset() const { return bytes; }
  void advance() {
    if (--left == 0) {
      left = ratio;
      bytes += kPanelRows * 2;
    }
  }

private:
  uint32_t ratio, left;
  uint64_t bytes = 0;
};

template <int kBits, int kGroup, int kRows>
inline void addProducts(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  constexpr uint32_t kGroupBytes = kPanelRows * kGroup * kBits / 8;
  const uint32_t groups = task.x.cols / kGroup;
  const uint32_t ratio = task.w.format.group / kGroup;
  for (uint32_t group = 0; group < groups;) {
    GroupRun run = {nullptr, nullptr, nullptr, groups - group};
    findCodes<kGroupBytes>(task.w, (uint64_t(panel) * groups + group) * kGroupBytes, run);
    findEntries(task.w, task.w.layout.scalesOffset, panel, group, ratio, run);
    EntryCursor entry(group, ratio);
    const int8_t *codes = task.x.codes + group * kGroup;
    for (uint32_t k = 0; k < run.count; ++k, ++group, entry.advance()) {
      uint64_t at = uint64_t(k) * kGroupBytes;
      if constexpr (kRows == 1 && kBits < 8)
        for (uint32_t line = 0; line < kGroupBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char *>(run.ahead + at + line), _MM_HINT_T0);
      Lanes products[kRows];
      dotGroup<kBits, kGroup, kRows>(run.codes + at, codes + k * kGroup, task.x.codesStride,
                                     task.x.sums + group, task.x.groupsStride, products);
      Lanes weightScale = loadF16(run.table + entry.offset());
      for (int r = 0; r < kRows; ++r) {
        float scale = task.x.scales[r * task.x.groupsStride + group];
        sums[r] = fma(products[r], multiply(weightScale, splat(scale)), sums[r]);
      }
    }
  }
}

template <int kGroup, int kRows>
inline void addOffsets(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  const uint32_t groups = task.x.cols / kGroup;
  const uint32_t ratio = task.w.format.group / kGroup;
  for (uint32_t group = 0; group < groups;) {
    GroupRun run = {nullptr, nullptr, nullptr, groups - group};
    findEntries(task.w, task.w.layout.offsetsOffset, panel, group, ratio, run);
    EntryCursor entry(group, ratio);
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

template <int kBits, int kGroup, int kRows>
void quantizedTile(const QuantizedTask &task, uint32_t panel) {
  Lanes sums[kRows];
  for (int r = 0; r < kRows; ++r)
    sums[r] = zeroLanes();
  addProducts<kBits, kGroup, kRows>(task, panel, sums);
  if (task.w.format.hasOffsets)
    addOffsets<kGroup, kRows>(task, panel, sums);
  for (int r = 0; r < kRows; ++r)
    storeUpTo(task.y + r * task.yStride + panel * kPanelRows, sums[r], realOutputs(task.w, panel));
}

/// The task from a later row on.
inline QuantizedTask fromRow(QuantizedTask task, uint32_t row) {
  task.x.codes += row * task.x.codesStride;
  task.x.scales += row * task.x.groupsStride;
  task.x.sums += row * task.x.groupsStride;
  task.y += row * task.yStride;
  return task;
}

/// Panels outside, rows inside: a panel is read once from memory and then from the cache. One panel
/// after the other even for one row: two at a time halve the rate, since the processor's
/// prefetching follows one stream best.
template <int kBits, int kGroup>
void quantizedPanels(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  for (uint32_t panel = panelBegin; panel < panelEnd; ++panel) {
    uint32_t row = 0;
    if constexpr (kQuantizedRows > 4)
      for (; row + 8 <= rows; row += 8)
        quantizedTile<kBits, kGroup, 8>(fromRow(task, row), panel);
    for (; row + 4 <= rows; row += 4)
      quantizedTile<kBits, kGroup, 4>(fromRow(task, row), panel);
    for (; row + 2 <= rows; row += 2)
      quantizedTile<kBits, kGroup, 2>(fromRow(task, row), panel);
    for (; row < rows; ++row)
      quantizedTile<kBits, kGroup, 1>(fromRow(task, row), panel);
  }
}

template <int kBits>
void quantizedGroups(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  if (task.x.group == 16)
    quantizedPanels<kBits, 16>(task, rows, panelBegin, panelEnd);
  else if (task.x.group == 32)
    quantizedPanels<kBits, 32>(task, rows, panelBegin, panelEnd);
  else
    quantizedPanels<kBits, 64>(task, rows, panelBegin, panelEnd);
}

void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  QuantizedTask task = {w, x, y, yStride};
  if (w.format.kind == WeightKind::kInt8)
    quantizedGroups<8>(task, rows, panelBegin, panelEnd);
  else if (w.format.kind == WeightKind::kInt4)
    quantizedGroups<4>(task, rows, panelBegin, panelEnd);
  else
    quantizedGroups<2>(task, rows, panelBegin, panelEnd);
}

} // namespace
} // namespace moert
