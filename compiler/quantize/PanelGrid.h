// Conversion between the quantizers' panels of 16 rows and a GridMatrix.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include <cstdint>
#include <span>

namespace moec {

/// The row scales [16] of byte scales, of the rows from firstRow on; 0 for rows that the matrix
/// does not have. Returns them, or null without byte scales.
const float *loadRowScales(const GridMatrix &matrix, uint32_t firstRow, float *rowScales);

/// Scales and offsets of rounding to nearest for a group of 16 rows, [count][16]; infinite scales
/// become the largest f16. With byte scales, multiples of rowScales, which are null without.
void nearestScales(const float *values, uint32_t count, const Grid &grid, const float *rowScales,
                   float *scales, float *offsets);

/// Scales and offsets [16] of one group of the rows from firstRow on.
void storeScales(GridMatrix &matrix, uint32_t firstRow, uint32_t group, const float *scales,
                 const float *offsets);

/// The opposite of storeScales; 0 for rows that the matrix does not have.
void loadScales(const GridMatrix &matrix, uint32_t firstRow, uint32_t group, float *scales,
                float *offsets);

/// Codes [count][16] of columns from firstCol on.
void storeCodes(GridMatrix &matrix, uint32_t firstRow, uint32_t firstCol, uint32_t count,
                const uint8_t *codes);

} // namespace moec
