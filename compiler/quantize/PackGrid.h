// Packs a matrix on a grid into the bytes of its slices (runtime/format/WeightLayout.h): one slice,
// or several that refine one another. Independent of how the codes were chosen.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// The bytes of some panels (or, in row layout, rows): a contiguous run of each of the parts of a
/// stored matrix.
struct PackedWeights {
  std::vector<std::byte> codes;                       // The first plane's.
  std::vector<std::vector<std::byte>> lowPlanes = {}; // The other planes' of the slice's kind.
  std::vector<std::byte> scales;                      // Empty for float kinds and refining slices.
  std::vector<std::byte> offsets;                     // Empty without offsets.
  std::vector<std::byte> rowScales;                   // Empty without byte scales.
};

/// The slices that store a matrix on a grid: one, or, nested, slices of 2; 2 and 1; 2 and 2; 2, 2
/// and 1; 2, 2 and 2; 2, 2 and 4 bits. Refuses other widths, and groups that the layout does not
/// support.
moert::Result<std::vector<moert::WeightFormat>> slicesOf(const Grid &grid, uint32_t activationGroup,
                                                         bool nested);

/// The slices that store an expert. A matrix of fewer slices than another has nothing in the last
/// ones.
moert::Result<std::vector<moert::ExpertFormat>> slicesOf(const ExpertGrid &grid,
                                                         uint32_t activationGroup, bool nested);

/// The grid that slices form together; they are quantized and there is at least one.
Grid gridOf(std::span<const moert::WeightFormat> slices);
ExpertGrid gridOf(std::span<const moert::ExpertFormat> slices);

/// One PackedWeights per slice. The matrix may be some panels of a larger one. Refuses slices that
/// do not form this grid.
moert::Result<std::vector<PackedWeights>> packGrid(const GridMatrix &matrix,
                                                   std::span<const moert::WeightFormat> slices);

} // namespace moec
