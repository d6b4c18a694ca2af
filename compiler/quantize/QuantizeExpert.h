// Quantizes one expert on one or several grids and computes each grid's error: applies the
// quantizers (Quantize.h) to its three matrices with the inputs that the expert got on calibration
// text. The unit of work for choosing widths.
//
// Not here: the choice of an expert's width (compiler/plan), the bytes of a record (PackGrid.h).
#pragma once

#include "compiler/quantize/ExpertForward.h"
#include "compiler/quantize/GridMatrix.h"
#include "compiler/quantize/Moments.h"

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moec {

/// How codes and scales are chosen. Quantize.h describes each method and its source.
enum class QuantizeMethod : uint8_t {
  kNearest,    // Round to nearest: needs no inputs.
  kPerChannel, // EdgeMoE: one scale per row from its largest magnitude; the grid's group is not
               // used: pass one that covers a row.
  kClipped,    // Round to nearest with the scale of the least squared error.
  kWeighted,   // The same, each input weighted by its mean square.
  kHqq,        // Half-quadratic; the grid needs offsets.
  kGptq,       // Error feedback.
};
std::string_view nameOf(QuantizeMethod method); // "nearest", "per-channel", "clipped", ...

/// An expert: down(activation(gate x, up x)). Borrows the values.
struct ExpertWeights {
  uint32_t hidden = 0, width = 0;
  std::span<const float> gate, up; // [width][hidden]; gate is empty where there is none.
  std::span<const float> down;     // [hidden][width]
  ExpertForm form = {};
};

/// The tokens routed to an expert. Borrows the values.
struct ExpertTokens {
  std::span<const float> rows;    // [tokens][hidden]
  std::span<const float> weights; // [tokens]: the router's factor of the output.
};

/// Statistics of all tokens of a layer, used for experts with too few tokens. Made once per layer,
/// shared by its experts and by threads.
struct LayerMoments {
  Moments inputs;
  std::vector<float> sample; // [up to kLayerSampleTokens][hidden]: tokens, evenly spaced.
};
constexpr uint32_t kLayerSampleTokens = 512;

/// Refuses values that are not finite, and a number of values that is not whole rows of hidden.
moert::Result<LayerMoments> layerMomentsOf(uint32_t hidden, std::span<const float> rows);

/// An expert on one grid.
struct ExpertOnGrid {
  GridMatrix gate, up, down;
  /// Sum over the expert's tokens of weight^2 * |E_q(x) - E(x)|^2. From evenly spaced tokens,
  /// scaled up, where there are more than kErrorTokens. Activations are f32 here.
  double squaredError = 0;
};
struct QuantizedExpert {
  double squaredNorm = 0; // The same sum with weight^2 * |E(x)|^2.
  std::vector<ExpertOnGrid> grids;
};
constexpr uint32_t kErrorTokens = 768;

/// Quantizes an expert independently on each of the grids. Grids share the work that does not
/// depend on them; gate and up are quantized once for neighbours that differ in down alone. down is
/// fitted to the outputs of the quantized gate and up. layer may be null; no tokens are allowed:
/// squaredError and squaredNorm are then 0.
///
/// The same result on any machine; may be called from any number of threads. In addition to the
/// result it needs at most 3 times the expert as f32, 48 * n * min(n, kMomentInputs) bytes for
/// moments (n is the larger of hidden and width), and 4,608 rows of hidden values, for any number
/// of tokens.
///
/// Refuses sizes that do not match, values that are not finite, grids that Quantize.h refuses, and
/// grids with the Hadamard transform beside others without it.
moert::Result<QuantizedExpert> quantizeExpert(const ExpertWeights &expert,
                                              const ExpertTokens &tokens, const LayerMoments *layer,
                                              QuantizeMethod method,
                                              std::span<const ExpertGrid> grids);

} // namespace moec
