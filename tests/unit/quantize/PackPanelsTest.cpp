#include "compiler/quantize/PackPanels.h"
#include "compiler/import/StoredType.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <vector>

using namespace moec;
using namespace moert;

namespace {

std::vector<float> randomWeights(uint32_t rows, uint32_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> weights(uint64_t(rows) * cols);
  for (float &weight : weights)
    weight = (static_cast<float>(random()) / 2147483648.0f - 1) * 0.05f;
  return weights;
}

/// The whole matrix, packed `step` rows at a time.
std::vector<std::byte> pack(const std::vector<float> &weights, const MatrixShape &shape,
                            const WeightFormat &format, uint32_t step) {
  std::vector<std::byte> matrix(layoutOf(shape, format).value().bytes, std::byte{0xee});
  PackedPanels packed;
  for (uint32_t row = 0; row < shape.rows; row += step) {
    uint32_t count = std::min(step, shape.rows - row);
    std::span<const float> part(weights.data() + uint64_t(row) * shape.cols,
                                uint64_t(count) * shape.cols);
    REQUIRE(packRows(part, shape, format, row, packed).isOk());
    std::copy(packed.codes.begin(), packed.codes.end(),
              matrix.begin() + static_cast<long>(packed.codesAt));
    std::copy(packed.scales.begin(), packed.scales.end(),
              matrix.begin() + static_cast<long>(packed.scalesAt));
    std::copy(packed.offsets.begin(), packed.offsets.end(),
              matrix.begin() + static_cast<long>(packed.offsetsAt));
  }
  return matrix;
}

uint16_t half(const std::vector<std::byte> &matrix, uint64_t offset) {
  uint16_t value;
  std::memcpy(&value, matrix.data() + offset, 2);
  return value;
}

/// The value at (row, col), read straight from the description in WeightLayout.h.
float valueAt(const std::vector<std::byte> &matrix, const MatrixShape &shape,
              const WeightFormat &format, uint32_t row, uint32_t col) {
  MatrixLayout layout = layoutOf(shape, format).value();
  uint64_t panel = row / 16, lane = row % 16;
  if (!isQuantized(format.kind)) {
    uint64_t element =
        layout.isPanels ? (panel * shape.cols + col) * 16 + lane : uint64_t(row) * shape.cols + col;
    if (format.kind == WeightKind::kF32) {
      float value;
      std::memcpy(&value, matrix.data() + element * 4, 4);
      return value;
    }
    uint16_t bits = half(matrix, element * 2);
    return format.kind == WeightKind::kF16 ? f16ToF32(bits) : bf16ToF32(bits);
  }
  int32_t q = 0;
  uint64_t panelStart = panel * 16 * layout.paddedCols;
  switch (format.kind) {
  case WeightKind::kInt8: // [input / 4][16][4]
    q = static_cast<int32_t>(matrix[panelStart + col / 4 * 64 + lane * 4 + col % 4]) - 128;
    break;
  case WeightKind::kInt4: { // [input / 8][16][4], low nibble first
    uint32_t byte =
        static_cast<uint32_t>(matrix[panelStart / 2 + col / 8 * 64 + lane * 4 + col % 4]);
    q = static_cast<int32_t>(col % 8 < 4 ? byte & 15 : byte >> 4) - 8;
    break;
  }
  default: { // [input / 16][16][4], two bits each
    uint32_t byte =
        static_cast<uint32_t>(matrix[panelStart / 4 + col / 16 * 64 + lane * 4 + col % 4]);
    q = static_cast<int32_t>(byte >> (col % 16 / 4 * 2) & 3) - 2;
  }
  }
  uint64_t place = ((panel * layout.groupsPerRow + col / format.group) * 16 + lane) * 2;
  float scale = f16ToF32(half(matrix, layout.scalesOffset + place));
  float offset = format.hasOffsets ? f16ToF32(half(matrix, layout.offsetsOffset + place)) : 0;
  return scale * static_cast<float>(q) + offset;
}

const WeightFormat kInt8 = {WeightKind::kInt8, 32, 32, false},
                   kInt4 = {WeightKind::kInt4, 32, 32, false},
                   kInt2 = {WeightKind::kInt2, 64, 32, true};

} // namespace

TEST_CASE("float kinds keep every weight that they can hold, in panel and in row layout") {
  for (MatrixShape shape : {MatrixShape{37, 50}, MatrixShape{15, 50}, MatrixShape{1, 7}}) {
    for (WeightKind kind : {WeightKind::kF32, WeightKind::kBF16, WeightKind::kF16}) {
      std::vector<float> weights = randomWeights(shape.rows, shape.cols, 3);
      for (float &weight : weights) // Eight bits of fraction fit in all three.
        weight = std::nearbyintf(weight * 2048) / 2048;
      std::vector<std::byte> matrix = pack(weights, shape, {kind, 0, 0, false}, 16);
      for (uint32_t row = 0; row < shape.rows; ++row)
        for (uint32_t col = 0; col < shape.cols; ++col)
          REQUIRE(valueAt(matrix, shape, {kind, 0, 0, false}, row, col) ==
                  weights[row * shape.cols + col]);
    }
  }
}

TEST_CASE("a quantized weight is off by half a step at most, and the group's extreme is met") {
  MatrixShape shape = {45, 200}; // Neither whole panels nor whole groups.
  std::vector<float> weights = randomWeights(shape.rows, shape.cols, 5);
  for (const WeightFormat &format : {kInt8, kInt4, kInt2}) {
    std::vector<std::byte> matrix = pack(weights, shape, format, 16);
    for (uint32_t row = 0; row < shape.rows; ++row)
      for (uint32_t begin = 0; begin < shape.cols; begin += format.group) {
        auto first = weights.begin() + row * shape.cols + begin;
        auto last = first + std::min(format.group, shape.cols - begin);
        auto [least, most] = std::minmax_element(first, last);
        float amax = std::max(std::fabs(*least), std::fabs(*most));
        // Steps: 127 to amax, 8 to amax, 3 from least to most. At int4 the extreme is at -8, so
        // that the other end (+7) can clip by one whole step. f16 adds 2^-11 of the scale for each
        // of up to 127 steps.
        float step = format.kind == WeightKind::kInt8   ? amax / 127
                     : format.kind == WeightKind::kInt4 ? amax / 8
                                                        : (*most - *least) / 3;
        float bound = step * (format.kind == WeightKind::kInt4 ? 1.01f : 0.57f) + amax * 0x1p-10f;
        for (uint32_t col = begin; first != last; ++first, ++col)
          REQUIRE(std::fabs(valueAt(matrix, shape, format, row, col) - *first) <= bound);
      }
  }
}

TEST_CASE("packing some panels at a time gives the bytes of packing all at once") {
  MatrixShape shape = {100, 96};
  std::vector<float> weights = randomWeights(shape.rows, shape.cols, 8);
  for (const WeightFormat &format :
       {kInt8, kInt4, kInt2, WeightFormat{WeightKind::kBF16, 0, 0, false}})
    CHECK(pack(weights, shape, format, 16) == pack(weights, shape, format, 112));
}

TEST_CASE("padding rows and inputs have code zero, in the middle of the offset binary range") {
  MatrixShape shape = {17, 33};
  std::vector<float> weights(17 * 33, 1.0f);
  std::vector<std::byte> matrix = pack(weights, shape, kInt8, 32);
  CHECK(matrix[32 * 16 + 64 * 0 + 4 * 0 + 1] == std::byte{128}); // Panel 0, lane 0, input 33.
  CHECK(matrix[64 * 16 + 4 * 1] == std::byte{128});              // Panel 1, lane 1, input 0.
}

TEST_CASE("a group of zeros is stored as zeros") {
  MatrixShape shape = {16, 64};
  std::vector<float> weights(16 * 64, 0.0f);
  for (const WeightFormat &format : {kInt8, kInt4, kInt2}) {
    std::vector<std::byte> matrix = pack(weights, shape, format, 16);
    for (uint32_t col = 0; col < 64; ++col)
      CHECK(valueAt(matrix, shape, format, 3, col) == 0);
  }
}

TEST_CASE("weights that are not finite, and scales beyond f16, are refused with their place") {
  PackedPanels packed;
  std::vector<float> weights(16 * 64, 0.5f);
  weights[3 * 64 + 40] = std::numeric_limits<float>::quiet_NaN();
  Status refused = packRows(weights, {16, 64}, kInt4, 0, packed);
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message() == "row 3, column 40 is nan, expected a finite number");
  weights[3 * 64 + 40] = 1e9f;
  CHECK(packRows(weights, {16, 64}, kInt8, 0, packed).message() ==
        "row 3, columns 32 to 63 need a scale or offset beyond 65504, the largest that is stored");
}
