#include "compiler/quantize/PackWeights.h"
#include "runtime/base/HalfFloat.h"

#include "runtime/base/CheckedMath.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

using namespace moec;
using namespace moert;

static uint16_t loadU16(const std::vector<std::byte> &bytes, size_t at) {
  return uint16_t(uint32_t(bytes.at(at)) | uint32_t(bytes.at(at + 1)) << 8);
}

/// Decodes one element by WeightLayout.h's description alone, sharing no code with the packing.
struct Decoder {
  MatrixShape shape;
  WeightFormat format;
  const PackedWeights &packed;
  uint32_t paddedCols = 0;

  uint32_t codeOf(uint32_t row, uint32_t col) const {
    uint32_t panel = row / 16, output = row % 16;
    size_t panelBytes = size_t(paddedCols) * 16 * bitsOf(format.kind) / 8;
    size_t at = panel * panelBytes;
    switch (format.kind) {
    case WeightKind::kInt8: // [input / 4][16 outputs][4 inputs]
      return uint32_t(packed.codes.at(at + col / 4 * 64 + output * 4 + col % 4));
    case WeightKind::kInt4: { // [input / 8][16 outputs][4 inputs], low half first
      auto byte = uint32_t(packed.codes.at(at + col / 8 * 64 + output * 4 + col % 4));
      return col % 8 < 4 ? byte & 15 : byte >> 4;
    }
    case WeightKind::kInt2: { // [input / 16][16 outputs][4 inputs], low quarter first
      auto byte = uint32_t(packed.codes.at(at + col / 16 * 64 + output * 4 + col % 4));
      return byte >> (col % 16 / 4 * 2) & 3;
    }
    default:
      return 0;
    }
  }
  int32_t q(uint32_t row, uint32_t col) const {
    return int32_t(codeOf(row, col)) - (1 << (bitsOf(format.kind) - 1));
  }
  float table(const std::vector<std::byte> &values, uint32_t row, uint32_t col) const {
    uint32_t groups = uint32_t(divideUp(paddedCols, format.group));
    size_t index = (size_t(row / 16) * groups + col / format.group) * 16 + row % 16;
    return f16ToF32(loadU16(values, index * 2));
  }
  float scale(uint32_t row, uint32_t col) const { return table(packed.scales, row, col); }
  float offset(uint32_t row, uint32_t col) const {
    return format.hasOffsets ? table(packed.offsets, row, col) : 0;
  }
  double value(uint32_t row, uint32_t col) const {
    return double(scale(row, col)) * q(row, col) + double(offset(row, col));
  }
};

static Decoder decoderOf(const MatrixShape &shape, const WeightFormat &format,
                         const PackedWeights &packed) {
  return {shape, format, packed, uint32_t(roundUp(shape.cols, format.activationGroup))};
}

static std::vector<float> randomRows(const MatrixShape &shape, float size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> rows(size_t(shape.rows) * shape.cols);
  for (float &value : rows) { // Not std::normal_distribution: its numbers depend on the library.
    const float signedPart = float(random() % 20001) / 10000 - 1;
    value = signedPart * (float(random() % 1000) / 1000) * size;
  }
  return rows;
}

static PackedWeights pack(const MatrixShape &shape, const WeightFormat &format,
                          const std::vector<float> &rows) {
  auto packed = packWeights(shape, {&format, 1}, 0, shape.rows, rows);
  REQUIRE_MESSAGE(packed.isOk(), packed.status().message());
  return packed->front();
}

constexpr WeightFormat kInt8 = {WeightKind::kInt8, 32, 32, false};
constexpr WeightFormat kInt4 = {WeightKind::kInt4, 64, 32, false};
constexpr WeightFormat kInt2 = {WeightKind::kInt2, 32, 16, true};
constexpr WeightFormat kAllFormats[] = {kInt8,
                                        kInt4,
                                        kInt2,
                                        {WeightKind::kInt8, 32, 16, true},
                                        {WeightKind::kInt4, 32, 32, true},
                                        {WeightKind::kInt2, 64, 64, false}};
constexpr MatrixShape kShapes[] = {{16, 32}, {32, 64}, {5, 7}, {17, 100}, {48, 33}};

TEST_CASE("a matrix that is packed in runs of panels has each of its parts in runs") {
  constexpr MatrixShape kShape = {83, 70};
  const std::vector<float> rows = randomRows(kShape, 1, 13);
  const auto append = [](std::vector<std::byte> &to, const std::vector<std::byte> &from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (WeightKind kind : {WeightKind::kInt4, WeightKind::kInt3, WeightKind::kInt5,
                          WeightKind::kInt6, WeightKind::kNl3}) {
    const WeightFormat format = {kind, 32, 32};
    const PackedWeights whole = pack(kShape, format, rows);
    PackedWeights joined;
    joined.lowPlanes.resize(planesOf(kind).size() - 1);
    for (auto [first, count] : {std::pair(0u, 32u), {32u, kShape.rows - 32}}) {
      auto packed = packWeights(kShape, {&format, 1}, first, count,
                                std::span(rows).subspan(first * kShape.cols, count * kShape.cols));
      REQUIRE(packed.isOk());
      append(joined.codes, packed->front().codes);
      append(joined.scales, packed->front().scales);
      REQUIRE(packed->front().lowPlanes.size() == joined.lowPlanes.size());
      for (size_t p = 0; p < joined.lowPlanes.size(); ++p)
        append(joined.lowPlanes[p], packed->front().lowPlanes[p]);
    }
    CHECK(joined.codes == whole.codes);
    CHECK(joined.scales == whole.scales);
    CHECK(joined.lowPlanes == whole.lowPlanes);
  }
}

TEST_CASE("the parts of a packed matrix have the sizes of its layout") {
  for (const WeightFormat &format : kAllFormats)
    for (const MatrixShape &shape : kShapes) {
      PackedWeights packed = pack(shape, format, randomRows(shape, 1, 1));
      auto layout = layoutOf(shape, format);
      REQUIRE(layout.isOk());
      CHECK(packed.codes.size() == layout->codesBytes);
      uint64_t end = layout->scalesOffset + packed.scales.size();
      if (format.hasOffsets)
        end = layout->offsetsOffset + packed.offsets.size();
      CHECK(end == layout->bytes);
      CHECK(packed.offsets.size() == (format.hasOffsets ? packed.scales.size() : 0));
    }
}

// Codes are computed from the rounded scale, so a value inside the codes' range is off by at most
// half a step. A symmetric format of 4 or 2 bits has one code less on the side opposite the
// extreme, where a value may be a whole step beyond the last code. Rounding the scale moves the
// largest code by 2^-11 of the value; rounding the offset adds 2^-11 of it. Numbers below 2^-14 are
// rounded by up to 2^-25 in f16: the scale's error counts once per code up to the largest where a
// value is clipped, and otherwise once, in addition to the offset's.
TEST_CASE("a decoded value is within half a step, or one step where its code is clipped") {
  for (float size : {1e-4f, 0.02f, 1.0f, 300.0f})
    for (const WeightFormat &format : kAllFormats)
      for (const MatrixShape &shape : kShapes) {
        std::vector<float> rows = randomRows(shape, size, 7);
        PackedWeights packed = pack(shape, format, rows);
        Decoder decoder = decoderOf(shape, format, packed);
        for (uint32_t row = 0; row < shape.rows; ++row)
          for (uint32_t col = 0; col < shape.cols; ++col) {
            double wanted = double(rows[row * shape.cols + col]);
            double step = std::fabs(double(decoder.scale(row, col)));
            bool mayBeCut = !format.hasOffsets && format.kind != WeightKind::kInt8;
            int subnormalRoundings = mayBeCut ? 1 << (bitsOf(format.kind) - 1) : 2;
            double bound = step * (mayBeCut ? 1.0 : 0.5) + std::fabs(wanted) * 0x1p-11 +
                           std::fabs(double(decoder.offset(row, col))) * 0x1p-11 +
                           subnormalRoundings * 0x1p-25;
            double error = std::fabs(decoder.value(row, col) - wanted);
            if (error > bound)
              FAIL(nameOf(format.kind), " row ", row, " column ", col, ": error ", error, " above ",
                   bound);
          }
      }
}

TEST_CASE("codes are the nearest ones to the value divided by the rounded scale") {
  for (const WeightFormat &format : kAllFormats) {
    MatrixShape shape = {17, 100};
    std::vector<float> rows = randomRows(shape, 3, 11);
    PackedWeights packed = pack(shape, format, rows);
    Decoder decoder = decoderOf(shape, format, packed);
    int32_t high = (1 << (bitsOf(format.kind) - 1)) - 1;
    int32_t low = format.kind == WeightKind::kInt8 && !format.hasOffsets ? -127 : -high - 1;
    for (uint32_t row = 0; row < shape.rows; ++row)
      for (uint32_t col = 0; col < shape.cols; ++col) {
        float exact =
            (rows[row * shape.cols + col] - decoder.offset(row, col)) / decoder.scale(row, col);
        auto nearest = int32_t(std::nearbyint(exact));
        CHECK(decoder.q(row, col) == std::clamp(nearest, low, high));
      }
  }
}

TEST_CASE("the scales are those of the formulas") {
  auto scaleOf = [](const WeightFormat &format, float first, float second) {
    std::vector<float> row(32, 0.0f);
    row[3] = first;
    row[9] = second;
    PackedWeights packed = pack({1, 32}, format, row);
    return decoderOf({1, 32}, format, packed).scale(0, 0);
  };
  CHECK(scaleOf(kInt8, 127, -2) == 1);
  CHECK(scaleOf(kInt8, -254, 2) == 2);
  CHECK(scaleOf(kInt4, -8, 7) == 1);
  CHECK(scaleOf(kInt4, 8, -7) == -1);
  CHECK(scaleOf(kInt4, 4, -4) == 0.5f); // The negative one of two extremes.
  CHECK(scaleOf(kInt2, -2, 1) == 1);
}

TEST_CASE("a group of two bits uses its offset") {
  std::vector<float> row(32);
  for (size_t i = 0; i < 32; ++i)
    row[i] = 5 + float(i % 4) * 0.25f; // 5, 5.25, 5.5, 5.75
  PackedWeights packed = pack({1, 32}, kInt2, row);
  Decoder decoder = decoderOf({1, 32}, kInt2, packed);
  CHECK(decoder.scale(0, 0) == 0.25f);
  CHECK(decoder.offset(0, 0) == 5.5f);
  for (uint32_t i = 0; i < 32; ++i)
    CHECK(decoder.value(0, i) == double(row[i]));
}

TEST_CASE("rows of zeros and the padding rows of the last panel are exactly zero") {
  for (const WeightFormat &format : kAllFormats) {
    MatrixShape shape = {5, 40};
    std::vector<float> rows = randomRows(shape, 1, 3);
    std::fill(rows.begin() + 40, rows.begin() + 80, 0.0f); // Row 1.
    PackedWeights packed = pack(shape, format, rows);
    Decoder decoder = decoderOf(shape, format, packed);
    for (uint32_t row : {1u, 5u, 9u, 15u})
      for (uint32_t col = 0; col < decoder.paddedCols; ++col) {
        CHECK(decoder.q(row, col) == 0);
        CHECK(decoder.scale(row, col) == 0);
        CHECK(decoder.offset(row, col) == 0);
      }
  }
}

TEST_CASE("the padding inputs of the last activation group have the code of zero") {
  for (const WeightFormat &format : kAllFormats) {
    MatrixShape shape = {16, 33};
    PackedWeights packed = pack(shape, format, randomRows(shape, 1, 5));
    Decoder decoder = decoderOf(shape, format, packed);
    REQUIRE(decoder.paddedCols > shape.cols);
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t col = shape.cols; col < decoder.paddedCols; ++col)
        CHECK(decoder.q(row, col) == 0);
  }
}

TEST_CASE("a group of equal values keeps them as its offset") {
  PackedWeights packed = pack({1, 32}, kInt2, std::vector<float>(32, 0.75f));
  Decoder decoder = decoderOf({1, 32}, kInt2, packed);
  for (uint32_t i = 0; i < 32; ++i)
    CHECK(decoder.value(0, i) == 0.75);
}

TEST_CASE("panels packed one by one equal the matrix packed at once") {
  for (const WeightFormat &format : kAllFormats) {
    MatrixShape shape = {37, 50};
    std::vector<float> rows = randomRows(shape, 1, 9);
    PackedWeights whole = pack(shape, format, rows), joined;
    for (uint32_t first = 0; first < shape.rows; first += 16) {
      uint32_t count = std::min(16u, shape.rows - first);
      auto part = packWeights(shape, {&format, 1}, first, count,
                              std::span(rows).subspan(first * 50, count * 50));
      REQUIRE(part.isOk());
      auto append = [](std::vector<std::byte> &to, const std::vector<std::byte> &from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(joined.codes, part->front().codes);
      append(joined.scales, part->front().scales);
      append(joined.offsets, part->front().offsets);
    }
    CHECK(joined.codes == whole.codes);
    CHECK(joined.scales == whole.scales);
    CHECK(joined.offsets == whole.offsets);
  }
}

TEST_CASE("very small values are not clipped by a scale that f16 rounds strongly") {
  // amax / 127 is 1.3 times f16's smallest number and rounds down to it: 127 of those would clip
  // the value to three quarters.
  std::vector<float> row(32, 0.0f);
  row[0] = 127 * 1.3f * 0x1p-24f;
  PackedWeights packed = pack({1, 32}, kInt8, row);
  Decoder decoder = decoderOf({1, 32}, kInt8, packed);
  CHECK(decoder.scale(0, 0) == 0x1p-23f);
  CHECK(std::fabs(decoder.value(0, 0) - double(row[0])) <= 0x1p-24);
}

TEST_CASE("float matrices of 16 rows and more are stored in panels, smaller ones in rows") {
  for (uint32_t rowsCount : {3u, 16u, 20u}) {
    MatrixShape shape = {rowsCount, 6};
    std::vector<float> rows = randomRows(shape, 1, 13);
    PackedWeights packed = pack(shape, {WeightKind::kF32, 0, 0, false}, rows);
    CHECK(packed.scales.empty());
    bool isPanels = rowsCount >= 16;
    REQUIRE(packed.codes.size() == (isPanels ? roundUp(rowsCount, 16) : rowsCount) * 6 * 4);
    for (uint32_t row = 0; row < rowsCount; ++row)
      for (uint32_t col = 0; col < 6; ++col) {
        size_t index = isPanels ? (row / 16 * 6 + col) * 16 + row % 16 : row * 6 + col;
        float stored = 0;
        std::memcpy(&stored, packed.codes.data() + index * 4, 4);
        CHECK(stored == rows[row * 6 + col]);
      }
  }
}

TEST_CASE("16-bit floats are kept unchanged and others rounded to nearest even") {
  MatrixShape shape = {1, 3};
  std::vector<float> rows = {1.0f, 1.00390625f, -3.0f}; // 1 + 2^-8: the middle of two bf16.
  PackedWeights bf16 = pack(shape, {WeightKind::kBF16, 0, 0, false}, rows);
  CHECK(loadU16(bf16.codes, 0) == 0x3f80);
  CHECK(loadU16(bf16.codes, 2) == 0x3f80);
  CHECK(loadU16(bf16.codes, 4) == 0xc040);
  PackedWeights f16 = pack(shape, {WeightKind::kF16, 0, 0, false}, rows);
  CHECK(loadU16(f16.codes, 2) == 0x3c04);
}

TEST_CASE("values that a format cannot hold are refused with their row and column") {
  struct Case {
    WeightFormat format;
    float value;
    const char *message;
  };
  constexpr WeightFormat kF32 = {WeightKind::kF32, 0, 0, false};
  WeightFormat transformed = kInt8;
  transformed.hasHadamard = true;
  for (const Case &refused :
       {Case{kInt8, NAN, "row 17, column 4 is nan"},
        {transformed, NAN, "row 17, column 4 is nan"},
        {transformed, -INFINITY, "row 17, column 4 is -inf"},
        {kInt4, INFINITY, "row 17, column 4 is inf"},
        {kInt2, -INFINITY, "row 17, column 4 is -inf"},
        {kF32, NAN, "row 17, column 4 is nan"},
        {kInt8, 1e30f, "row 17: values from"},
        {kInt2, 1e6f, "row 17: values from"},
        {{WeightKind::kF16, 0, 0, false}, 70000, "beyond the range of f16"},
        {{WeightKind::kBF16, 0, 0, false}, 3.4e38f, "beyond the range of bf16"}}) {
    MatrixShape shape = {20, 32};
    std::vector<float> rows(20 * 32, 0.0f);
    rows[17 * 32 + 4] = refused.value;
    for (uint32_t first : {0u, 16u}) { // All rows, or the last ones alone.
      auto packed = packWeights(shape, {&refused.format, 1}, first, 20 - first,
                                std::span(rows).subspan(first * 32));
      REQUIRE_MESSAGE(!packed.isOk(), refused.message);
      CHECK(packed.status().code() == StatusCode::kInvalidInput);
      CHECK_MESSAGE(packed.status().message().find(refused.message) != std::string::npos,
                    packed.status().message());
    }
  }
}

TEST_CASE("MXFP4 codes and scales are moved to their places in panels, and nothing else") {
  constexpr uint32_t kRows = 19, kCols = 64, kRowBytes = kCols / 2 + kCols / 32;
  std::vector<std::byte> rows(kRows * kRowBytes);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::byte(i * 37 + (i >> 7));
  auto packed = packKept({kRows, kCols}, WeightKind::kMxfp4, rows);
  REQUIRE(packed.isOk());
  REQUIRE(packed->codes.size() == 32 * kCols / 2);
  REQUIRE(packed->scales.size() == 32 * kCols / 32);
  CHECK(packed->offsets.empty());
  for (size_t row = 0; row < 32; ++row) {
    auto stored = [&](size_t i) { return row < kRows ? rows[row * kRowBytes + i] : std::byte(0); };
    for (size_t pair = 0; pair < kCols / 2; ++pair)
      CHECK(packed->codes[(row / 16 * kCols / 8 + pair / 4) * 64 + row % 16 * 4 + pair % 4] ==
            stored(pair));
    for (size_t group = 0; group < kCols / 32; ++group)
      CHECK(packed->scales[(row / 16 * kCols / 32 + group) * 16 + row % 16] ==
            stored(kCols / 2 + group));
  }
  // The rows after the first panel, alone.
  auto rest = packKept({3, kCols}, WeightKind::kMxfp4, std::span(rows).subspan(16 * kRowBytes));
  REQUIRE(rest.isOk());
  CHECK(std::equal(rest->codes.begin(), rest->codes.end(), packed->codes.begin() + 16 * kCols / 2,
                   packed->codes.end()));
}

TEST_CASE("blocks keep their bytes, each beside those of the panel's other outputs") {
  constexpr size_t kRows = 19, kBytes = 2 * 34; // Two blocks of q8_0.
  std::vector<std::byte> rows(kRows * kBytes);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::byte(i * 7 % 251);
  auto packed = packKept({kRows, 64}, WeightKind::kQ8x0, rows);
  REQUIRE(packed.isOk());
  REQUIRE(packed->codes.size() == 32 * kBytes);
  CHECK(packed->scales.empty());
  for (size_t row = 0; row < 32; ++row)
    for (size_t i = 0; i < kBytes; ++i)
      CHECK(packed->codes[(row / 16 * kBytes + i) * 16 + row % 16] ==
            (row < kRows ? rows[row * kBytes + i] : std::byte(0)));
  CHECK(packKept({1, 48}, WeightKind::kQ8x0, {}).status().message() ==
        "a matrix of q8_0 and 48 inputs, expected a multiple of 32");
}

TEST_CASE("f32 rows are not rounded to MXFP4") {
  const std::vector<float> rows(32, 1.0f);
  const WeightFormat format = floatFormat(WeightKind::kMxfp4);
  auto packed = packWeights({1, 32}, {&format, 1}, 0, 1, rows);
  REQUIRE(!packed.isOk());
  CHECK(packed.status().message() == "f32 values, expected codes and scales of mxfp4");
}
