#include "compiler/quantize/ExpertForward.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

TokenRows pickTokens(uint32_t cols, std::span<const float> rows, std::span<const float> weights,
                     uint32_t limit, uint32_t begin, uint32_t step) {
  const uint64_t all = rows.size() / cols;
  const uint64_t candidates = all > begin ? (all - begin + step - 1) / step : 0;
  TokenRows tokens;
  tokens.count = uint32_t(std::min<uint64_t>(limit, candidates));
  tokens.cols = cols;
  tokens.rows = AlignedFloats(tokens.count * strideFor(cols));
  tokens.weights.resize(tokens.count, 1);
  for (uint64_t i = 0; i < tokens.count; ++i) {
    const size_t token = begin + step * (i * candidates / tokens.count);
    std::copy_n(rows.data() + token * cols, cols, tokens.rows.data() + i * strideFor(cols));
    if (!weights.empty())
      tokens.weights[i] = weights[token];
  }
  return tokens;
}

/// Adds the bias, if there is one, to rows of its size.
static void addBias(const KernelTable &kernels, std::span<const float> bias, uint32_t count,
                    AlignedFloats &rows) {
  const uint64_t stride = strideFor(bias.size());
  if (!bias.empty())
    kernels.addBias(rows.data(), stride, bias.data(), count, uint32_t(bias.size()), rows.data(),
                    stride);
}

void activations(const KernelTable &kernels, const PanelMatrix &gate, const PanelMatrix &up,
                 const ExpertForm &form, const TokenRows &tokens, const TakeRows &take) {
  const bool isGated = hasGate(form.activation.kind);
  assert((!isGated || gate.shape == up.shape) && up.shape.cols == tokens.cols);
  const uint64_t stride = strideFor(up.shape.rows);
  AlignedFloats gated(kForwardTokens * stride), upped(kForwardTokens * stride);
  for (uint32_t first = 0; first < tokens.count; first += kForwardTokens) {
    const uint32_t count = std::min(kForwardTokens, tokens.count - first);
    const uint64_t xStride = strideFor(tokens.cols);
    if (isGated)
      multiply(kernels, {gate.values.data(), gate.panels(), tokens.cols, tokens.row(first), xStride,
                         count, gated.data(), stride});
    multiply(kernels, {up.values.data(), up.panels(), tokens.cols, tokens.row(first), xStride,
                       count, upped.data(), stride});
    addBias(kernels, form.gateBias, count, gated);
    addBias(kernels, form.upBias, count, upped);
    activate(kernels, form.activation, gated.data(), upped.data(), count, up.shape.rows, stride,
             gated.data());
    take(first, gated.data(), count);
  }
}

void outputs(const KernelTable &kernels, const PanelExpert &expert, const ExpertForm &form,
             const TokenRows &tokens, const TakeRows &take) {
  const MatrixShape shape = expert.down.shape;
  const uint64_t stride = strideFor(shape.rows);
  AlignedFloats out(kForwardTokens * stride);
  activations(kernels, expert.gate, expert.up, form, tokens,
              [&](uint32_t first, const float *rows, uint32_t count) {
                multiply(kernels, {expert.down.values.data(), expert.down.panels(), shape.cols,
                                   rows, strideFor(shape.cols), count, out.data(), stride});
                addBias(kernels, form.downBias, count, out);
                take(first, out.data(), count);
              });
}

} // namespace moec
