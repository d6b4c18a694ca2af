#include "compiler/quantize/PackWeights.h"

#include "compiler/import/StoredType.h"
#include "compiler/quantize/HalfFloat.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace moert;

namespace moec {

namespace {

/// One group of one row, quantized.
struct GroupScale {
  uint16_t scaleBits = 0;
  uint16_t offsetBits = 0;
};

struct CodeRange {
  int32_t low, high;
};

constexpr float kLargestF16 = 65504;

} // namespace

static bool isAllFinite(std::span<const float> values) {
  uint32_t found = 0;
  for (float value : values)
    found |= uint32_t((std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u);
  return found == 0;
}

static Status checkFinite(const MatrixShape &shape, uint32_t firstRow,
                          std::span<const float> rows) {
  if (isAllFinite(rows))
    return {};
  for (size_t i = 0; i < rows.size(); ++i)
    if (!std::isfinite(rows[i]))
      return invalidInput("the value in row ", firstRow + i / shape.cols, ", column ",
                          i % shape.cols, " is ", rows[i], ", expected a finite number");
  return {};
}

// Codes are offset binary, so their lowest is 0; 8 bits leave it unused when symmetric, which keeps
// the kernels' sums of pairs within 16 bits.
static CodeRange codeRangeOf(const WeightFormat &format) {
  int32_t half = 1 << (bitsOf(format.kind) - 1);
  bool isSymmetric8 = format.kind == WeightKind::kInt8 && !format.hasOffsets;
  return {isSymmetric8 ? -127 : -half, half - 1};
}

// The f16 nearest to scale; the next larger one where rounding down would cut off the largest code
// by more than half a step, which only f16's subnormal numbers can do.
static uint16_t roundScale(float scale, float largest, float largestCode) {
  uint16_t bits = f32ToF16(scale);
  if (largest > (largestCode + 0.5f) * std::fabs(f16ToF32(bits)))
    ++bits;
  return bits;
}

static Result<GroupScale> scaleOf(std::span<const float> group, const WeightFormat &format) {
  float low = group[0], high = group[0];
  for (float value : group) {
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  GroupScale result;
  if (low == 0 && high == 0)
    return result;
  if (format.hasOffsets) {
    // Halves first: max - min itself may overflow.
    float halfRange = high * 0.5f - low * 0.5f;
    float steps = float((1 << bitsOf(format.kind)) - 1);
    result.scaleBits = roundScale(halfRange / steps * 2, halfRange * 2, steps);
    float offset = (low * 0.5f + high * 0.5f) + f16ToF32(result.scaleBits) * 0.5f;
    result.offsetBits = f32ToF16(result.scaleBits == 0 ? low : offset);
  } else {
    float extreme = -low >= high ? low : high;
    float codes = format.kind == WeightKind::kInt8 ? 127 : float(codeRangeOf(format).low);
    float scale = format.kind == WeightKind::kInt8 ? std::fabs(extreme) / codes : extreme / codes;
    result.scaleBits = roundScale(scale, std::fabs(extreme), std::fabs(codes));
  }
  if (!(std::fabs(f16ToF32(result.scaleBits)) <= kLargestF16) ||
      !(std::fabs(f16ToF32(result.offsetBits)) <= kLargestF16))
    return invalidInput("values from ", low, " to ", high, " need a scale beyond f16's ",
                        kLargestF16);
  return result;
}

// Rounds to nearest even without a call or a rounding instruction: at 1.5 * 2^23 the spacing of f32
// is 1. Valid for magnitudes below 2^22.
static float roundToEven(float value) {
  constexpr float kMagic = 12582912.0f;
  return (value + kMagic) - kMagic;
}

// Offset binary codes of a group. A scale of 0 stands for a group of equal values.
static void quantizeGroup(std::span<const float> group, const GroupScale &scales,
                          const WeightFormat &format, uint8_t *codes) {
  float scale = f16ToF32(scales.scaleBits), offset = f16ToF32(scales.offsetBits);
  CodeRange range = codeRangeOf(format);
  float low = float(range.low), high = float(range.high);
  int32_t zero = 1 << (bitsOf(format.kind) - 1);
  if (scale == 0) {
    std::fill_n(codes, group.size(), uint8_t(zero));
    return;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    float q = (group[i] - offset) / scale;
    q = q < low ? low : q;
    q = q > high ? high : q;
    codes[i] = uint8_t(int32_t(roundToEven(q)) + zero);
  }
}

// Codes of one row go into the places of output `lane` of a panel: units of 16 outputs x 4 bytes,
// a byte holding the inputs i, i + 4, ... of the unit, low bits first.
static void placeCodes(const std::vector<uint8_t> &codes, uint32_t bits, uint32_t lane,
                       std::byte *panel) {
  const size_t perByte = 8 / bits, unitInputs = 4 * perByte;
  for (size_t unit = 0; unit < codes.size() / unitInputs; ++unit) {
    const uint8_t *in = codes.data() + unit * unitInputs;
    std::byte *out = panel + unit * kPanelRows * 4 + lane * 4;
    for (size_t byte = 0; byte < 4; ++byte) {
      uint32_t value = 0;
      for (size_t part = 0; part < perByte; ++part)
        value |= uint32_t(in[byte + 4 * part]) << (bits * part);
      out[byte] = std::byte(value);
    }
  }
}

static void storeU16(std::vector<std::byte> &bytes, size_t index, uint16_t value) {
  bytes[index * 2] = std::byte(value & 0xff);
  bytes[index * 2 + 1] = std::byte(value >> 8);
}

static Result<PackedWeights> packQuantized(const MatrixShape &shape, const WeightFormat &format,
                                           const MatrixLayout &layout, uint32_t firstRow,
                                           uint32_t rowCount, std::span<const float> rows) {
  const uint32_t panels = uint32_t(divideUp(rowCount, kPanelRows));
  const uint32_t bits = bitsOf(format.kind), groups = layout.groupsPerRow;
  const size_t panelBytes = size_t(layout.paddedCols) * kPanelRows * bits / 8;
  PackedWeights packed;
  packed.codes.resize(panels * panelBytes);
  packed.scales.resize(size_t(panels) * groups * kPanelRows * 2);
  packed.offsets.resize(format.hasOffsets ? packed.scales.size() : 0);
  std::vector<uint8_t> codes(layout.paddedCols);
  for (uint32_t row = 0; row < panels * kPanelRows; ++row) {
    const uint32_t panel = row / kPanelRows, lane = row % kPanelRows;
    std::fill(codes.begin(), codes.end(), uint8_t(1u << (bits - 1)));
    for (uint32_t group = 0; group < groups && row < rowCount; ++group) {
      const size_t begin = size_t(group) * format.group;
      std::span<const float> values = rows.subspan(
          size_t(row) * shape.cols + begin, std::min<size_t>(format.group, shape.cols - begin));
      auto scales = scaleOf(values, format);
      if (!scales.isOk())
        return scales.status().withContext(strCat("row ", firstRow + row));
      quantizeGroup(values, *scales, format, codes.data() + begin);
      const size_t place = (size_t(panel) * groups + group) * kPanelRows + lane;
      storeU16(packed.scales, place, scales->scaleBits);
      if (format.hasOffsets)
        storeU16(packed.offsets, place, scales->offsetBits);
    }
    placeCodes(codes, bits, lane, packed.codes.data() + panel * panelBytes);
  }
  return packed;
}

static Status storeFloat(float value, WeightKind kind, std::byte *out) {
  if (kind == WeightKind::kF32) {
    std::memcpy(out, &value, sizeof(value));
    return {};
  }
  uint16_t bits = kind == WeightKind::kF16 ? f32ToF16(value) : f32ToBf16(value);
  float stored = kind == WeightKind::kF16 ? f16ToF32(bits) : bf16ToF32(bits);
  if (!std::isfinite(stored))
    return invalidInput("the value ", value, " is beyond the range of ", nameOf(kind));
  std::memcpy(out, &bits, sizeof(bits));
  return {};
}

static Result<PackedWeights> packFloats(const MatrixShape &shape, const WeightFormat &format,
                                        const MatrixLayout &layout, uint32_t rowCount,
                                        std::span<const float> rows) {
  const size_t elementBytes = bitsOf(format.kind) / 8;
  const size_t lanes = layout.isPanels ? kPanelRows : 1;
  PackedWeights packed;
  packed.codes.resize(roundUp(rowCount, lanes) * shape.cols * elementBytes);
  for (size_t row = 0; row < rowCount; ++row) {
    std::byte *out =
        packed.codes.data() + (row / lanes * lanes * shape.cols + row % lanes) * elementBytes;
    for (size_t col = 0; col < shape.cols; ++col)
      MOERT_RETURN_IF_ERROR(
          storeFloat(rows[row * shape.cols + col], format.kind, out + col * lanes * elementBytes));
  }
  return packed;
}

Result<PackedWeights> packWeights(const MatrixShape &shape, const WeightFormat &format,
                                  uint32_t firstRow, uint32_t rowCount,
                                  std::span<const float> rows) {
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(shape, format));
  assert(firstRow % kPanelRows == 0 && rowCount <= shape.rows - firstRow &&
         rows.size() == size_t(rowCount) * shape.cols);
  MOERT_RETURN_IF_ERROR(checkFinite(shape, firstRow, rows));
  if (isQuantized(format.kind))
    return packQuantized(shape, format, layout, firstRow, rowCount, rows);
  return packFloats(shape, format, layout, rowCount, rows);
}

} // namespace moec
