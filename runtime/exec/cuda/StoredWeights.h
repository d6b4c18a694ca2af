// The numbers of a stored matrix (runtime/format/WeightLayout.h) as a device's kernels load them:
// four codes at a time. Pages and their list are in the device's memory.
#pragma once

#include "runtime/base/HalfFloat.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/cuda/Threads.h"
#include "runtime/format/BlockValues.h"
#include "runtime/format/CodeLevels.h"

namespace moert::device {

/// A stored matrix with what its codes select.
struct Matrix {
  WeightView w;
  CodeLevels levels = {}; // Those of non-linear codes.

  Matrix() = default;
  explicit Matrix(const WeightView &view) : w(view) {
    if (!hasLevels(w.format.kind))
      return;
    uint32_t bits = bitsOf(w.format.kind);
    for (uint32_t p = 0; p < w.planeCount; ++p)
      bits += bitsOf(w.planes[p].kind);
    levels = levelsOf(bits + w.missingBits, w.missingBits);
  }
};

template <typename T> MOERT_DEVICE T load(const std::byte *from) {
  return *reinterpret_cast<const T *>(from);
}

/// Codes of inputs [4 * quad, 4 * quad + 4) of one output in one plane, a byte each.
MOERT_DEVICE inline uint32_t planeCodes(const WeightView &w, WeightKind kind, uint64_t offset,
                                        uint32_t output, uint32_t quad) {
  const uint32_t bits = bitsOf(kind), quadsPerUnit = 8 / bits;
  const uint64_t panel =
      uint64_t(output / kPanelRows) * w.layout.paddedCols * kPanelRows * bits / 8;
  const uint64_t unit = uint64_t(quad / quadsPerUnit) * 64;
  const auto word =
      load<uint32_t>(w.bytes.at(offset + panel + unit + output % kPanelRows * sizeof(uint32_t)));
  return word >> bitPlaceOf(kind, quad % quadsPerUnit) & ((1u << bits) - 1) * 0x01010101u;
}

/// The same with all planes that are read. No code has more than 8 bits, so that none reaches the
/// byte beside its own.
MOERT_DEVICE inline uint32_t joinedCodes(const WeightView &w, uint32_t output, uint32_t quad) {
  uint32_t codes = planeCodes(w, w.format.kind, 0, output, quad);
  for (uint32_t p = 0; p < w.planeCount; ++p)
    codes = codes << bitsOf(w.planes[p].kind) |
            planeCodes(w, w.planes[p].kind, w.planes[p].offset, output, quad);
  return codes;
}

/// How codes become steps of the grid: factor * byte + offset, where the byte is the code, the
/// level that it selects, or, of 8 bits, q itself.
struct CodeRule {
  int32_t factor = 1, offset = 0;
  uint32_t flipped = 0; // Bits of the four codes that are inverted first.
  bool hasLevels = false;
};

MOERT_DEVICE inline CodeRule codeRuleOf(const WeightView &w) {
  if (hasLevels(w.format.kind))
    return {1, -kLevelZero, 0, true};
  uint32_t bits = bitsOf(w.format.kind);
  for (uint32_t p = 0; p < w.planeCount; ++p)
    bits += bitsOf(w.planes[p].kind);
  if (w.missingBits > 0)
    return {2 << w.missingBits, (1 << w.missingBits) - 1 - (1 << (bits + w.missingBits)), 0, false};
  return bits == 8 ? CodeRule{1, 0, 0x80808080u, false} : CodeRule{1, -(1 << (bits - 1)), 0, false};
}

/// Four signed bytes that the rule multiplies.
MOERT_DEVICE inline uint32_t steppedCodes(const Matrix &m, const CodeRule &rule, uint32_t output,
                                          uint32_t quad) {
  const uint32_t codes = joinedCodes(m.w, output, quad);
  if (!rule.hasLevels)
    return codes ^ rule.flipped;
  uint32_t levels = 0;
  for (uint32_t i = 0; i < 4; ++i)
    levels |= uint32_t{m.levels.of[codes >> 8 * i & 15u]} << 8 * i;
  return levels;
}

/// sum + the products of four signed bytes.
MOERT_DEVICE inline int32_t addProducts(uint32_t a, uint32_t b, int32_t sum) {
#ifdef __CUDA_ARCH__
  return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
#else
  for (uint32_t i = 0; i < 4; ++i)
    sum += static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i);
  return sum;
#endif
}

/// The place of an output's entry in a table [panel][weight group][16 outputs].
MOERT_DEVICE inline uint64_t groupEntry(const WeightView &w, uint32_t output, uint32_t col) {
  return (uint64_t(output / kPanelRows) * w.layout.groupsPerRow + col / w.format.group) *
             kPanelRows +
         output % kPanelRows;
}

MOERT_DEVICE inline float offsetOf(const WeightView &w, uint32_t output, uint32_t col) {
  return f16ToF32(
      load<uint16_t>(w.bytes.at(w.layout.offsetsOffset + groupEntry(w, output, col) * 2)));
}

/// The value of a step of the grid.
MOERT_DEVICE inline float stepOf(const WeightView &w, uint32_t output, uint32_t col) {
  const uint64_t entry = groupEntry(w, output, col);
  float scale;
  if (w.format.hasByteScales)
    scale = bf16ToF32(load<uint16_t>(w.bytes.at(w.layout.rowScalesOffset + uint64_t(output) * 2))) *
            static_cast<float>(load<int8_t>(w.bytes.at(w.layout.scalesOffset + entry)));
  else
    scale = f16ToF32(load<uint16_t>(w.bytes.at(w.layout.scalesOffset + entry * 2)));
  return w.missingBits == 0 || hasLevels(w.format.kind) ? scale : scale * 0.5f;
}

/// The value of one element of a quantized matrix.
MOERT_DEVICE inline float quantizedValue(const Matrix &m, uint32_t output, uint32_t col) {
  const CodeRule rule = codeRuleOf(m.w);
  const uint32_t codes = steppedCodes(m, rule, output, col / 4);
  const int32_t q = rule.factor * static_cast<int8_t>(codes >> 8 * (col % 4)) + rule.offset;
  const float offset = m.w.format.hasOffsets ? offsetOf(m.w, output, col) : 0.0f;
  return std::fma(static_cast<float>(q), stepOf(m.w, output, col), offset);
}

/// One output's block in panel layout: its bytes are kPanelRows apart and may be in several pages.
struct BlockBytes {
  PagedBytes bytes;
  uint64_t first;

  constexpr uint8_t operator[](uint32_t i) const {
    return static_cast<uint8_t>(*bytes.at(first + uint64_t(i) * kPanelRows));
  }
  constexpr BlockBytes operator+(uint32_t i) const {
    return {bytes, first + uint64_t(i) * kPanelRows};
  }
};

/// Number `index` of an f32, f16 or bf16 matrix.
MOERT_DEVICE inline float storedFloat(const WeightView &w, uint64_t index) {
  if (w.format.kind == WeightKind::kF32)
    return load<float>(w.bytes.at(index * 4));
  const auto bits = load<uint16_t>(w.bytes.at(index * 2));
  return w.format.kind == WeightKind::kF16 ? f16ToF32(bits) : bf16ToF32(bits);
}

/// One element of a float matrix in panel layout.
MOERT_DEVICE inline float panelValue(const WeightView &w, uint32_t output, uint32_t col) {
  const uint64_t panel = output / kPanelRows, lane = output % kPanelRows;
  if (hasBlocks(w.format.kind)) {
    const WeightBlock block = blockOf(w.format.kind);
    const uint64_t index = panel * w.layout.groupsPerRow + col / block.elements;
    const BlockBytes bytes = {w.bytes, index * block.bytes * kPanelRows + lane};
    return blocks::valueOf(w.format.kind, bytes, col % block.elements);
  }
  if (w.format.kind == WeightKind::kMxfp4) {
    const uint64_t unit = (panel * w.shape.cols + col) / 8;
    const auto codes = load<uint8_t>(w.bytes.at(unit * 64 + lane * 4 + col % 8 / 2));
    const auto scale =
        load<uint8_t>(w.bytes.at(w.layout.scalesOffset + groupEntry(w, output, col)));
    return e2m1ToF32(col % 2 == 0 ? codes & 15 : codes >> 4) * e8m0ToF32(scale);
  }
  return storedFloat(w, (panel * w.shape.cols + col) * kPanelRows + lane);
}

/// One element of any matrix, as a row of an embedding has it.
MOERT_DEVICE inline float valueOf(const Matrix &m, uint32_t output, uint32_t col) {
  return isQuantized(m.w.format.kind) ? quantizedValue(m, output, col)
         : m.w.layout.isPanels        ? panelValue(m.w, output, col)
                                      : storedFloat(m.w, uint64_t(output) * m.w.shape.cols + col);
}

} // namespace moert::device
