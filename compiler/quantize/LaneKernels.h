// The time-critical loops of the quantizers, for 16 rows of a matrix at once: one lane per row, so
// that nothing is summed across lanes and every version gives the same bits. Versions differ only
// in the instructions that they are compiled for.
//
// Values of 16 rows are stored as [column][16], 64-byte aligned: a panel of a float matrix.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include "runtime/exec/Kernels.h"

#include <cstddef>
#include <cstdint>

namespace moec {

constexpr uint32_t kLanes = 16;

/// One group of inputs of 16 rows.
struct LaneGroup {
  const float *values; // [count][16]
  uint32_t count;
  const float *importance; // [count], at least 0; null: all 1.
  Grid grid;
  const float *rowScales; // [16], of byte scales; otherwise null.
};

/// A run of columns of one group that are rounded in order.
struct LaneRounding {
  float *values; // [count][16]: rounded; feedback is added to later columns.
  uint32_t count;
  Grid grid;
  const float *scales, *offsets; // [16]
  uint8_t *codes;                // [count][16], out.
  // Error feedback; all null if it is not used.
  const float *weights;  // [count][16]: the matrix itself.
  float *differences;    // [count][16], out: weight - its value on the grid.
  const float *feedback; // values[k] += feedback[k * feedbackStride + j] * differences[j], k > j.
  uint64_t feedbackStride;
};

/// A run of columns of one group that are rounded again, with all other columns unchanged. H are
/// the second moments of the inputs, d the differences: the squared error is d H d.
struct LaneRefinement {
  const float *weights; // [count][16]: the matrix itself.
  float *differences;   // [count][16]: weight - its value on the grid, in and out.
  float *gradient;      // [count][16]: H d, summed over all inputs; overwritten.
  uint32_t count;       // At most kRefinedColumns.
  Grid grid;
  const float *rowScales; // [16], of byte scales; otherwise null.
  float *scales;          // [16]: in, and out with fitsScales.
  const float *offsets;
  uint8_t *codes;       // [count][16], in and out.
  const float *moments; // H of columns j and k of the run: moments[j * momentsStride + k].
  uint64_t momentsStride;
  bool fitsScales; // The run is a whole group: its scales are fitted first.
};
constexpr uint32_t kRefinedColumns = 64;

struct LaneKernels {
  /// scales and offsets [16] are a start on entry and the best found on return: the least sum of
  /// importance * (value - value on the grid)^2, all representable in f16, or as bytes. Never worse
  /// than the start.
  void (*searchScales)(const LaneGroup &group, float *scales, float *offsets);

  /// Codes, ascending in columns: rne((value - offset) / scale) within the grid's range; a scale of
  /// 0 gives the code of 0.
  void (*round)(const LaneRounding &rounding);

  /// With fitsScales first the scale of the least error for these codes, rounded to f16 or to a
  /// byte. Then each column in ascending order gets the code of the least error. No step raises the
  /// error, except by rounding in f32.
  void (*refine)(const LaneRefinement &refinement);

  /// row[i] -= sum over t of factors[t] * others[t * othersStride + i] for i < count; t ascending,
  /// products and differences rounded one by one.
  void (*subtractProducts)(double *row, uint64_t count, const double *factors, uint32_t terms,
                           const double *others, uint64_t othersStride);
};

/// The version for an instruction set that the processor has.
const LaneKernels &laneKernelsFor(moert::Isa isa);

/// The default instruction set of the quantizers.
moert::Isa bestIsa();

} // namespace moec
