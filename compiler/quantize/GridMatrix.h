// The output of every quantizer: a matrix as integer codes on a grid, before it is laid out for the
// kernels. w = scale * q + offset, scale and offset per row and group of inputs; q is code -
// 2^(bits-1), or with levels the level of the code.
#pragma once

#include "runtime/format/WeightLayout.h"

#include <cstdint>
#include <vector>

namespace moec {

/// The resolution of a stored matrix.
struct Grid {
  uint32_t bits = 0;  // 2 to 8.
  uint32_t group = 0; // Inputs that share a scale: a multiple of the activation group, or at least
                      // all inputs of a row: then there is one scale per row.
  bool hasOffsets = false;
  bool hasLevels =
      false; // Non-linear codes (runtime/format/CodeLevels.h): 2 to 4 bits, no offsets.
  bool hasByteScales = false; // Scales are multiples of one of the row, -127 to 127; no offsets.
  bool hasHadamard = false;   // Rows are transformed (runtime/exec/Hadamard.h).
  friend bool operator==(const Grid &, const Grid &) = default;
};

/// The grids of an expert's matrices. A wider down can take fewer bytes at an equal loss
/// (docs/measurements/quantizers.md).
struct ExpertGrid {
  Grid gateUp, down;

  ExpertGrid() = default;
  ExpertGrid(const Grid &all) : gateUp(all), down(all) {}
  ExpertGrid(const Grid &gateAndUp, const Grid &ofDown) : gateUp(gateAndUp), down(ofDown) {}

  friend bool operator==(const ExpertGrid &, const ExpertGrid &) = default;
};

/// Rows of a matrix on a grid. Codes are offset binary, one a byte, [rows][cols]; scales and
/// offsets are f16 bits, [rows][groups], and byte scales int16_t as uint16_t. 8 bits without
/// offsets use codes 1 to 255.
struct GridMatrix {
  moert::MatrixShape shape;
  Grid grid;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> offsets;        // Empty without offsets.
  std::vector<uint16_t> rowScales = {}; // bf16 bits, [rows]; empty without byte scales.

  /// Groups along the inputs of a row; the last one may have fewer inputs.
  uint32_t groupsPerRow() const { return (shape.cols + grid.group - 1) / grid.group; }
  friend bool operator==(const GridMatrix &, const GridMatrix &) = default;
};

} // namespace moec
