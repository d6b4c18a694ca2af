// The numeric operations, each defined to the bit (docs/numbers.md): the order of every sum is
// fixed, so a reference twin in plain loops and every vector version give the same bytes for any
// batch, number of threads and pages that hold the weights.
//
// A KernelTable is one implementation of all of them; bestKernels() returns the fastest for the
// processor. Functions are pure: no allocation, no state, safe from any thread on disjoint outputs.
// Rows are tokens. Strides count elements. Pointers of activations and outputs are 64-byte aligned
// and strides are multiples of 16 elements (64 bytes) unless a parameter says otherwise; sources
// and destinations do not overlap unless the comment allows it. Where a result is NaN it is NaN in
// every version, with any sign and payload; every other result has the same bits.
#pragma once

#include "runtime/base/CheckedMath.h"
#include "runtime/base/PagedBytes.h"
#include "runtime/base/Status.h"
#include "runtime/format/KvLayout.h"
#include "runtime/format/Schedule.h"
#include "runtime/format/WeightLayout.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace moert {

/// Inputs of a float product, and positions of an attention, that are summed separately before the
/// block's sum is added to the rest.
constexpr uint32_t kSumBlock = 256;

/// The maximum number of query heads with a common key head that attention computes together, so
/// that their keys and values are loaded once.
constexpr uint32_t kAttendHeads = 4;

/// Narrow keys that attention widens to f32 together, for all heads of a group: a multiple of the 4
/// that are multiplied together, few enough for 512 elements each to stay in the L1 cache.
constexpr uint32_t kWidenedKeys = 8;

/// Floats of scratch per thread for attention over `keys` keys (KernelTable::attend), with the
/// largest rowScratchFloats() of the slots.
constexpr uint64_t attentionScratchFloats(uint32_t keys, uint64_t rowFloats) {
  return kAttendHeads * roundUp(keys, 16) + rowFloats + 16;
}
constexpr uint64_t rowScratchFloats(KvKind kind, uint32_t keyDim, uint32_t valueDim) {
  const uint64_t values = roundUp(valueDim, 16);
  const uint64_t keys = kind == KvKind::kF32 ? 0 : kWidenedKeys * roundUp(keyDim, 16);
  return keys > values ? keys : values;
}

/// The codes of a plane that refines the previous one.
struct RefiningPlane {
  WeightKind kind = WeightKind::kInt2;
  uint64_t offset = 0; // In bytes, from the start of the view.
};

/// A stored matrix. Borrows the pages that hold it.
struct WeightView {
  MatrixShape shape;
  WeightFormat format; // The first slice's, with the kind of its first plane.
  MatrixLayout layout; // The first slice's.
  PagedBytes bytes;
  // Planes read in addition to the first; checkMatrixSlices() defines the possible lists.
  std::array<RefiningPlane, kMaxExpertSlices - 1> planes = {};
  uint32_t planeCount = 0;
  uint32_t missingBits = 0; // Low bits of the matrix's grid that are not read.
};

/// Rows of activations as int8 (docs/numbers.md). For each group of `group` inputs, scale = amax /
/// 127, code = rne(x / scale) in [-127, 127], sum = the sum of the codes. cols counts padded
/// inputs; the padding's codes are 0. A group with scale 0 has codes 0, and so has a group with an
/// infinity (scale inf) or a NaN (scale NaN), whose products are NaN. Strides count elements of
/// each array. With a hadamardBlock other than 1, a power of two, x is hadamard() of each such
/// block of a row, with hadamardInputFactor() (Hadamard.h).
struct QuantizedRows {
  int8_t *codes;
  float *scales;
  int32_t *sums;
  uint32_t cols;  // The inputs, rounded up to a multiple of group.
  uint32_t group; // 16, 32 or 64.
  uint64_t codesStride, groupsStride;
  uint32_t hadamardBlock = 1;
};

/// Keys and values of one slot of one session: a table of blocks of kKvBlockTokens tokens. Key of
/// token t and head h: keyBlocks[t / kKvBlockTokens] + (h * headRows + t % kKvBlockTokens) *
/// keyStep(), a row of `kind`; values likewise. With valuesInKeys, valueBlocks is not used: a value
/// is the last valueDim elements of its key, which is not int8. A head's keys are contiguous within
/// each block, and across all blocks if headRows is a session's token count and the blocks are
/// adjacent.
constexpr uint32_t kKvBlockTokens = 32;
struct KvView {
  const std::byte *const *keyBlocks;
  const std::byte *const *valueBlocks;
  uint32_t kvHeads, keyDim, valueDim;
  uint64_t headRows = kKvBlockTokens; // From a head's row to the next head's.
  bool valuesInKeys = false;
  KvKind kind = KvKind::kF32;
  const int32_t *chosen = nullptr; // Ascending; if not null, key j is that of token chosen[j].
  /// If not null, biases[(h - headBegin) * biasStride + j - begin] is added to the score of head h
  /// and key j; the sum is rounded.
  const float *biases = nullptr;
  uint64_t biasStride = 0;

  /// The biases of the head headBegin + number; null: none.
  const float *biasesOf(uint32_t number) const {
    return biases ? biases + number * biasStride : nullptr;
  }
  const std::byte *const *valueRows() const { return valuesInKeys ? keyBlocks : valueBlocks; }
  uint64_t keyStep() const { return kvRowBytes(kind, keyDim); } // In bytes.
  uint64_t valueStep() const { return valuesInKeys ? keyStep() : kvRowBytes(kind, valueDim); }
  uint32_t firstValue() const { return valuesInKeys ? keyDim - valueDim : 0; }
};

/// For each architecture, later values are preferred.
enum class Isa : uint8_t {
  kReference = 0,
  kAvx2 = 1,
  kAvx512 = 2,
  kNeon = 3,
  kDotprod = 4,
  kI8mm = 5
};

struct KernelTable {
  Isa isa;
  const char *name; // nameOf(isa)

  /// x[rows][cols] to int8; cols counts real inputs, out.cols padded ones.
  void (*quantizeRows)(const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                       const QuantizedRows &out);

  /// y[r][n] = sum over inputs of w[n][i] * x[r][i] for the outputs n of panels [panelBegin,
  /// panelEnd), of a quantized matrix. Only outputs n < shape.rows are written. Per activation
  /// group, ascending: s = f32(w_scale) * x_scale, acc = fma(f32(intsum), s, acc); with offsets,
  /// then acc = fma(f32(sum of codes) * x_scale, offset, acc) after all groups' products, in a
  /// second ascending pass. Several planes form one integer sum of their joined codes; with missing
  /// bits it counts half steps, and s halves.
  void (*linearQuantized)(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                          uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd);

  /// The same for a float matrix in panel layout: blocks of 256 inputs, fma ascending inside a
  /// block from 0, block sums added ascending. MXFP4 values are converted to f32 exactly.
  void (*linearFloat)(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows,
                      float *y, uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd);

  /// The same for row layout (fewer than 16 outputs): 16 partial sums, fma of element i into i mod
  /// 16, then the tree 8-4-2-1. All outputs.
  void (*linearRows)(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                     uint64_t yStride);

  /// out[cols] = scale * row `row` of w, any layout and kind: w's value rounded to f32, then
  /// multiplied. A quantized value is fma(f32(q), scale, offset), with offset 0 if there is none.
  void (*gatherRow)(const WeightView &w, uint32_t row, float scale, float *out);

  /// y[r][i] = x[r][i] + bias[i]; y may be x. bias needs no alignment.
  void (*addBias)(const float *x, uint64_t xStride, const float *bias, uint32_t rows, uint32_t cols,
                  float *y, uint64_t yStride);

  /// Normalizes each run of `segment` elements (a divisor of cols; segments need not be aligned)
  /// separately. kRms: mean square as 16 partial fma sums over i mod 16 and the tree, divided by
  /// segment; r = 1 / sqrt(mean + eps); y = (x * r) * weight. kLayer: mean likewise, then the mean
  /// of squared differences; y = fma((x - mean) * r, weight, bias). kRms with bias: (x * r) *
  /// weight + bias, rounded twice. bias may be null: kLayer is then ((x - mean) * r) * weight.
  /// weight may be null, which is a weight of 1. y may be x.
  void (*norm)(NormKind kind, const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
               uint32_t segment, const float *weight, const float *bias, float epsilon, float *y,
               uint64_t yStride);

  /// cos[i] and sin[i] of f32(position) * inverseFrequencies[i] (that product rounded to f32),
  /// times factor: range reduction and polynomial in double, rounded once to f32 before the factor.
  void (*ropeTable)(uint32_t position, const float *inverseFrequencies, uint32_t count,
                    float factor, float *cosines, float *sines);

  /// Rotates the first 2 * count elements of each head in place: (a, b) -> (a*c - b*s, b*c + a*s),
  /// each product rounded, then the sum rounded. Pairs (i, i + count) or (2i, 2i + 1).
  void (*rope)(float *x, uint32_t heads, uint32_t headDim, const float *cosines, const float *sines,
               uint32_t count, bool interleaved);

  /// Stores x[count] as a row of the KV cache, or, except in int8, as a part of one: x; the f16
  /// nearest to x clamped to [-kMaxKvF16, kMaxKvF16], NaN stays NaN; or codes and scales as
  /// quantizeRows makes them of groups of kKvGroup. Nothing need be aligned.
  void (*storeKvRow)(KvKind kind, const float *x, uint32_t count, std::byte *row);

  /// out[heads * valueDim] of one token: for query head h and key head h / (heads / kvHeads), over
  /// keys j in [begin, end): score = (q . k) * scale, the dot product as 16 partial fma sums over i
  /// mod 16 and the tree; the exact maximum m; p = exponential(score - m); then over key blocks of
  /// 256 positions anchored at 0, masked keys left out: inside a block the sum of p as 16 partial
  /// sums over j mod 16 and the tree, and out[d] = fma(p, v[j][d], out[d]) ascending from 0; block
  /// sums added ascending; out / sum at the end. With sinks[heads] (null: none; no alignment), m is
  /// the maximum of the scores and the head's sink, and exponential(sink - m) is added to the sum
  /// last. Heads [headBegin, headEnd) only. scratch: kAttendHeads * (end - begin rounded up to 16)
  /// + rowScratchFloats() floats.
  void (*attend)(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
                 uint32_t headEnd, uint32_t begin, uint32_t end, float scale, const float *sinks,
                 float *out, float *scratch);

  /// out[j - begin], for the keys j of [begin, end), of the one head of kv: the sum over query
  /// heads h, ascending from 0, of fma(weights[h], max(0, q . k), sum), q . k as in attend and 0 if
  /// it is NaN. scratch: (kAttendHeads - 1) * (end - begin rounded up to 16) + rowScratchFloats()
  /// floats.
  void (*scoreIndex)(const float *query, const KvView &kv, const float *weights, uint32_t heads,
                     uint32_t begin, uint32_t end, float *out, float *scratch);

  /// y = silu(gate) * up, with silu(x) = x / (1 + exponential(-x)), each step rounded. y may be
  /// gate or up.
  void (*siluMultiply)(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                       uint64_t stride, float *y);

  /// y = (g / (1 + exponential(-(alpha * g)))) * (u + shift), each step rounded, with g = gate, at
  /// most limit, and u = up clamped to [-limit, limit]; NaN stays NaN. y may be gate or up.
  void (*clampedSwiglu)(float alpha, float limit, float shift, const float *gate, const float *up,
                        uint32_t rows, uint32_t cols, uint64_t stride, float *y);

  /// y = gelu(gate) * up, with gelu(x) = x / (1 + exponential(-(x * fma(a, x * x, b)))), each step
  /// rounded, a = kGeluCubic and b = kGeluLinear: the approximation with tanh, as tanh(u) = 2
  /// sigmoid(2u) - 1. y may be gate or up.
  void (*geluTanhMultiply)(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                           uint64_t stride, float *y);

  /// y = factor * x. y may be x.
  void (*scale)(const float *x, float factor, uint64_t count, float *y);

  /// x = limit * tanh(x / limit), in place: with e = exponential(-2 |x / limit|), limit * ((1 - e)
  /// / (1 + e)) with the sign of x, each step rounded. Within 3e-7 * limit. NaN stays NaN.
  void (*softCap)(float limit, uint64_t count, float *x);

  /// y = a + scale * b, as fma(scale, b, a), which is a + b for scale 1. y may be a or b.
  void (*addScaled)(const float *a, const float *b, float scale, uint64_t count, float *y);

  /// x clamped to [-limit, limit], in place; NaN stays NaN.
  void (*clamp)(float limit, uint64_t count, float *x);

  /// y[r] = sigmoid(gate[r * gateStride]) * x[r], sigmoid(g) = 1 / (1 + exponential(-g)). y may be
  /// x.
  void (*gateRows)(const float *x, const float *gate, uint64_t gateStride, uint32_t rows,
                   uint32_t cols, uint64_t stride, float *y);

  /// out = sum over ranks of weights[rank] * rankRows[rank], fma ascending from 0. rankRows are
  /// consecutive rows of `stride`.
  void (*combineRanks)(const float *rankRows, uint64_t stride, const float *weights, uint32_t ranks,
                       uint32_t cols, float *out);

  /// p = softmax(x): exact maximum, exponential(x - max), the sum as 16 partial sums over i mod 16
  /// and the tree, division. p may be x.
  void (*softmax)(const float *x, uint32_t count, float *p);

  /// p = sigmoid(x), as in gateRows. p may be x.
  void (*sigmoid)(const float *x, uint32_t count, float *p);

  /// One token of a causal convolution, for the elements [begin, end) of a row; begin is a multiple
  /// of 16. sum = fma(weight[i][j], input, sum) over taps j ascending from 0, the oldest input
  /// first, x[i] last; y = sum, or silu(sum) as in siluMultiply. weight is in panel layout [panel]
  /// [tap][16]. tail [taps - 1][width]: the input of token t is in row t mod (taps - 1); x[i]
  /// replaces the oldest. y may be x; nothing but x and y need be aligned.
  void (*convolve)(const float *x, const float *weight, uint32_t taps, float *tail, uint32_t width,
                   uint32_t position, bool silu, uint32_t begin, uint32_t end, float *y);

  /// Each run of `segment` elements (a divisor of cols; it need not be aligned) in place: the sum
  /// of squares as in norm, r = 1 / sqrt(sum + epsilon), x * r.
  void (*unitNorm)(float *x, uint64_t xStride, uint32_t rows, uint32_t cols, uint32_t segment,
                   float epsilon);

  /// y = exp(-exp(logRate) * softplus(x + bias)), or, with a bound below 0, exp(bound *
  /// sigmoid(exp(logRate) * (x + bias))), elementwise, where x + bias is rounded to f32 and
  /// everything after it is in double (runtime/base/DeterministicMath.h), rounded once. y may be x.
  void (*decay)(const float *x, float logRate, const float *bias, float bound, uint32_t count,
                float *y);

  /// One token of one head of the gated delta rule. decay is one number, or one for each row of the
  /// state if `perRow`. state [keyDim][valueDim]; per column d, over
  /// rows i ascending: state[i][d] = decay * state[i][d], recalled = fma(key[i], state[i][d],
  /// recalled) from 0; u = write * (value[d] - recalled); state[i][d] = fma(key[i], u,
  /// state[i][d]), sum = fma(query[i], state[i][d], sum) from 0; out[d] = scale * sum. Nothing need
  /// be aligned.
  void (*deltaRule)(const float *query, const float *key, const float *value, const float *decay,
                    bool perRow, float write, float scale, uint32_t keyDim, uint32_t valueDim,
                    float *state, float *out);

  /// y = function(factor * x + bias), the product and the sum rounded each; factor and bias may be
  /// null. Silu as in siluMultiply; softplus in double as in decay, rounded once; squared ReLU x *
  /// max(x, 0); signed root sqrt(max(|x|, 1e-6f)) with the sign of x, x itself for 0 and NaN;
  /// tanh as softCap with a limit of 1;
  /// gelu(x) = x * h for x < 0, otherwise x * (1 - h), each step rounded, with t = 1 /
  /// fma(kNormalTailRate, |x|, 1) and h = exponential(-0.5 * x * x) * t * p(t), p of
  /// kNormalTail by fma. y may be x.
  void (*apply)(RowFunction function, const float *x, const float *factor, const float *bias,
                uint32_t count, float *y);

  /// One token of one head of Mamba-2's state space. state [keyDim][valueDim]; per column d, with u
  /// = step * value[d], over rows i ascending: state[i][d] = fma(key[i], u, decay * state[i][d]),
  /// sum = fma(query[i], state[i][d], sum) from 0; out[d] = fma(skip, value[d], sum). Nothing need
  /// be aligned.
  void (*stateSpace)(const float *query, const float *key, const float *value, float decay,
                     float step, float skip, uint32_t keyDim, uint32_t valueDim, float *state,
                     float *out);

  /// One token of Mamba-1's selective scan, for the elements [begin, end) of a row; begin is a
  /// multiple of 16. As stateSpace, with step[d] and skip[d] of the element and a decay of each
  /// state: exponential(-(exponential(logRate[d][i]) * step[d])). logRate is in panel layout
  /// [panel][i][16], state [keyDim][width].
  void (*selectiveScan)(const float *query, const float *key, const float *value, const float *step,
                        const float *logRate, const float *skip, uint32_t keyDim, uint32_t width,
                        uint32_t begin, uint32_t end, float *state, float *out);

  /// y = sigmoid(gate) * x, sigmoid as in gateRows, or gate * x. y may be x or gate.
  void (*gate)(GateKind kind, const float *x, const float *gate, uint32_t cols, float *y);
};

/// The activation of a gated network, by the kernel of its kind: y = activation(gate, up), in rows
/// of `stride` elements. y may be gate or up; gate is not read where the kind has none.
inline void activate(const KernelTable &kernels, const GluActivation &activation, const float *gate,
                     const float *up, uint32_t rows, uint32_t cols, uint64_t stride, float *y) {
  if (isClamped(activation.kind))
    kernels.clampedSwiglu(activation.alpha, activation.limit,
                          activation.kind == Activation::kClampedSwiglu ? 1 : 0, gate, up, rows,
                          cols, stride, y);
  else if (activation.kind == Activation::kGeluTanh)
    kernels.geluTanhMultiply(gate, up, rows, cols, stride, y);
  else if (activation.kind == Activation::kSilu)
    kernels.siluMultiply(gate, up, rows, cols, stride, y);
  else
    for (uint32_t row = 0; row < rows; ++row)
      kernels.apply(*functionOf(activation.kind), up + row * stride, nullptr, nullptr, cols,
                    y + row * stride);
}

/// The approximation gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (Hendrycks and
/// Gimpel 2016, arXiv 1606.08415, section 2) as a sigmoid: 2 * sqrt(2 / pi), and 0.044715 times
/// that.
constexpr float kGeluLinear = 1.5957691216057308f, kGeluCubic = 0.07135481627260025f;

/// 1 - Phi(x) = e^(-x^2 / 2) * t * p(t), t = 1 / (1 + rate * x), for x >= 0 within 7.5e-8
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17): the coefficients of p,
/// highest first, with the density's factor 1 / sqrt(2 pi).
constexpr float kNormalTailRate = 0.2316419f;
constexpr float kNormalTail[] = {0.53070271f, -0.72657601f, 0.71070687f, -0.14224837f, 0.12741479f};

/// The project's e^x: a polynomial in f32 with fused steps, the same bits in every version; 0 below
/// -87.33..., +inf above 88.72..., NaN stays NaN. Within 2 units in the last place.
float exponential(float x);

const KernelTable &referenceKernels();

const char *nameOf(Isa isa); // "reference", "avx2", "avx512", "neon", "dotprod", "i8mm"

/// The instruction sets that this build has kernels for, whatever the processor: the reference
/// first, then those of its architecture, ascending.
std::span<const Isa> builtIsas();

/// The one of builtIsas() with this name.
std::optional<Isa> parseIsa(std::string_view name);

/// Whether this processor and this build support it.
bool isSupported(Isa isa);

/// The table of an instruction set. The refusal of an unsupported one lists those supported.
Result<const KernelTable *> kernelsFor(Isa isa);

/// The table of the fastest supported instruction set.
const KernelTable &bestKernels();

} // namespace moert
