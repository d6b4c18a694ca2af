// Packs f32 rows into the bytes of a stored matrix: kept as floats, or rounded to nearest on a grid
// (QuantizeNearest.h) and packed (PackGrid.h). Pure functions on a few rows at a time; the same
// input gives the same bytes on any machine.
#pragma once

#include "compiler/quantize/PackGrid.h"

#include "runtime/base/Status.h"
#include "runtime/format/WeightLayout.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Packs rows [firstRow, firstRow + rowCount) of a matrix, one PackedWeights per slice; rows holds
/// rowCount * shape.cols values. firstRow is a multiple of kPanelRows, and so is rowCount unless
/// the rows are the last ones. Refuses values that are not finite, and scales and floats beyond f16
/// if the format stores them as f16.
moert::Result<std::vector<PackedWeights>> packWeights(const moert::MatrixShape &shape,
                                                      std::span<const moert::WeightFormat> slices,
                                                      uint32_t firstRow, uint32_t rowCount,
                                                      std::span<const float> rows);

} // namespace moec
