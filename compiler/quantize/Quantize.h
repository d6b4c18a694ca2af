// The quantizers: f32 rows to codes and scales, each a pure function whose result does not depend
// on the machine. QuantizeNearest.h is the simplest; these also use the distribution of the values
// or of the inputs that they are multiplied with.
//
// All refuse what quantizeNearest refuses: values that are not finite, scales beyond f16. `isa`
// selects the instruction set and does not affect the result.
#pragma once

#include "compiler/quantize/Feedback.h"
#include "compiler/quantize/GridMatrix.h"
#include "compiler/quantize/LaneKernels.h"

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace moec {

/// Per-channel linear quantization of EdgeMoE (Yi et al., arXiv 2308.14352, section 4.1): one scale
/// per row, its largest magnitude over 2^(bits-1) - 1, so that codes are symmetric; at 2 bits they
/// are -1, 0 and 1. The grid is {bits, cols, false}.
moert::Result<GridMatrix> quantizePerChannel(const moert::MatrixShape &shape, uint32_t bits,
                                             std::span<const float> rows);

/// Rounds to nearest with the scales (and offsets) of the least sum of importance * (w - v)^2 in
/// each row and group, found by trying a range of clippings, each refined by least squares. With
/// importance[i] = E[x_i^2] this is the error of the output if inputs are independent
/// (ggml-org/llama.cpp calls it the importance matrix). Empty: all inputs have equal importance.
moert::Result<GridMatrix> quantizeClipped(const moert::MatrixShape &shape, const Grid &grid,
                                          std::span<const float> rows,
                                          std::span<const float> importance,
                                          moert::Isa isa = bestIsa());

/// Half-quadratic quantization (Badri and Shaji, Half-Quadratic Quantization of Large Machine
/// Learning Models, 2023; github.com/mobiusml/hqq): the scale of rounding to nearest, and the
/// offset that makes the sum of |w - v|^p small, p = 0.7. It alternates between the errors treated
/// as outliers (a shrinkage, which p < 1 makes steep) and the best offset for the rest. The grid
/// has offsets.
moert::Result<GridMatrix> quantizeHqq(const moert::MatrixShape &shape, const Grid &grid,
                                      std::span<const float> rows);

/// The source of quantizeGptq's scales, group by group, after the error of the groups before has
/// been fed back.
enum class ScaleChoice : uint8_t {
  kNearest,  // The scales of rounding to nearest.
  kSearched, // The search of quantizeClipped, weighted by feedback's pivots.
};

/// GPTQ (Frantar et al., arXiv 2210.17323), in the form of Feedback.h: columns are rounded in
/// order, each after the errors of earlier columns were fed back to it.
///
/// Each of `refinements` passes then lowers the error of the outputs further by coordinate descent,
/// with later columns' errors fed back to earlier ones too: group after group, first the scale of
/// the least error for the group's codes (with kSearched; offsets stay), then its columns one by
/// one. (QuantEase, Behdin et al., arXiv 2309.01885, has such passes, without the scales.)
moert::Result<GridMatrix> quantizeGptq(const moert::MatrixShape &shape, const Grid &grid,
                                       std::span<const float> rows, const Feedback &feedback,
                                       ScaleChoice scales, uint32_t refinements,
                                       moert::Isa isa = bestIsa());

/// The values of a matrix on a grid: f32(scale * q) + offset, row by row, of transformed rows where
/// the grid has those. out.size() == rows * cols.
void dequantize(const GridMatrix &matrix, std::span<float> out);

} // namespace moec
