#include "compiler/quantize/PackGrid.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/CodeLevels.h"

#include <algorithm>
#include <array>
#include <cassert>

using namespace moert;

namespace moec {

// The kinds of a width's slices, highest bits first; empty for an unsupported width.
static std::vector<WeightKind> kindsOf(uint32_t bits, bool hasLevels, bool nested) {
  constexpr WeightKind kWholes[] = {WeightKind::kInt2, WeightKind::kInt3, WeightKind::kInt4,
                                    WeightKind::kInt5, WeightKind::kInt6, WeightKind::kInt8,
                                    WeightKind::kNl2,  WeightKind::kNl3,  WeightKind::kNl4};
  for (WeightKind whole : kWholes) {
    if (bitsOf(whole) != bits || moert::hasLevels(whole) != hasLevels)
      continue;
    if (!nested)
      return {whole};
    if (bits == 4)
      return {hasLevels ? WeightKind::kNl2 : WeightKind::kInt2, WeightKind::kInt2};
    if (bits == 8)
      return {WeightKind::kInt2, WeightKind::kInt2, WeightKind::kInt4};
    const std::span<const WeightKind> planes = planesOf(whole);
    return {planes.begin(), planes.end()};
  }
  return {};
}

Result<std::vector<WeightFormat>> slicesOf(const Grid &grid, uint32_t activationGroup,
                                           bool nested) {
  std::vector<WeightKind> kinds = kindsOf(grid.bits, grid.hasLevels, nested);
  if (kinds.empty())
    return invalidInput("a grid of ", grid.bits, grid.hasLevels ? " bits with levels" : " bits",
                        ", expected 2, 3, 4", grid.hasLevels ? "" : ", 5, 6 or 8");
  // One scale per row allows any group that covers the row; a format needs a multiple.
  uint32_t group = grid.group;
  if (activationGroup != 0)
    group = uint32_t(std::min<uint64_t>(roundUp(uint64_t(group), activationGroup),
                                        UINT32_MAX / activationGroup * activationGroup));
  std::vector<WeightFormat> slices;
  for (WeightKind kind : kinds) {
    bool refines = !slices.empty();
    slices.push_back({kind, group, activationGroup, grid.hasOffsets && !refines, refines,
                      grid.hasByteScales && !refines, grid.hasHadamard});
  }
  MOERT_RETURN_IF_ERROR(checkMatrixSlices(slices));
  return slices;
}

Result<std::vector<ExpertFormat>> slicesOf(const ExpertGrid &grid, uint32_t activationGroup,
                                           bool nested) {
  MOERT_ASSIGN_OR_RETURN(std::vector<WeightFormat> gateUp,
                         slicesOf(grid.gateUp, activationGroup, nested));
  MOERT_ASSIGN_OR_RETURN(std::vector<WeightFormat> down,
                         slicesOf(grid.down, activationGroup, nested));
  const size_t count = std::max(gateUp.size(), down.size());
  for (std::vector<WeightFormat> *slices : {&gateUp, &down})
    slices->resize(count, {WeightKind::kInt0, slices->front().group, activationGroup, false, true,
                           false, slices->front().hasHadamard});
  std::vector<ExpertFormat> slices;
  for (size_t s = 0; s < count; ++s)
    slices.emplace_back(gateUp[s], down[s]);
  MOERT_RETURN_IF_ERROR(checkSliceFormats(slices));
  return slices;
}

Grid gridOf(std::span<const WeightFormat> slices) {
  const WeightFormat &first = slices.front();
  Grid grid = {0,
               first.group,
               first.hasOffsets,
               hasLevels(first.kind),
               first.hasByteScales,
               first.hasHadamard};
  for (const WeightFormat &slice : slices)
    grid.bits += bitsOf(slice.kind);
  return grid;
}

ExpertGrid gridOf(std::span<const ExpertFormat> slices) {
  std::vector<WeightFormat> gateUp, down;
  for (const ExpertFormat &slice : slices) {
    gateUp.push_back(slice.gateUp);
    down.push_back(slice.down);
  }
  return {gridOf(gateUp), gridOf(down)};
}

// Writes one plane's bits of a row's codes to output `lane` of a panel: units of 16 outputs x 4
// bytes, where a byte holds inputs that are 4 apart.
static void placePlane(std::span<const uint8_t> codes, WeightKind kind, uint32_t shift,
                       uint32_t lane, std::byte *panel) {
  const uint32_t bits = bitsOf(kind), mask = (1u << bits) - 1;
  const size_t perByte = 8 / bits, unitInputs = 4 * perByte;
  for (size_t unit = 0; unit < codes.size() / unitInputs; ++unit) {
    const uint8_t *in = codes.data() + unit * unitInputs;
    std::byte *out = panel + unit * kPanelRows * 4 + lane * 4;
    for (size_t byte = 0; byte < 4; ++byte) {
      uint32_t value = 0;
      for (uint32_t part = 0; part < perByte; ++part)
        value |= (uint32_t(in[byte + 4 * part]) >> shift & mask) << bitPlaceOf(kind, part);
      out[byte] = std::byte(value);
    }
  }
}

static void storeU16(std::vector<std::byte> &bytes, size_t index, uint16_t value) {
  bytes[index * 2] = std::byte(value & 0xff);
  bytes[index * 2 + 1] = std::byte(value >> 8);
}

// A table of [rows][groups] as [panel][group][16 outputs]; missing rows are 0.
static std::vector<std::byte> packTable(std::span<const uint16_t> table, uint32_t rows,
                                        uint32_t groups) {
  std::vector<std::byte> packed(roundUp(rows, kPanelRows) * groups * 2);
  for (size_t row = 0; row < rows; ++row)
    for (size_t group = 0; group < groups; ++group)
      storeU16(packed, (row / kPanelRows * groups + group) * kPanelRows + row % kPanelRows,
               table[row * groups + group]);
  return packed;
}

// The lower bytes of such a table.
static std::vector<std::byte> packByteScales(const GridMatrix &matrix, uint32_t groups) {
  std::vector<std::byte> packed(roundUp(matrix.shape.rows, kPanelRows) * groups);
  for (size_t row = 0; row < matrix.shape.rows; ++row)
    for (size_t group = 0; group < groups; ++group)
      packed[(row / kPanelRows * groups + group) * kPanelRows + row % kPanelRows] =
          std::byte(uint8_t(matrix.scales[row * groups + group]));
  return packed;
}

// What a grid is, for a message.
static std::string textOf(const Grid &grid) {
  return strCat(grid.bits, " bits in groups of ", grid.group,
                grid.hasOffsets ? " with offsets" : "", grid.hasLevels ? " with levels" : "",
                grid.hasByteScales ? " with byte scales" : "",
                grid.hasHadamard ? " with the Hadamard transform" : "");
}

static Status checkHolds(const GridMatrix &matrix, std::span<const WeightFormat> slices) {
  MOERT_RETURN_IF_ERROR(checkMatrixSlices(slices));
  // A group may extend beyond a row's end: a grid allows any number, a format needs a multiple.
  const auto covering = [&](Grid grid) {
    grid.group = std::min(grid.group, matrix.shape.cols);
    return grid;
  };
  if (const Grid grid = gridOf(slices); covering(grid) != covering(matrix.grid))
    return invalidInput("slices of ", textOf(grid), ", the grid is ", textOf(matrix.grid));
  return {};
}

namespace {

/// A plane of codes and where it is packed.
struct Plane {
  WeightKind kind;
  std::vector<std::byte> *codes;
};

} // namespace

static std::vector<Plane> planesIn(std::span<const WeightFormat> slices,
                                   std::vector<PackedWeights> &packed) {
  std::vector<Plane> all;
  for (size_t s = 0; s < slices.size(); ++s) {
    const std::span<const WeightKind> planes = planesOf(slices[s].kind);
    packed[s].lowPlanes.resize(planes.size() - 1);
    for (size_t p = 0; p < planes.size(); ++p)
      if (planes[p] != WeightKind::kInt0)
        all.push_back({planes[p], p == 0 ? &packed[s].codes : &packed[s].lowPlanes[p - 1]});
  }
  return all;
}

static void packCodes(const GridMatrix &matrix, const MatrixLayout &layout,
                      std::span<const Plane> planes) {
  const auto [rows, cols] = matrix.shape;
  const size_t paddedRows = size_t(layout.panels) * kPanelRows;
  for (const Plane &plane : planes)
    plane.codes->resize(paddedRows * layout.paddedCols * bitsOf(plane.kind) / 8);
  std::vector<uint8_t> codes(layout.paddedCols);
  for (size_t row = 0; row < paddedRows; ++row) {
    std::fill(codes.begin(), codes.end(), uint8_t(1u << (matrix.grid.bits - 1)));
    if (row < rows)
      std::copy_n(matrix.codes.begin() + ptrdiff_t(row * cols), cols, codes.begin());
    uint32_t shift = matrix.grid.bits;
    for (const Plane &plane : planes) {
      shift -= bitsOf(plane.kind);
      const size_t panelBytes = plane.codes->size() / layout.panels;
      placePlane(codes, plane.kind, shift, uint32_t(row % kPanelRows),
                 plane.codes->data() + row / kPanelRows * panelBytes);
    }
  }
}

Result<std::vector<PackedWeights>> packGrid(const GridMatrix &matrix,
                                            std::span<const WeightFormat> slices) {
  MOERT_RETURN_IF_ERROR(checkHolds(matrix, slices));
  const auto [rows, cols] = matrix.shape;
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(matrix.shape, slices.front()));
  assert(matrix.codes.size() == size_t(rows) * cols &&
         matrix.scales.size() == size_t(rows) * layout.groupsPerRow);
  std::vector<PackedWeights> packed(slices.size());
  packed[0].scales = matrix.grid.hasByteScales
                         ? packByteScales(matrix, layout.groupsPerRow)
                         : packTable(matrix.scales, rows, layout.groupsPerRow);
  if (matrix.grid.hasByteScales)
    packed[0].rowScales = packTable(matrix.rowScales, rows, 1);
  if (matrix.grid.hasOffsets)
    packed[0].offsets = packTable(matrix.offsets, rows, layout.groupsPerRow);
  packCodes(matrix, layout, planesIn(slices, packed));
  return packed;
}

} // namespace moec
