// Products with float matrices in lanes: the 16 outputs of a panel in panel layout, 16 partial sums
// in row layout. Included after Elementwise.h.
#pragma once

#include "runtime/exec/Kernels.h"
#include "runtime/exec/cpu/LinearBlocks.h"

#include <utility>

namespace moert {
namespace {

/// The address of byte `index` of the pages, and the bytes from there to the end of its page.
struct PageRun {
  const std::byte *data;
  uint64_t bytes;
};
inline PageRun runFrom(const PagedBytes &bytes, uint64_t index) {
  uint64_t pageBytes = uint64_t(1) << bytes.pageShift;
  uint64_t position = bytes.offset + index;
  uint64_t inPage = position & (pageBytes - 1);
  return {bytes.pages[position >> bytes.pageShift] + inPage, pageBytes - inPage};
}

/// 16 elements of a kind, and the size of one element in bytes.
template <WeightKind kKind> struct Element;
template <> struct Element<WeightKind::kF32> {
  static constexpr uint32_t kBytes = 4;
  static Lanes load(const std::byte *from) { return loadF32(from); }
};
template <> struct Element<WeightKind::kF16> {
  static constexpr uint32_t kBytes = 2;
  static Lanes load(const std::byte *from) { return loadF16(from); }
};
template <> struct Element<WeightKind::kBF16> {
  static constexpr uint32_t kBytes = 2;
  static Lanes load(const std::byte *from) { return loadBF16(from); }
};

struct FloatTask {
  const WeightView &w;
  const float *x; // First row of the tile.
  uint64_t xStride;
  float *y; // First row of the tile, output 0.
  uint64_t yStride;
};

/// The number of a panel's outputs that the matrix has.
inline uint32_t realOutputs(const WeightView &w, uint32_t panel) {
  uint32_t left = w.shape.rows - panel * kPanelRows;
  return left < kPanelRows ? left : kPanelRows;
}

/// The sums of kRows rows times kPanels panels. Each sum is a chain of fmas, so several sums must
/// be in progress at once; with few rows, more panels provide them.
template <int kRows, int kPanels> struct SumTile {
  Lanes totals[kRows][kPanels], block[kRows][kPanels];

  SumTile() {
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPanels; ++p)
        totals[r][p] = block[r][p] = zeroLanes();
  }
  /// Adds a panel's weights of one input, which is x[0] in the first row.
  void addProducts(int p, Lanes weights, const float *x, uint64_t xStride) {
    for (int r = 0; r < kRows; ++r)
      block[r][p] = fma(weights, splat(x[r * xStride]), block[r][p]);
  }
  void endBlock() {
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPanels; ++p) {
        totals[r][p] = add(totals[r][p], block[r][p]);
        block[r][p] = zeroLanes();
      }
  }
  void store(const FloatTask &task, uint32_t panel) const {
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPanels; ++p)
        storeUpTo(task.y + r * task.yStride + (panel + p) * kPanelRows, totals[r][p],
                  realOutputs(task.w, panel + p));
  }
};

/// The outputs of kPanels panels, from `panel` on, for kRows rows.
template <WeightKind kKind, int kRows, int kPanels>
void floatTile(const FloatTask &task, uint32_t panel) {
  constexpr uint64_t kUnit = kPanelRows * Element<kKind>::kBytes;
  const uint32_t cols = task.w.shape.cols;
  SumTile<kRows, kPanels> sums;
  for (uint32_t i = 0; i < cols;) {
    // Up to the end of the sum block or of the first page that ends.
    uint32_t inBlock = kSumBlock - i % kSumBlock;
    uint32_t runEnd = inBlock < cols - i ? i + inBlock : cols;
    const std::byte *data[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      PageRun run = runFrom(task.w.bytes, (uint64_t(panel + p) * cols + i) * kUnit);
      data[p] = run.data;
      if (run.bytes / kUnit < runEnd - i)
        runEnd = i + static_cast<uint32_t>(run.bytes / kUnit);
    }
    uint32_t count = runEnd - i;
    const float *x = task.x + i;
    for (uint32_t k = 0; k < count; ++k)
      for (int p = 0; p < kPanels; ++p)
        sums.addProducts(p, Element<kKind>::load(data[p] + k * kUnit), x + k, task.xStride);
    i = runEnd;
    if (i % kSumBlock != 0 && i != cols)
      continue;
    sums.endBlock();
  }
  sums.store(task, panel);
}

constexpr uint32_t kMxfp4UnitInputs = 8, kMxfp4UnitBytes = 64;
/// Prefetch distance while one row is multiplied, in groups.
constexpr uint32_t kMxfp4AheadGroups = 4;

/// A run of groups of a few panels, whose codes and scales each lie in one page.
template <int kPanels> struct Mxfp4Run {
  const std::byte *codes[kPanels], *scales[kPanels];
  const std::byte *ahead[kPanels]; // Codes to prefetch.
  uint32_t groups;
};

/// At most `most` groups, from `group` on.
template <int kPanels>
inline Mxfp4Run<kPanels> mxfp4Run(const WeightView &w, uint32_t panel, uint32_t group,
                                  uint32_t most) {
  const uint64_t allGroups = uint64_t(w.layout.panels) * w.layout.groupsPerRow;
  Mxfp4Run<kPanels> run = {{}, {}, {}, most};
  auto limit = [&](uint64_t groups) {
    if (groups < run.groups)
      run.groups = static_cast<uint32_t>(groups);
  };
  for (int p = 0; p < kPanels; ++p) {
    const uint64_t index = uint64_t(panel + p) * w.layout.groupsPerRow + group;
    PageRun codes = runFrom(w.bytes, index * kMxfp4GroupBytes), ahead = codes;
    if (index + kMxfp4AheadGroups < allGroups)
      ahead = runFrom(w.bytes, (index + kMxfp4AheadGroups) * kMxfp4GroupBytes);
    PageRun scales = runFrom(w.bytes, w.layout.scalesOffset + index * kPanelRows);
    run.codes[p] = codes.data;
    run.scales[p] = scales.data;
    run.ahead[p] = ahead.data;
    limit(codes.bytes / kMxfp4GroupBytes);
    limit(ahead.bytes / kMxfp4GroupBytes);
    limit(scales.bytes / kPanelRows);
  }
  return run;
}

/// Calls apply with each input of a unit, ascending.
template <typename Apply> inline void eachOfUnit(Apply apply) {
  [&]<int... kInputs>(std::integer_sequence<int, kInputs...>) {
    (apply.template operator()<kInputs>(), ...);
  }
  (std::make_integer_sequence<int, kMxfp4UnitInputs>());
}

/// Adds the products of group `g` of the run; x is the first of its inputs.
template <int kRows, int kPanels>
inline void addMxfp4Group(const Mxfp4Run<kPanels> &run, uint32_t g, const float *x,
                          uint64_t xStride, SumTile<kRows, kPanels> &sums) {
  Powers scales[kPanels];
  for (int p = 0; p < kPanels; ++p)
    scales[p] = loadE8M0(run.scales[p] + g * kPanelRows);
  for (uint32_t unit = 0; unit < kMxfp4Group / kMxfp4UnitInputs; ++unit) {
    const uint32_t at = g * kMxfp4GroupBytes + unit * kMxfp4UnitBytes;
    E2M1Unit codes[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      codes[p] = loadE2M1(run.codes[p] + at);
      if constexpr (kRows == 1)
        __builtin_prefetch(run.ahead[p] + at);
    }
    const float *inputs = x + unit * kMxfp4UnitInputs;
    eachOfUnit([&]<int kInput>() {
      for (int p = 0; p < kPanels; ++p)
        sums.addProducts(p, valuesOf<kInput>(codes[p], scales[p]), inputs + kInput, xStride);
    });
  }
}

/// floatTile() of an MXFP4 matrix, whose values are exact in f32. A sum block has whole groups.
template <int kRows, int kPanels> void mxfp4Tile(const FloatTask &task, uint32_t panel) {
  constexpr uint32_t kBlockGroups = kSumBlock / kMxfp4Group;
  const uint32_t groups = task.w.layout.groupsPerRow;
  SumTile<kRows, kPanels> sums;
  for (uint32_t group = 0; group < groups;) {
    const uint32_t inBlock = kBlockGroups - group % kBlockGroups;
    const auto run = mxfp4Run<kPanels>(task.w, panel, group,
                                       inBlock < groups - group ? inBlock : groups - group);
    for (uint32_t g = 0; g < run.groups; ++g)
      addMxfp4Group(run, g, task.x + (group + g) * kMxfp4Group, task.xStride, sums);
    group += run.groups;
    if (group % kBlockGroups != 0 && group != groups)
      continue;
    sums.endBlock();
  }
  sums.store(task, panel);
}

/// The `count` bytes at byte `at`: where they are, or, if they straddle pages, a copy.
inline const std::byte *joined(const PagedBytes &bytes, uint64_t at, uint32_t count,
                               std::byte *copy) {
  PageRun run = runFrom(bytes, at);
  if (run.bytes >= count)
    return run.data;
  for (uint32_t done = 0; done < count;) {
    run = runFrom(bytes, at + done);
    const uint32_t now = run.bytes < count - done ? static_cast<uint32_t>(run.bytes) : count - done;
    __builtin_memcpy(copy + done, run.data, now);
    done += now;
  }
  return copy;
}

/// floatTile() of a matrix of blocks: the values of a part are decoded first and then multiplied. A
/// sum block has whole parts.
template <int kRows, int kPanels> void blockTile(const FloatTask &task, uint32_t panel) {
  const WeightBlock stored = blockOf(task.w.format.kind);
  const DecodePart decode = decoderOf(task.w.format.kind);
  const uint32_t bytes = stored.bytes * kPanelRows, parts = stored.elements / kPartInputs;
  SumTile<kRows, kPanels> sums;
  alignas(64) std::byte copies[kPanels][kMaxBlockBytes];
  alignas(64) float values[kPanels][kPartInputs * kPanelRows];
  const std::byte *from[kPanels] = {};
  for (uint32_t i = 0; i < task.w.shape.cols;) {
    const uint32_t part = i / kPartInputs % parts;
    for (int p = 0; p < kPanels; ++p) {
      const uint64_t index = uint64_t(panel + p) * task.w.layout.groupsPerRow + i / stored.elements;
      if (part == 0)
        from[p] = joined(task.w.bytes, index * bytes, bytes, copies[p]);
      decode(from[p], part, values[p]);
    }
    for (uint32_t k = 0; k < kPartInputs; ++k)
      for (int p = 0; p < kPanels; ++p)
        sums.addProducts(p, load(values[p] + k * kPanelRows), task.x + i + k, task.xStride);
    i += kPartInputs;
    if (i % kSumBlock != 0 && i != task.w.shape.cols)
      continue;
    sums.endBlock();
  }
  sums.store(task, panel);
}

/// Stands for all kinds of blocks, whose decoders are found when a tile begins.
constexpr WeightKind kBlocks = WeightKind::kQ8x0;

template <WeightKind kKind, int kRows, int kPanels>
inline void panelTile(const FloatTask &task, uint32_t panel) {
  if constexpr (kKind == WeightKind::kMxfp4)
    mxfp4Tile<kRows, kPanels>(task, panel);
  else if constexpr (kKind == kBlocks)
    blockTile<kRows, kPanels>(task, panel);
  else
    floatTile<kKind, kRows, kPanels>(task, panel);
}

/// All panels for kRows rows.
template <WeightKind kKind, int kRows, int kPanels>
inline void floatPanels(const FloatTask &task, uint32_t panelBegin, uint32_t panelEnd) {
  uint32_t panel = panelBegin;
  for (; panel + kPanels <= panelEnd; panel += kPanels)
    panelTile<kKind, kRows, kPanels>(task, panel);
  for (; panel < panelEnd; ++panel)
    panelTile<kKind, kRows, 1>(task, panel);
}

/// Panels in the outer loop, rows in the inner: a panel is read once from memory and then from the
/// cache. A single row reads one panel after the other, since the hardware prefetcher follows one
/// stream best: 0.91 of a plain read's rate with bf16, four panels at a time 0.82 (KernelBench, Zen
/// 4). MXFP4 has a quarter of the bytes for as many steps of a sum, and needs more sums at once:
/// 0.27 with one panel, 0.55 with four (AVX-512, Zen 5).
template <WeightKind kKind>
void floatRows(FloatTask task, uint32_t rows, uint32_t panelBegin, uint32_t panelEnd) {
  constexpr uint32_t kPanelsAtOnce = 4;
  constexpr int kPanelsAlone = isKept(kKind) ? kKeptPanels : 1;
  // Tiles of two rows and panels of blocks would take 8 KB for each set of kernels.
  constexpr bool isOfBlocks = kKind == kBlocks;
  constexpr int kPanelsOfFour = isOfBlocks ? 1 : 2, kPanelsOfOne = isOfBlocks ? kPanelsAlone : 4;
  const float *x = task.x;
  float *y = task.y;
  for (uint32_t panel = panelBegin; panel < panelEnd; panel += kPanelsAtOnce) {
    uint32_t end = panelEnd - panel < kPanelsAtOnce ? panelEnd : panel + kPanelsAtOnce;
    auto tile = [&](uint32_t row, auto compute) {
      task.x = x + row * task.xStride;
      task.y = y + row * task.yStride;
      compute(task, panel, end);
    };
    uint32_t row = 0;
    for (; row + kFloatRows <= rows; row += kFloatRows)
      tile(row, floatPanels<kKind, kFloatRows, 1>);
    if constexpr (kFloatRows > 4)
      for (; row + 4 <= rows; row += 4)
        tile(row, floatPanels<kKind, 4, kPanelsOfFour>);
    if constexpr (!isOfBlocks)
      for (; row + 2 <= rows; row += 2)
        tile(row, floatPanels<kKind, 2, kFloatRows / 2>);
    for (; row < rows; ++row)
      if (rows == 1)
        tile(row, floatPanels<kKind, 1, kPanelsAlone>);
      else
        tile(row, floatPanels<kKind, 1, kPanelsOfOne>);
  }
}

void linearFloat(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                 uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  FloatTask task = {w, x, xStride, y, yStride};
  if (w.format.kind == WeightKind::kF32)
    floatRows<WeightKind::kF32>(task, rows, panelBegin, panelEnd);
  else if (w.format.kind == WeightKind::kF16)
    floatRows<WeightKind::kF16>(task, rows, panelBegin, panelEnd);
  else if (w.format.kind == WeightKind::kMxfp4)
    floatRows<WeightKind::kMxfp4>(task, rows, panelBegin, panelEnd);
  else if (hasBlocks(w.format.kind))
    floatRows<kBlocks>(task, rows, panelBegin, panelEnd);
  else
    floatRows<WeightKind::kBF16>(task, rows, panelBegin, panelEnd);
}

/// `count` elements, 16 at most, of a row that starts at byte `index`; they may straddle pages, and
/// no byte after them is read.
template <WeightKind kKind>
inline Lanes loadRowElements(const PagedBytes &bytes, uint64_t index, uint32_t count) {
  constexpr uint32_t kBytes = Element<kKind>::kBytes;
  PageRun run = runFrom(bytes, index);
  if (count == kLanes && run.bytes >= kLanes * kBytes)
    return Element<kKind>::load(run.data);
  std::byte buffer[kLanes * kBytes] = {};
  for (uint32_t i = 0; i < count; ++i)
    __builtin_memcpy(buffer + i * kBytes, runFrom(bytes, index + i * kBytes).data, kBytes);
  return Element<kKind>::load(buffer);
}

template <WeightKind kKind> float rowOutput(const WeightView &w, const float *x, uint32_t output) {
  constexpr uint32_t kBytes = Element<kKind>::kBytes;
  uint64_t begin = uint64_t(output) * w.shape.cols;
  Lanes sums = zeroLanes();
  forLanes(w.shape.cols, [&](uint64_t i, uint32_t count) {
    Lanes weights = loadRowElements<kKind>(w.bytes, (begin + i) * kBytes, count);
    if (count == kLanes)
      sums = fma(weights, load(x + i), sums);
    else
      sums = fmaFirst(weights, loadFirst(x + i, count), sums, count);
  });
  return treeSum(sums);
}

void linearRows(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                uint64_t yStride) {
  for (uint32_t output = 0; output < w.shape.rows; ++output)
    for (uint32_t row = 0; row < rows; ++row) {
      const float *from = x + row * xStride;
      float *to = y + row * yStride + output;
      if (w.format.kind == WeightKind::kF32)
        *to = rowOutput<WeightKind::kF32>(w, from, output);
      else if (w.format.kind == WeightKind::kF16)
        *to = rowOutput<WeightKind::kF16>(w, from, output);
      else
        *to = rowOutput<WeightKind::kBF16>(w, from, output);
    }
}

} // namespace
} // namespace moert
