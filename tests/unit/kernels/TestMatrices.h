// Shared by the tests of the kernels: seeded random numbers, rows between guard bytes, and matrices
// packed into the layout of WeightLayout.h and scattered over pages. The packer follows the
// layout's description, not the reference's decoder, so that the two check each other.
#pragma once

#include "runtime/base/CheckedMath.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/BlockValues.h"
#include "tests/unit/kernels/DeviceTable.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace moert::test {

/// xorshift64*: the same numbers on every machine, which std::mt19937's distributions do not
/// guarantee.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15 + 1) {}

  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) % bound); }
  float between(float low, float high) {
    return low + (high - low) * (static_cast<float>(next() >> 40) * 0x1p-24f);
  }

private:
  uint64_t state;
};

/// Equal bytes, or both NaN.
inline bool isSame(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// rows x cols elements at a stride, 64-byte aligned; the elements between and after the rows keep
/// a pattern.
template <typename T> class GuardedRows {
public:
  GuardedRows(uint32_t rowCount, uint32_t colCount)
      : rows(rowCount), cols(colCount), rowStride(roundUp(colCount, 16) + 16),
        size((rowCount + 2) * rowStride * sizeof(T)),
        bytes(static_cast<std::byte *>(::operator new(size, std::align_val_t(64)))) {
    std::memset(bytes.get(), kPattern, size);
  }

  T *data() { return reinterpret_cast<T *>(bytes.get()) + rowStride; }
  const T *data() const { return reinterpret_cast<const T *>(bytes.get()) + rowStride; }
  uint64_t stride() const { return rowStride; }
  T &at(uint32_t row, uint32_t col) { return data()[row * rowStride + col]; }
  const T &at(uint32_t row, uint32_t col) const { return data()[row * rowStride + col]; }

  /// Whether nothing was written outside the columns [from, to) of the rows.
  bool isUntouchedOutside(uint32_t from, uint32_t to) const {
    const std::byte *begin = reinterpret_cast<const std::byte *>(data());
    for (uint64_t i = 0; i < size; ++i) {
      auto element = (bytes.get() + i - begin) / static_cast<std::ptrdiff_t>(sizeof(T));
      bool isInside = bytes.get() + i >= begin &&
                      static_cast<uint64_t>(element) < rows * rowStride &&
                      element % rowStride >= from && element % rowStride < to;
      if (!isInside && bytes[i] != std::byte(kPattern))
        return false;
    }
    return true;
  }
  bool isGuardIntact() const { return isUntouchedOutside(0, cols); }

  bool isSameAs(const GuardedRows &other) const {
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t col = 0; col < cols; ++col)
        if constexpr (std::is_same_v<T, float>) {
          if (!isSame(at(row, col), other.at(row, col)))
            return false;
        } else if (at(row, col) != other.at(row, col)) {
          return false;
        }
    return true;
  }

  void fill(Random &random, float low, float high) {
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t col = 0; col < cols; ++col)
        at(row, col) = random.between(low, high);
  }

  const uint32_t rows, cols;

private:
  static constexpr int kPattern = 0xa5;
  struct Free {
    void operator()(std::byte *p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  uint64_t rowStride, size;
  std::unique_ptr<std::byte[], Free> bytes;
};
using FloatRows = GuardedRows<float>;

/// f32 to binary16 for numbers that are exactly representable there; any other number is an error
/// of the test.
inline uint16_t exactHalf(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  float magnitude = std::fabs(x);
  if (magnitude < 0x1p-14f) { // Zero and subnormals.
    auto mantissa = static_cast<uint16_t>(magnitude * 0x1p24f);
    REQUIRE(static_cast<float>(mantissa) * 0x1p-24f == magnitude);
    return sign | mantissa;
  }
  REQUIRE((bits & 0x1fff) == 0);
  REQUIRE(magnitude <= 65504.0f);
  return sign | static_cast<uint16_t>((bits >> 13 & 0x3ffff) - (112 << 10));
}

/// A random number that is exact in binary16, and in bf16 too if it has few mantissa bits.
inline float shortFloat(Random &random, uint32_t mantissaBits) {
  auto mantissa = static_cast<float>((1u << mantissaBits) + random.below(1u << mantissaBits));
  float sign = random.below(2) ? -1.0f : 1.0f;
  return sign *
         std::ldexp(mantissa, -static_cast<int>(mantissaBits) - static_cast<int>(random.below(12)));
}

/// The numbers of a matrix before it is stored.
struct LogicalMatrix {
  MatrixShape shape;
  WeightFormat format;
  MatrixLayout layout;
  std::vector<float> values;          // Float kinds: [rows][cols].
  std::vector<int> quants;            // Quantized kinds: q [rows][paddedCols].
  std::vector<float> scales, offsets; // [rows][groupsPerRow].
  // MXFP4: E2M1 [rows][cols], E8M0 [rows][groupsPerRow]. Blocks: their bytes, row by row, as codes.
  std::vector<uint8_t> codes, powers;
  std::vector<float> rowScales = {}; // [rows], with byte scales; scales are then multiples of them.

  float scale(uint32_t row, uint32_t col) const {
    return scales[row * layout.groupsPerRow + col / format.group];
  }
  float offset(uint32_t row, uint32_t col) const {
    return format.hasOffsets ? offsets[row * layout.groupsPerRow + col / format.group] : 0.0f;
  }
};

/// An MXFP4 value, by the definitions of the formats: E2M1 is (-1)^s * 2^(e - 1) * (1 + m / 2), or
/// m / 2 if e is 0; E8M0 is 2^(code - 127).
inline float mxfp4Value(uint32_t code, uint32_t power) {
  const int exponent = static_cast<int>(code >> 1 & 3);
  const float half = static_cast<float>(code & 1) / 2;
  const float magnitude = exponent == 0 ? half : std::ldexp(1 + half, exponent - 1);
  return std::ldexp(code & 8 ? -magnitude : magnitude, static_cast<int>(power) - 127);
}

/// A matrix of these codes and powers.
inline LogicalMatrix mxfp4Matrix(MatrixShape shape, std::vector<uint8_t> codes,
                                 std::vector<uint8_t> powers) {
  const WeightFormat format = floatFormat(WeightKind::kMxfp4);
  auto layout = layoutOf(shape, format);
  REQUIRE(layout.isOk());
  LogicalMatrix m = {shape, format, *layout, {}, {}, {}, {}, std::move(codes), std::move(powers)};
  for (uint64_t i = 0; i < m.codes.size(); ++i)
    m.values.push_back(mxfp4Value(m.codes[i], m.powers[i / kMxfp4Group]));
  return m;
}

/// Every code, with powers around 1, and some of the smallest, whose values are subnormal.
inline LogicalMatrix randomMxfp4(Random &random, MatrixShape shape) {
  std::vector<uint8_t> codes(uint64_t(shape.rows) * shape.cols), powers(codes.size() / kMxfp4Group);
  for (uint8_t &code : codes)
    code = static_cast<uint8_t>(random.below(16));
  for (uint8_t &power : powers)
    power = static_cast<uint8_t>(random.below(8) == 0 ? random.below(3) : 120 + random.below(14));
  return mxfp4Matrix(shape, std::move(codes), std::move(powers));
}

/// Blocks of any bytes, with numbers as scales, some of them subnormal, negative or -0. The values
/// are those of BlockValues.h.
inline LogicalMatrix randomBlocks(Random &random, MatrixShape shape, WeightKind kind) {
  const WeightFormat format = floatFormat(kind);
  auto layout = layoutOf(shape, format);
  REQUIRE(layout.isOk());
  LogicalMatrix m = {shape, format, *layout, {}, {}, {}, {}, {}, {}};
  const WeightBlock block = blockOf(kind);
  for (uint64_t i = 0; i < uint64_t(shape.rows) * layout->groupsPerRow; ++i) {
    const size_t first = m.codes.size();
    for (uint32_t byte = 0; byte < block.bytes; ++byte)
      m.codes.push_back(static_cast<uint8_t>(random.below(256)));
    for (uint32_t half : block.halves)
      m.codes[first + half + 1] = static_cast<uint8_t>(random.below(2) << 7 | random.below(0x48));
    for (uint32_t element = 0; element < block.elements; ++element)
      m.values.push_back(blocks::valueOf(kind, &m.codes[first], element));
  }
  return m;
}

inline LogicalMatrix randomMatrix(Random &random, MatrixShape shape, WeightFormat format) {
  auto layout = layoutOf(shape, format);
  REQUIRE(layout.isOk());
  LogicalMatrix m = {shape, format, *layout, {}, {}, {}, {}, {}, {}};
  if (!isQuantized(format.kind)) {
    uint32_t mantissaBits = format.kind == WeightKind::kF32   ? 23
                            : format.kind == WeightKind::kF16 ? 10
                                                              : 7;
    for (uint64_t i = 0; i < uint64_t(shape.rows) * shape.cols; ++i)
      m.values.push_back(shortFloat(random, mantissaBits));
    return m;
  }
  int half = 1 << (bitsOf(format.kind) - 1);
  for (uint32_t row = 0; row < shape.rows; ++row)
    for (uint32_t col = 0; col < layout->paddedCols; ++col) {
      int q = static_cast<int>(random.below(static_cast<uint32_t>(2 * half))) - half;
      m.quants.push_back(col < shape.cols ? q : 0);
    }
  for (uint32_t i = 0; i < shape.rows && format.hasByteScales; ++i)
    m.rowScales.push_back(shortFloat(random, 7));
  for (uint32_t i = 0; i < shape.rows * layout->groupsPerRow; ++i) {
    if (format.hasByteScales) {
      m.scales.push_back((static_cast<float>(random.below(256)) - 128) *
                         m.rowScales[i / layout->groupsPerRow]);
      continue;
    }
    bool isSubnormal = random.below(8) == 0;
    m.scales.push_back(isSubnormal ? static_cast<float>(random.below(1024)) * 0x1p-24f
                                   : std::ldexp(shortFloat(random, 10), -2));
    if (format.hasOffsets)
      m.offsets.push_back(shortFloat(random, 10));
  }
  return m;
}

namespace detail {

inline void putHalf(std::vector<std::byte> &bytes, uint16_t half) {
  bytes.push_back(static_cast<std::byte>(half & 0xff));
  bytes.push_back(static_cast<std::byte>(half >> 8));
}

inline void putFloat(std::vector<std::byte> &bytes, WeightKind kind, float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (kind == WeightKind::kF16)
    return putHalf(bytes, exactHalf(x));
  if (kind == WeightKind::kBF16)
    return putHalf(bytes, static_cast<uint16_t>(bits >> 16));
  putHalf(bytes, static_cast<uint16_t>(bits & 0xffff));
  putHalf(bytes, static_cast<uint16_t>(bits >> 16));
}

inline void putFloats(std::vector<std::byte> &bytes, const LogicalMatrix &m) {
  auto value = [&](uint64_t row, uint32_t col) {
    return row < m.shape.rows ? m.values[row * m.shape.cols + col] : 0.0f;
  };
  if (!m.layout.isPanels) {
    for (float x : m.values)
      putFloat(bytes, m.format.kind, x);
    return;
  }
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t col = 0; col < m.shape.cols; ++col)
      for (uint32_t o = 0; o < kPanelRows; ++o)
        putFloat(bytes, m.format.kind, value(panel * kPanelRows + o, col));
}

inline void putCodes(std::vector<std::byte> &bytes, const LogicalMatrix &m) {
  uint32_t bits = bitsOf(m.format.kind), parts = 8 / bits;
  auto code = [&](uint64_t row, uint32_t col) {
    int q = row < m.shape.rows ? m.quants[row * m.layout.paddedCols + col] : 0;
    return static_cast<uint32_t>(q + (1 << (bits - 1)));
  };
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t unit = 0; unit < m.layout.paddedCols; unit += 4 * parts)
      for (uint32_t o = 0; o < kPanelRows; ++o)
        for (uint32_t i = 0; i < 4; ++i) {
          uint32_t byte = 0;
          for (uint32_t part = 0; part < parts; ++part) {
            // docs/format.md: bits 0 to 7 of int1 hold inputs i, i + 4, i + 16, ...
            constexpr uint32_t kInt1Inputs[] = {0, 4, 16, 20, 8, 12, 24, 28};
            uint32_t input = bits == 1 ? kInt1Inputs[part] : 4 * part;
            byte |= code(panel * kPanelRows + o, unit + input + i) << (part * bits);
          }
          bytes.push_back(static_cast<std::byte>(byte));
        }
}

inline void putTable(std::vector<std::byte> &bytes, const LogicalMatrix &m,
                     const std::vector<float> &table) {
  bytes.resize(roundUp(bytes.size(), kRegionAlignment));
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t group = 0; group < m.layout.groupsPerRow; ++group)
      for (uint64_t o = 0; o < kPanelRows; ++o) {
        uint64_t row = panel * kPanelRows + o;
        putHalf(bytes, row < m.shape.rows ? exactHalf(table[row * m.layout.groupsPerRow + group])
                                          : uint16_t(0));
      }
}

inline void putByteScales(std::vector<std::byte> &bytes, const LogicalMatrix &m) {
  bytes.resize(roundUp(bytes.size(), kRegionAlignment));
  auto scaleOf = [&](uint64_t row) { return row < m.shape.rows ? m.rowScales[row] : 0.0f; };
  for (uint64_t row = 0; row < m.layout.panels * kPanelRows; ++row)
    putHalf(bytes, static_cast<uint16_t>(std::bit_cast<uint32_t>(scaleOf(row)) >> 16));
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t group = 0; group < m.layout.groupsPerRow; ++group)
      for (uint64_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row)
        bytes.push_back(row < m.shape.rows
                            ? static_cast<std::byte>(static_cast<int>(
                                  m.scales[row * m.layout.groupsPerRow + group] / scaleOf(row)))
                            : std::byte(0));
}

inline void putMxfp4(std::vector<std::byte> &bytes, const LogicalMatrix &m) {
  const uint32_t cols = m.shape.cols;
  auto code = [&](uint64_t row, uint32_t col) {
    return row < m.shape.rows ? uint32_t(m.codes[row * cols + col]) : 0;
  };
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t unit = 0; unit < cols; unit += 8)
      for (uint64_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row)
        for (uint32_t col = unit; col < unit + 8; col += 2)
          bytes.push_back(static_cast<std::byte>(code(row, col) | code(row, col + 1) << 4));
  bytes.resize(roundUp(bytes.size(), kRegionAlignment));
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint32_t group = 0; group < cols / kMxfp4Group; ++group)
      for (uint64_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row)
        bytes.push_back(row < m.shape.rows
                            ? static_cast<std::byte>(m.powers[row * cols / kMxfp4Group + group])
                            : std::byte(0));
}

inline void putBlocks(std::vector<std::byte> &bytes, const LogicalMatrix &m) {
  const uint64_t rowBytes = uint64_t(m.layout.groupsPerRow) * blockOf(m.format.kind).bytes;
  for (uint64_t panel = 0; panel < m.layout.panels; ++panel)
    for (uint64_t i = 0; i < rowBytes; ++i)
      for (uint64_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row)
        bytes.push_back(row < m.shape.rows ? static_cast<std::byte>(m.codes[row * rowBytes + i])
                                           : std::byte(0));
}

} // namespace detail

inline std::vector<std::byte> packed(const LogicalMatrix &m) {
  std::vector<std::byte> bytes;
  if (m.format.kind == WeightKind::kMxfp4) {
    detail::putMxfp4(bytes, m);
  } else if (hasBlocks(m.format.kind)) {
    detail::putBlocks(bytes, m);
  } else if (!isQuantized(m.format.kind)) {
    detail::putFloats(bytes, m);
  } else {
    detail::putCodes(bytes, m);
    if (m.format.hasByteScales)
      detail::putByteScales(bytes, m);
    else if (!m.format.refines)
      detail::putTable(bytes, m, m.scales);
    if (m.format.hasOffsets)
      detail::putTable(bytes, m, m.offsets);
  }
  REQUIRE(bytes.size() == m.layout.bytes);
  return bytes;
}

/// The bytes of a matrix in pages in a shuffled order with gaps between them.
class PagedMatrix {
public:
  PagedMatrix(const LogicalMatrix &m, uint32_t pageShift, uint64_t offset, Random &random)
      : PagedMatrix({m.shape, m.format, m.layout, {}}, packed(m), pageShift, offset, random) {}

  /// The given bytes; the view's addresses are replaced.
  PagedMatrix(const WeightView &stored, const std::vector<std::byte> &bytes, uint32_t pageShift,
              uint64_t offset, Random &random)
      : whole(stored), shift(pageShift), begin(offset) {
    uint64_t pageBytes = uint64_t(1) << pageShift;
    uint64_t count = divideUp(offset + bytes.size(), pageBytes);
    memory.resize(2 * count * pageBytes + 64, std::byte(0x7b));
    auto base = reinterpret_cast<uintptr_t>(memory.data());
    std::byte *aligned = memory.data() + (roundUp(base, 64) - base);
    for (uint64_t i = 0; i < count; ++i)
      pages.push_back(aligned + 2 * i * pageBytes);
    for (uint64_t i = count; i > 1; --i)
      std::swap(pages[i - 1], pages[random.below(static_cast<uint32_t>(i))]);
    for (uint64_t i = 0; i < bytes.size(); ++i) {
      uint64_t position = offset + i;
      pages[position / pageBytes][position % pageBytes] = bytes[i];
    }
    constPages.assign(pages.begin(), pages.end());
  }

  WeightView view() const {
    WeightView view = whole;
    view.bytes = {constPages.data(), shift, begin};
    return view;
  }
  std::byte &byteAt(uint64_t index) {
    uint64_t position = begin + index;
    return pages[position >> shift][position & ((uint64_t(1) << shift) - 1)];
  }

private:
  WeightView whole;
  uint32_t shift;
  uint64_t begin;
  std::vector<std::byte> memory;
  std::vector<std::byte *> pages;
  std::vector<const std::byte *> constPages;
};

/// Rows of activations in linearQuantized's format.
struct QuantizedBatch {
  QuantizedBatch(uint32_t rows, uint32_t paddedCols, uint32_t group)
      : codes(rows, paddedCols), scales(rows, paddedCols / group), sums(rows, paddedCols / group),
        cols(paddedCols), groupSize(group) {}

  QuantizedRows view(uint32_t firstRow = 0) {
    return {&codes.at(firstRow, 0), &scales.at(firstRow, 0), &sums.at(firstRow, 0), cols, groupSize,
            codes.stride(),         scales.stride(),         hadamardBlock};
  }

  GuardedRows<int8_t> codes;
  GuardedRows<float> scales;
  GuardedRows<int32_t> sums;
  uint32_t cols, groupSize;
  uint32_t hadamardBlock = 1;
};

/// Calls check with every version but the reference; reports those that the processor lacks.
inline void forEachVersion(const std::function<void(const KernelTable &)> &check) {
  check(deviceKernels());
  for (Isa isa : builtIsas().subspan(1)) {
    auto table = kernelsFor(isa);
    if (!table.isOk()) {
      MESSAGE("SKIPPED: ", table.status().message());
      continue;
    }
    CAPTURE((*table)->name);
    check(**table);
  }
}

} // namespace moert::test
