// A grid's codes and tables can be recovered from its slices, for any slices.
#include "compiler/quantize/PackGrid.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/CodeLevels.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>

using namespace moec;
using namespace moert;

static GridMatrix randomGrid(const MatrixShape &shape, const Grid &grid) {
  std::mt19937 random(shape.rows * 1000 + grid.bits);
  GridMatrix matrix = {shape, grid, {}, {}, {}};
  for (size_t i = 0; i < size_t(shape.rows) * shape.cols; ++i)
    matrix.codes.push_back(uint8_t(random() % (1u << grid.bits)));
  for (size_t i = 0; i < size_t(shape.rows) * matrix.groupsPerRow(); ++i) {
    matrix.scales.push_back(grid.hasByteScales ? uint16_t(int16_t(int(random() % 255) - 127))
                                               : uint16_t(random()));
    if (grid.hasOffsets)
      matrix.offsets.push_back(uint16_t(random()));
  }
  for (uint32_t row = 0; row < shape.rows && grid.hasByteScales; ++row)
    matrix.rowScales.push_back(uint16_t(random()));
  return matrix;
}

// One plane's bits of an element, from docs/format.md's table alone.
static uint32_t planeBits(WeightKind kind, const std::vector<std::byte> &codes, uint32_t paddedCols,
                          uint32_t row, uint32_t col) {
  const uint32_t bits = bitsOf(kind), unitInputs = 32 / bits;
  size_t at = size_t(row / 16) * paddedCols * 16 * bits / 8 + col / unitInputs * 64 + row % 16 * 4 +
              col % 4;
  const uint32_t part = col % unitInputs / 4;
  constexpr uint32_t kInt1Places[] = {0, 1, 4, 5, 2, 3, 6, 7};
  const uint32_t place = bits == 1 ? kInt1Places[part] : part * bits;
  return uint32_t(codes.at(at)) >> place & ((1u << bits) - 1);
}

static uint32_t codeOf(std::span<const WeightFormat> slices,
                       const std::vector<PackedWeights> &packed, uint32_t paddedCols, uint32_t row,
                       uint32_t col) {
  uint32_t code = 0;
  for (size_t s = 0; s < slices.size(); ++s) {
    const auto planes = planesOf(slices[s].kind);
    for (size_t p = 0; p < planes.size(); ++p)
      code = code << bitsOf(planes[p]) |
             planeBits(planes[p], p == 0 ? packed[s].codes : packed[s].lowPlanes.at(p - 1),
                       paddedCols, row, col);
  }
  return code;
}

static void checkPacked(const GridMatrix &matrix, std::span<const WeightFormat> slices) {
  auto packed = packGrid(matrix, slices);
  REQUIRE_MESSAGE(packed.isOk(), packed.status().message());
  REQUIRE(packed->size() == slices.size());
  const auto [rows, cols] = matrix.shape;
  auto paddedCols = uint32_t(roundUp(cols, slices[0].activationGroup));
  const uint32_t groups = matrix.groupsPerRow();
  bool isSame = true;
  for (uint32_t row = 0; row < roundUp(rows, 16); ++row) {
    for (uint32_t col = 0; col < paddedCols; ++col) {
      uint32_t expected = row < rows && col < cols ? matrix.codes[size_t(row) * cols + col]
                                                   : 1u << (matrix.grid.bits - 1);
      isSame = isSame && codeOf(slices, *packed, paddedCols, row, col) == expected;
    }
    auto isAt = [](const std::vector<std::byte> &table, size_t at, uint16_t value) {
      return uint32_t(table.at(2 * at)) == (value & 255u) &&
             uint32_t(table.at(2 * at + 1)) == value >> 8;
    };
    if (row < rows && matrix.grid.hasByteScales)
      isSame = isSame && isAt((*packed)[0].rowScales, row, matrix.rowScales[row]);
    for (uint32_t group = 0; row < rows && group < groups; ++group) {
      size_t at = (size_t(row / 16) * groups + group) * 16 + row % 16;
      size_t index = size_t(row) * groups + group;
      if (matrix.grid.hasByteScales)
        isSame = isSame && uint32_t((*packed)[0].scales.at(at)) == (matrix.scales[index] & 255u);
      else
        isSame = isSame && isAt((*packed)[0].scales, at, matrix.scales[index]);
      if (matrix.grid.hasOffsets)
        isSame = isSame && isAt((*packed)[0].offsets, at, matrix.offsets[index]);
    }
  }
  CHECK(isSame);
}

TEST_CASE("every code can be recovered from its slices, and padding is 0") {
  for (bool hasLevels : {false, true})
    for (uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u})
      for (bool nested : {false, true})
        for (MatrixShape shape : {MatrixShape{16, 64}, {37, 50}, {1, 1}}) {
          CAPTURE(bits);
          CAPTURE(nested);
          if (hasLevels && bits > kMaxLevelBits)
            continue;
          const bool hasOffsets = bits < 4 && !hasLevels;
          Grid grid = {bits, 32, hasOffsets, hasLevels, !hasOffsets && nested};
          auto slices = slicesOf(grid, 32, nested);
          REQUIRE_MESSAGE(slices.isOk(), slices.status().message());
          CHECK(gridOf(*slices) == grid);
          checkPacked(randomGrid(shape, grid), *slices);
        }
}

TEST_CASE("a matrix of fewer slices than another has nothing in the last ones") {
  const Grid four = {4, 32, false}, six = {6, 32, false};
  for (bool nested : {false, true}) {
    auto slices = slicesOf(ExpertGrid(four, six), 32, nested);
    REQUIRE_MESSAGE(slices.isOk(), slices.status().message());
    REQUIRE(slices->size() == (nested ? 3 : 1));
    CHECK(gridOf(*slices) == ExpertGrid(four, six));
    CHECK(slices->back().gateUp.kind == (nested ? WeightKind::kInt0 : WeightKind::kInt4));
    CHECK(slices->back().down.kind == (nested ? WeightKind::kInt2 : WeightKind::kInt6));
    std::vector<WeightFormat> gateUp;
    for (const ExpertFormat &slice : *slices)
      gateUp.push_back(slice.gateUp);
    const GridMatrix matrix = randomGrid({37, 50}, four);
    auto packed = packGrid(matrix, gateUp), alone = packGrid(matrix, *slicesOf(four, 32, nested));
    REQUIRE(packed.isOk());
    REQUIRE(alone.isOk());
    for (size_t s = 0; s < packed->size(); ++s)
      CHECK((*packed)[s].codes ==
            (s < alone->size() ? (*alone)[s].codes : std::vector<std::byte>()));
  }
}

TEST_CASE("refining slices have codes only") {
  Grid grid = {8, 32, true};
  auto slices = slicesOf(grid, 32, true);
  REQUIRE(slices.isOk());
  auto packed = packGrid(randomGrid({16, 64}, grid), *slices);
  REQUIRE(packed.isOk());
  REQUIRE(packed->size() == 3);
  CHECK(!(*packed)[0].scales.empty());
  CHECK(!(*packed)[0].offsets.empty());
  for (size_t s = 1; s < 3; ++s) {
    CHECK((*packed)[s].scales.empty());
    CHECK((*packed)[s].offsets.empty());
    CHECK(!(*packed)[s].codes.empty());
  }
}

TEST_CASE("a group of a whole row need not be a multiple of the activation group") {
  Grid grid = {4, 50, false};
  auto slices = slicesOf(grid, 32, true);
  REQUIRE(slices.isOk());
  checkPacked(randomGrid({17, 50}, grid), *slices);
}

TEST_CASE("unsupported widths are refused") {
  for (uint32_t bits : {0u, 1u, 7u, 9u})
    CHECK(!slicesOf(Grid{bits, 32, false}, 32, true).isOk());
  for (uint32_t bits : {5u, 6u, 8u})
    CHECK(!slicesOf(Grid{bits, 32, false, true}, 32, true).isOk());
  CHECK(!slicesOf(Grid{4, 32, true, true}, 32, true).isOk());        // Offsets and levels.
  CHECK(!slicesOf(Grid{4, 32, true, false, true}, 32, true).isOk()); // Offsets and byte scales.
  CHECK(
      !slicesOf(Grid{4, 64, false, true}, 64, true).isOk()); // Levels have activation groups of 32.
  // A unit of one bit holds 32 inputs.
  for (uint32_t bits : {3u, 5u}) {
    CHECK(slicesOf(Grid{bits, 32, false}, 32, true).isOk());
    CHECK(!slicesOf(Grid{bits, 32, false}, 16, true).isOk());
  }
}

TEST_CASE("slices that hold another grid are refused, and the message names both") {
  struct Case {
    Grid grid;
    std::string name;
  };
  const Case mine = {{4, 32}, "4 bits in groups of 32"};
  for (const Case &other :
       {Case{{2, 32}, "2 bits in groups of 32"},
        {{4, 64}, "4 bits in groups of 64"},
        {{4, 32, true}, "4 bits in groups of 32 with offsets"},
        {{4, 32, false, true}, "4 bits in groups of 32 with levels"},
        {{4, 32, false, false, true}, "4 bits in groups of 32 with byte scales"},
        {{4, 32, false, false, false, true}, "4 bits in groups of 32 with the Hadamard transform"}})
    for (const auto &[stored, found] : {std::pair(mine, other), std::pair(other, mine)}) {
      const auto slices = slicesOf(stored.grid, 32, true);
      REQUIRE(slices.isOk());
      const auto packed = packGrid(randomGrid({16, 64}, found.grid), *slices);
      REQUIRE(!packed.isOk());
      CHECK(packed.status().code() == StatusCode::kInvalidInput);
      CHECK(packed.status().message() ==
            "slices of " + stored.name + ", the grid is " + found.name);
    }
}
