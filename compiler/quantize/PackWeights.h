// Packs rows into the bytes of a stored matrix: f32 rows kept as floats, or rounded to nearest on a
// grid (QuantizeNearest.h) and packed (PackGrid.h); rows of MXFP4 without a change. Pure functions
// on a few rows at a time; the same input gives the same bytes on any machine.
#pragma once

#include "compiler/quantize/PackGrid.h"

#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Packs rows [firstRow, firstRow + rowCount) of a matrix, one PackedWeights per slice; rows holds
/// rowCount * shape.cols values. firstRow is a multiple of kPanelRows, and so is rowCount unless
/// the rows are the last ones. Refuses values that are not finite, scales and floats beyond f16 if
/// the format stores them as f16, and slices of kept kinds, which f32 rows are not rounded to.
moert::Result<std::vector<PackedWeights>> packWeights(const moert::MatrixShape &shape,
                                                      std::span<const moert::WeightFormat> slices,
                                                      uint32_t firstRow, uint32_t rowCount,
                                                      std::span<const float> rows);

/// The same for some panels of a matrix of a kept kind, which are `shape`. A row is its blocks, or,
/// of MXFP4, cols / 2 bytes of codes, two a byte, low half first, followed by cols / 32 scales.
moert::Result<PackedWeights> packKept(const moert::MatrixShape &shape, moert::WeightKind kind,
                                      std::span<const std::byte> rows);

} // namespace moec
