// The quantizers: f32 rows to codes and scales, each a plain function whose result does not depend
// on the machine. QuantizeNearest.h is the plainest; these know more, either of the values alone or
// of the inputs that they will be multiplied with.
//
// All refuse what quantizeNearest refuses: values that are not finite, scales beyond f16. `isa` is
// the instruction set that computes, never what is computed.
#pragma once

#include "compiler/quantize/Feedback.h"
#include "compiler/quantize/GridMatrix.h"
#include "compiler/quantize/LaneKernels.h"

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace moec {

/// Per-channel linear quantization, as EdgeMoE has it (Yi et al., arXiv 2308.14352, section 4.1):
/// one scale per row, its largest magnitude over 2^(bits-1) - 1, so that codes run evenly to both
/// sides; at 2 bits they are -1, 0 and 1. The grid is {bits, cols, false}.
moert::Result<GridMatrix> quantizePerChannel(const moert::MatrixShape &shape, uint32_t bits,
                                             std::span<const float> rows);

/// Round to nearest with the scales (and offsets) of the least sum of importance * (w - v)^2 in
/// each row and group, found by trying a range of clippings, each refined by least squares. With
/// importance[i] = E[x_i^2] that is the error of the output for inputs that are independent of one
/// another (ggml-org/llama.cpp calls it the importance matrix). Empty: all inputs alike.
moert::Result<GridMatrix> quantizeClipped(const moert::MatrixShape &shape, const Grid &grid,
                                          std::span<const float> rows,
                                          std::span<const float> importance,
                                          moert::Isa isa = bestIsa());

/// Half-quadratic quantization (Badri and Shaji, Half-Quadratic Quantization of Large Machine
/// Learning Models, 2023; github.com/mobiusml/hqq): the scale of rounding to nearest, and the
/// offset that makes the sum of |w - v|^p small, p = 0.7. It alternates between the errors that are
/// taken for outliers (a shrinkage, which p < 1 makes steep) and the offset that suits the rest.
/// The grid has offsets.
moert::Result<GridMatrix> quantizeHqq(const moert::MatrixShape &shape, const Grid &grid,
                                      std::span<const float> rows);

/// Where the scales of quantizeGptq come from, group by group, after the error of the groups before
/// has been fed back.
enum class ScaleChoice : uint8_t {
  kNearest,  // As rounding to nearest has them.
  kSearched, // As quantizeClipped, weighted by feedback's pivots.
};

/// GPTQ (Frantar et al., arXiv 2210.17323), in the form of Feedback.h: columns are rounded in their
/// order, each after the errors of those before were fed back to it.
moert::Result<GridMatrix> quantizeGptq(const moert::MatrixShape &shape, const Grid &grid,
                                       std::span<const float> rows, const Feedback &feedback,
                                       ScaleChoice scales, moert::Isa isa = bestIsa());

/// The values that a matrix on a grid stands for: f32(scale * q) + offset, row by row. out.size()
/// == rows * cols.
void dequantize(const GridMatrix &matrix, std::span<float> out);

} // namespace moec
