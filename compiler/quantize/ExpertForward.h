// Evaluates an expert on tokens in f32 with the runtime's kernels: the inputs of down, to which the
// quantizers fit it, and the outputs, by which two versions of an expert are compared.
#pragma once

#include "compiler/quantize/PanelProduct.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moec {

/// What an expert computes besides its products: the activation, and the biases of gate [width], up
/// [width] and down [hidden], each of which may be empty. Borrows the values.
struct ExpertForm {
  moert::GluActivation activation;
  std::span<const float> gateBias, upBias, downBias;
};

/// The matrices of an expert in the kernels' layout; gate is empty where there is none.
struct PanelExpert {
  PanelMatrix gate, up, down;
};

/// Rows of activations at aligned strides, and the weight of each. Owns them.
struct TokenRows {
  uint32_t count = 0, cols = 0;
  AlignedFloats rows; // [count][strideFor(cols)]
  std::vector<float> weights;

  const float *row(uint32_t token) const { return rows.data() + size_t(token) * strideFor(cols); }
};

/// At most `limit` of the tokens, evenly spaced and in order, from the tokens begin, begin + step,
/// ... Empty weights are all 1.
TokenRows pickTokens(uint32_t cols, std::span<const float> rows, std::span<const float> weights,
                     uint32_t limit, uint32_t begin = 0, uint32_t step = 1);

/// Maximum number of tokens that are computed at once.
constexpr uint32_t kForwardTokens = 256;

/// activation(gate x, up x) for all tokens, in parts of at most kForwardTokens: calls take(first
/// token, its activations, number of tokens); activations are strideFor(width) apart.
using TakeRows = std::function<void(uint32_t first, const float *rows, uint32_t count)>;
void activations(const moert::KernelTable &kernels, const PanelMatrix &gate, const PanelMatrix &up,
                 const ExpertForm &form, const TokenRows &tokens, const TakeRows &take);

/// down of that: take gets the outputs, strideFor(hidden) apart.
void outputs(const moert::KernelTable &kernels, const PanelExpert &expert, const ExpertForm &form,
             const TokenRows &tokens, const TakeRows &take);

} // namespace moec
