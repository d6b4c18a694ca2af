// Products with matrices in bit planes: all planes against the same codes in one slice, every
// version against the reference, the reference against float64.
#include "tests/unit/kernels/TestMatrices.h"

#include <cmath>
#include <map>

using namespace moert;
using namespace moert::test;

namespace {

using Kinds = std::vector<WeightKind>;
constexpr WeightKind k1 = WeightKind::kInt1, k2 = WeightKind::kInt2, k4 = WeightKind::kInt4,
                     k8 = WeightKind::kInt8, kNl2 = WeightKind::kNl2, kNl4 = WeightKind::kNl4;

const std::vector<Kinds> &allPlanes() {
  static const std::vector<Kinds> kAll = {{k2},         {k2, k1},     {k2, k2}, {k2, k2, k1},
                                          {k2, k2, k2}, {k2, k2, k4}, {kNl2},   {kNl2, k1},
                                          {kNl2, k2},   {kNl4}};
  return kAll;
}

uint32_t bitsOfAll(const Kinds &planes) {
  uint32_t bits = 0;
  for (WeightKind kind : planes)
    bits += bitsOf(kind);
  return bits;
}

// What a code stands for in steps of the scale, if its `missing` low bits are not read; by
// docs/format.md alone.
double stepsOf(const Kinds &planes, uint32_t code, uint32_t missing) {
  const uint32_t bits = bitsOfAll(planes);
  const uint32_t first = code >> missing << missing, covered = 1u << missing;
  if (!hasLevels(planes[0]))
    return first + (covered - 1) / 2.0 - (1 << (bits - 1));
  static const std::map<uint32_t, std::vector<int>> kLevels = {
      {2, {-31, -10, 5, 22}},
      {3, {-31, -18, -10, -4, 2, 9, 16, 25}},
      {4, {-31, -23, -18, -14, -10, -7, -4, -1, 1, 4, 7, 10, 13, 17, 22, 27}}};
  double sum = 0;
  for (uint32_t i = 0; i < covered; ++i)
    sum += kLevels.at(bits)[first + i];
  return std::floor(sum / covered + 0.5);
}

/// A matrix on a grid. Codes are [rows][paddedCols]; the tables are those of `base`.
struct Grid {
  Kinds planes;
  LogicalMatrix base; // The first plane.
  std::vector<uint32_t> codes;

  uint32_t bits() const { return bitsOfAll(planes); }
  uint32_t code(uint32_t row, uint32_t col) const {
    return codes[size_t(row) * base.layout.paddedCols + col];
  }
};

Grid randomGrid(Random &random, const Kinds &planes, MatrixShape shape, uint32_t group,
                uint32_t activationGroup, bool hasOffsets, bool hasByteScales = false) {
  const WeightFormat format = {planes[0], group, activationGroup, hasOffsets, false, hasByteScales};
  Grid grid = {planes, randomMatrix(random, shape, format), {}};
  for (uint32_t row = 0; row < shape.rows; ++row)
    for (uint32_t col = 0; col < grid.base.layout.paddedCols; ++col)
      grid.codes.push_back(col < shape.cols ? random.below(1u << grid.bits())
                                            : 1u << (grid.bits() - 1));
  return grid;
}

// Bits [low, low + bits of the kind) of the codes, as a matrix of that kind.
LogicalMatrix planeOf(const Grid &grid, WeightKind kind, uint32_t low, bool refines) {
  LogicalMatrix plane = grid.base;
  plane.format.kind = kind;
  plane.format.refines = refines;
  plane.format.hasOffsets = grid.base.format.hasOffsets && !refines;
  plane.format.hasByteScales = grid.base.format.hasByteScales && !refines;
  plane.layout = layoutOf(plane.shape, plane.format).value();
  uint32_t mask = (1u << bitsOf(kind)) - 1;
  for (size_t i = 0; i < grid.codes.size(); ++i)
    plane.quants[i] = static_cast<int>(grid.codes[i] >> low & mask) - (1 << (bitsOf(kind) - 1));
  return plane;
}

/// The first `count` planes, with a gap after each, like the slices of a record.
PagedMatrix storePlanes(const Grid &grid, uint32_t count, uint32_t pageShift, uint64_t offset,
                        Random &random) {
  uint32_t low = grid.bits() - bitsOf(grid.planes[0]);
  LogicalMatrix first = planeOf(grid, grid.planes[0], low, false);
  std::vector<std::byte> bytes = packed(first);
  WeightView view = {first.shape, first.format, first.layout, {}};
  for (uint32_t p = 1; p < count; ++p) {
    low -= bitsOf(grid.planes[p]);
    bytes.resize(roundUp(bytes.size(), kRegionAlignment) + random.below(5) * kRegionAlignment);
    view.planes[view.planeCount++] = {grid.planes[p], bytes.size()};
    std::vector<std::byte> plane = packed(planeOf(grid, grid.planes[p], low, true));
    bytes.insert(bytes.end(), plane.begin(), plane.end());
  }
  view.missingBits = low;
  return PagedMatrix(view, bytes, pageShift, offset, random);
}

QuantizedBatch randomBatch(Random &random, uint32_t rows, const Grid &grid) {
  FloatRows x(rows, grid.base.shape.cols);
  x.fill(random, -3, 3);
  QuantizedBatch batch(rows, grid.base.layout.paddedCols, grid.base.format.activationGroup);
  referenceKernels().quantizeRows(x.data(), x.stride(), rows, grid.base.shape.cols, batch.view());
  return batch;
}

FloatRows multiply(const KernelTable &kernels, const WeightView &w, QuantizedBatch &batch,
                   uint32_t rows) {
  FloatRows y(rows, w.shape.rows);
  kernels.linearQuantized(w, batch.view(), rows, y.data(), y.stride(), 0, w.layout.panels);
  CHECK(y.isGuardIntact());
  return y;
}

/// Calls check with grids for every list of planes, group and shape, and the page size to use.
void forEachGrid(Random &random, const std::function<void(const Grid &, uint32_t)> &check) {
  constexpr MatrixShape kShapes[] = {{1, 32}, {16, 64}, {33, 200}, {70, 515}};
  uint32_t count = 0;
  for (const Kinds &planes : allPlanes())
    for (uint32_t activationGroup : {16u, 32u, 64u})
      for (uint32_t ratio : {1u, 3u})
        for (const auto &extras : {std::pair{false, false}, {true, false}, {false, true}})
          for (const MatrixShape &shape : kShapes) {
            const bool hasOffsets = extras.first, hasByteScales = extras.second;
            if ((planes.back() == k1 && activationGroup == 16) ||
                (hasLevels(planes[0]) && (hasOffsets || activationGroup != 32)))
              continue;
            CAPTURE(hasByteScales);
            CAPTURE(bitsOfAll(planes));
            CAPTURE(activationGroup);
            CAPTURE(shape.rows);
            check(randomGrid(random, planes, shape, ratio * activationGroup, activationGroup,
                             hasOffsets, hasByteScales),
                  12 + count++ % 5);
          }
}

} // namespace

TEST_CASE("any number of planes gives the reference's bytes") {
  Random random(21);
  forEachGrid(random, [&](const Grid &grid, uint32_t pageShift) {
    uint32_t rows = 1 + random.below(9);
    QuantizedBatch batch = randomBatch(random, rows, grid);
    for (uint32_t count = 1; count <= grid.planes.size(); ++count) {
      CAPTURE(count);
      PagedMatrix stored =
          storePlanes(grid, count, pageShift, random.below(64) * kRegionAlignment, random);
      FloatRows expected = multiply(referenceKernels(), stored.view(), batch, rows);
      forEachVersion([&](const KernelTable &kernels) {
        CHECK(multiply(kernels, stored.view(), batch, rows).isSameAs(expected));
      });
    }
  });
}

TEST_CASE("all planes give the bytes of the same codes in one slice") {
  Random random(22);
  for (auto [planes, kind] : {std::pair<Kinds, WeightKind>{{k2, k2}, k4}, {{k2, k2, k4}, k8}})
    for (bool hasOffsets : {false, true}) {
      Grid grid = randomGrid(random, planes, {37, 330}, 64, 32, hasOffsets);
      PagedMatrix nested = storePlanes(grid, uint32_t(planes.size()), 12, 0, random);
      LogicalMatrix single = planeOf(grid, kind, 0, false);
      PagedMatrix whole(single, 12, 0, random);
      QuantizedBatch batch = randomBatch(random, 11, grid);
      FloatRows expected = multiply(referenceKernels(), whole.view(), batch, 11);
      CHECK(multiply(referenceKernels(), nested.view(), batch, 11).isSameAs(expected));
      forEachVersion([&](const KernelTable &kernels) {
        CHECK(multiply(kernels, nested.view(), batch, 11).isSameAs(expected));
      });
    }
}

TEST_CASE("planes give the same bytes for a single row and in any batch") {
  Random random(23);
  constexpr uint32_t kRows = 17, kOutputs = 48;
  for (const Kinds &planes : allPlanes()) {
    Grid grid = randomGrid(random, planes, {kOutputs, 320}, 32, 32, false);
    PagedMatrix stored = storePlanes(grid, uint32_t(planes.size()), 12, 1024, random);
    QuantizedBatch batch = randomBatch(random, kRows, grid);
    FloatRows alone = multiply(referenceKernels(), stored.view(), batch, kRows);
    forEachVersion([&](const KernelTable &kernels) {
      for (uint32_t rows = 1; rows <= kRows; ++rows) {
        FloatRows together = multiply(kernels, stored.view(), batch, rows);
        for (uint32_t row = 0; row < rows; ++row)
          CHECK(std::memcmp(&together.at(row, 0), &alone.at(row, 0), kOutputs * sizeof(float)) ==
                0);
      }
    });
  }
}

TEST_CASE("planes are exact at the ends of every width, for any number of planes read") {
  // All codes 0 or all ones, activations all 127 or all -127, scales 1: as many inputs as a group
  // may have.
  Random random(24);
  for (const Kinds &planes : allPlanes())
    for (bool isLargest : {false, true})
      for (int sign : {-1, 1})
        for (uint32_t count = 1; count <= planes.size(); ++count) {
          const uint32_t inputs = hasLevels(planes[0]) ? 32 : 64;
          Grid grid = randomGrid(random, planes, {16, inputs}, inputs, inputs, false);
          uint32_t code = isLargest ? (1u << grid.bits()) - 1 : 0;
          grid.codes.assign(grid.codes.size(), code);
          grid.base.scales.assign(grid.base.scales.size(), 1.0f);
          PagedMatrix stored = storePlanes(grid, count, 12, 0, random);
          QuantizedBatch batch(1, inputs, inputs);
          for (uint32_t i = 0; i < inputs; ++i)
            batch.codes.at(0, i) = static_cast<int8_t>(sign * 127);
          batch.scales.at(0, 0) = 1;
          batch.sums.at(0, 0) = sign * 127 * static_cast<int32_t>(inputs);
          uint32_t missing = stored.view().missingBits;
          auto expected = static_cast<float>(stepsOf(planes, code, missing) * inputs * sign * 127);
          auto check = [&](const KernelTable &kernels) {
            FloatRows y = multiply(kernels, stored.view(), batch, 1);
            for (uint32_t i = 0; i < 16; ++i)
              CHECK(y.at(0, i) == expected);
          };
          check(referenceKernels());
          forEachVersion(check);
        }
}

TEST_CASE("the reference of planes is within float rounding of float64") {
  // As in LinearQuantizedTest: three roundings of 2^-24 a group.
  Random random(25);
  forEachGrid(random, [&](const Grid &grid, uint32_t pageShift) {
    QuantizedBatch batch = randomBatch(random, 1, grid);
    const auto [outputs, cols] = grid.base.shape;
    for (uint32_t count = 1; count <= grid.planes.size(); ++count) {
      PagedMatrix stored = storePlanes(grid, count, pageShift, 0, random);
      uint32_t missing = stored.view().missingBits;
      FloatRows y = multiply(referenceKernels(), stored.view(), batch, 1);
      for (uint32_t output = 0; output < outputs; ++output) {
        double exact = 0, magnitude = 0;
        for (uint32_t i = 0; i < cols; ++i) {
          double x = double(batch.codes.at(0, i)) *
                     batch.scales.at(0, i / grid.base.format.activationGroup);
          double q = stepsOf(grid.planes, grid.code(output, i), missing);
          double scale = grid.base.scale(output, i), offset = grid.base.offset(output, i);
          exact += (scale * q + offset) * x;
          magnitude += (std::fabs(scale * q) + std::fabs(offset)) * std::fabs(x);
        }
        double groups = 2.0 * grid.base.layout.paddedCols / grid.base.format.activationGroup;
        CHECK(std::fabs(y.at(0, output) - exact) <= 3 * groups * 0x1p-24 * magnitude);
      }
    }
  });
}
