#include "tests/unit/kernels/DeviceTable.h"

#include "runtime/exec/cuda/KernelList.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace moert::test {

using namespace moert::device;

static void quantizeRows(const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                         const QuantizedRows &out) {
  runOnHost(QuantizeRows{x, xStride, rows, cols, out, hadamardInputFactor(out.hadamardBlock)});
}

/// Two products of one launch, the second without its first row: the first is copied to y, or NaN
/// where they differ.
template <typename Products>
static void multiply(Products kernel, const WeightView &w, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t begin, uint32_t end) {
  const uint32_t outputs = w.shape.rows;
  std::vector<float> all(uint64_t(rows) * outputs), others(all.size());
  kernel.list.count = rows > 1 ? 2 : 1;
  kernel.list.products[0] = {Matrix(w), nullptr, all.data(), outputs, 0, rows};
  kernel.list.products[1] = {Matrix(w), nullptr, others.data(), outputs, 1, rows - 1};
  runOnHost(kernel);
  const size_t compared = rows > 1 ? (all.size() - outputs) * sizeof(float) : 0;
  const bool areSame = std::memcmp(all.data() + outputs, others.data(), compared) == 0;
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t output = begin; output < end; ++output)
      y[row * yStride + output] =
          areSame ? all[uint64_t(row) * outputs + output] : std::numeric_limits<float>::quiet_NaN();
}

static void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                            uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  multiply(QuantizedProducts{{}, x}, w, rows, y, yStride, panelBegin * kPanelRows,
           std::min(w.shape.rows, panelEnd * kPanelRows));
}

static void linearFloat(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows,
                        float *y, uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  multiply(FloatProducts{{}, x, xStride}, w, rows, y, yStride, panelBegin * kPanelRows,
           std::min(w.shape.rows, panelEnd * kPanelRows));
}

static void linearRows(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows,
                       float *y, uint64_t yStride) {
  multiply(RowProducts{{}, x, xStride}, w, rows, y, yStride, 0, w.shape.rows);
}

static void gatherRow(const WeightView &w, uint32_t row, float scale, float *out) {
  const TokenRow token = {nullptr, 0, 0, static_cast<int32_t>(row)};
  runOnHost(EmbedRows{Matrix(w), &token, 1, scale, out, w.shape.cols});
}

static void norm(NormKind kind, const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                 uint32_t segment, const float *weight, const float *bias, float epsilon, float *y,
                 uint64_t yStride) {
  runOnHost(NormRows{kind, x, xStride, rows, cols, segment, weight, bias, epsilon, y, yStride});
}

static void rope(float *x, uint32_t heads, uint32_t headDim, const float *cosines,
                 const float *sines, uint32_t count, bool interleaved) {
  std::vector<float> table(cosines, cosines + count);
  table.insert(table.end(), sines, sines + count);
  runOnHost(RotateRows{x, 0, table.data(), 0, 1, heads, headDim, count, count, interleaved});
}

static void storeKvRow(KvKind kind, const float *x, uint32_t count, std::byte *row) {
  std::vector<std::byte> memory(2 * kvRowBytes(kind, count));
  const TokenRow token = {memory.data(), 1, 0, 0};
  runOnHost(StoreKeysAndValues{{kind, 1, count, count, 0}, &token, x, x, count, count, 1});
  const bool areSame =
      std::memcmp(memory.data(), memory.data() + memory.size() / 2, memory.size() / 2) == 0;
  std::memcpy(row, memory.data(), areSame ? memory.size() / 2 : 0);
}

/// The keys and values of a view as a session has them, without those that are not chosen.
static std::vector<std::byte> sessionOf(const KvView &kv, uint32_t keys) {
  const auto rowOf = [&](const std::byte *const *blocks, uint32_t key, uint32_t head,
                         uint64_t step) {
    const uint32_t position = kv.chosen ? static_cast<uint32_t>(kv.chosen[key]) : key;
    return blocks[position / kKvBlockTokens] +
           (head * kv.headRows + position % kKvBlockTokens) * step;
  };
  std::vector<std::byte> memory;
  const auto add = [&](const std::byte *from, uint64_t bytes) {
    memory.insert(memory.end(), from, from + bytes);
  };
  for (uint32_t head = 0; head < kv.kvHeads; ++head)
    for (uint32_t key = 0; key < keys; ++key)
      add(rowOf(kv.keyBlocks, key, head, kv.keyStep()), kv.keyStep());
  for (uint32_t head = 0; head < kv.kvHeads; ++head)
    for (uint32_t key = 0; key < keys; ++key)
      add(rowOf(kv.valueRows(), key, head, kv.valueStep()) +
              kvElementOffset(kv.kind, kv.firstValue()),
          kvRowBytes(kv.kind, kv.valueDim));
  return memory;
}

/// With more blocks than are used, or one that takes all heads. Devices have no biases of scores.
static void attend(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
                   uint32_t headEnd, uint32_t begin, uint32_t end, float scale, const float *sinks,
                   float *out, float *hostScratch) {
  if (kv.biases)
    return referenceKernels().attend(query, kv, heads, headBegin, headEnd, begin, end, scale, sinks,
                                     out, hostScratch);
  std::vector<std::byte> memory = sessionOf(kv, end);
  const uint64_t scratchFloats = AttendRows::scratchFloats(end - begin, kv.valueDim);
  const uint32_t blocks = end % 2 == 0 ? 1 : heads + 1;
  std::vector<float> scratch(scratchFloats * blocks), results(uint64_t(heads) * kv.valueDim);
  const TokenRow token = {memory.data(), end, end - 1, 0};
  runOnHost(AttendRows{{kv.kind, kv.kvHeads, kv.keyDim, kv.valueDim, 0},
                       &token,
                       query,
                       0,
                       1,
                       heads,
                       end - begin,
                       false,
                       scale,
                       sinks,
                       results.data(),
                       0,
                       scratch.data(),
                       scratchFloats,
                       blocks});
  std::copy(results.begin() + headBegin * kv.valueDim, results.begin() + headEnd * kv.valueDim,
            out + headBegin * kv.valueDim);
}

static void activateAs(const GluActivation &activation, const float *gate, const float *up,
                       uint32_t rows, uint32_t cols, uint64_t stride, float *y) {
  runOnHost(ActivateRows{activation, gate, up, stride, rows, cols, y});
}

static void siluMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                         uint64_t stride, float *y) {
  activateAs({Activation::kSilu}, gate, up, rows, cols, stride, y);
}

static void geluTanhMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                             uint64_t stride, float *y) {
  activateAs({Activation::kGeluTanh}, gate, up, rows, cols, stride, y);
}

static void clampedSwiglu(float alpha, float limit, float shift, const float *gate, const float *up,
                          uint32_t rows, uint32_t cols, uint64_t stride, float *y) {
  const Activation kind = shift == 0 ? Activation::kClampedSilu : Activation::kClampedSwiglu;
  activateAs({kind, alpha, limit}, gate, up, rows, cols, stride, y);
}

static void apply(RowFunction function, const float *x, const float *factor, const float *bias,
                  uint32_t count, float *y) {
  if (function == RowFunction::kSquaredRelu && !factor && !bias)
    activateAs({Activation::kSquaredRelu}, x, x, 1, count, 0, y);
  else
    referenceKernels().apply(function, x, factor, bias, count, y);
}

static void scale(const float *x, float factor, uint64_t count, float *y) {
  runOnHost(AddRows{nullptr, x, 0, 0, 0, factor, 1, static_cast<uint32_t>(count), y});
}

static void addScaled(const float *a, const float *b, float scale, uint64_t count, float *y) {
  runOnHost(AddRows{a, b, 0, 0, 0, scale, 1, static_cast<uint32_t>(count), y});
}

static void gateRows(const float *x, const float *gate, uint64_t gateStride, uint32_t rows,
                     uint32_t cols, uint64_t stride, float *y) {
  runOnHost(GateHeads{x, gate, stride, gateStride, stride, rows, cols, 1, y});
}

static void combineRanks(const float *rankRows, uint64_t stride, const float *weights,
                         uint32_t ranks, uint32_t cols, float *out) {
  runOnHost(CombineRanks{rankRows, weights, 0, stride, 0, 0, 1, cols, ranks, out});
}

const KernelTable &deviceKernels() {
  static const KernelTable kTable = [] {
    KernelTable table = referenceKernels();
    table.name = "device";
    table.quantizeRows = quantizeRows;
    table.linearQuantized = linearQuantized;
    table.linearFloat = linearFloat;
    table.linearRows = linearRows;
    table.gatherRow = gatherRow;
    table.norm = norm;
    table.rope = rope;
    table.storeKvRow = storeKvRow;
    table.attend = attend;
    table.siluMultiply = siluMultiply;
    table.geluTanhMultiply = geluTanhMultiply;
    table.clampedSwiglu = clampedSwiglu;
    table.apply = apply;
    table.scale = scale;
    table.addScaled = addScaled;
    table.gateRows = gateRows;
    table.combineRanks = combineRanks;
    return table;
  }();
  return kTable;
}

} // namespace moert::test
