// The instructions of a schedule. Each is declared once, here: its fields, and describe(), which
// passes them to a visitor with their roles. From that follow the encoding, the decoder, the checks
// of numbers and operands, the lifetimes of buffers, the conversion from IR, and the cost of
// products. docs/adding-an-instruction.md lists the steps of a new one. Long because all
// instructions are one list.
//
// Notation: [w] is one row of w elements per token.
#pragma once

#include "runtime/policy/Routing.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace moert {

constexpr int32_t kNone = -1; // An optional buffer or weight that is absent.

/// What a field of an instruction is. Fields with a role are operands; all others are numbers.
enum class FieldRole : uint8_t {
  kRead,
  kReadInPlace, // The written buffer may be this one.
  kWrite,
  kUpdate,  // Read, then written.
  kScratch, // Written; holds nothing afterwards.
  kOptionalScratch,
  kTable,  // A resident matrix of which a token needs one row.
  kMatrix, // A resident matrix that is multiplied with every row.
  kVector, // A resident vector.
  kOptionalVector,
  kSlot,
  kStateSlot,
  kRope,
  kMoeLayer,
  kNumber,
};

constexpr bool isBuffer(FieldRole role) {
  return role <= FieldRole::kOptionalScratch;
}
constexpr bool isWeight(FieldRole role) {
  return role >= FieldRole::kTable && role <= FieldRole::kOptionalVector;
}
constexpr bool isOptional(FieldRole role) {
  return role == FieldRole::kOptionalScratch || role == FieldRole::kOptionalVector;
}

/// What a step's time is spent on: the parts of docs/run-profile.md.
enum class StepPart : uint8_t {
  kEmbedding,
  kNorms,
  kQuantizing,
  kAttentionProducts,
  kAttention,
  kRouter,
  kDense,
  kExperts,
  kPrefetches,
  kSums,
  kHead,
  kRequests,
  kChecksums,
};

/// The maximum number of products of one buffer that are computed together.
constexpr size_t kMostTogether = 4;

/// The largest enumerator of a field's type; a file with a larger number is refused.
template <typename Enum> inline constexpr Enum kLast = Enum::kNotSpecialized;

/// dst[h] = scale * row `token` of weight.
struct EmbedInstruction {
  int32_t dst, weight;
  float scale;

  static constexpr const char *kName = "embed";
  static constexpr StepPart kPart = StepPart::kEmbedding;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kTable, "weight", i.weight);
    visit(FieldRole::kNumber, "scale", i.scale);
  }
  friend bool operator==(const EmbedInstruction &, const EmbedInstruction &) = default;
};

enum class NormKind : uint8_t { kRms = 0, kLayer = 1 };
template <> inline constexpr NormKind kLast<NormKind> = NormKind::kLayer;

/// Each run of `segment` elements of src is normalized separately (per head, or the whole row) and
/// multiplied by weight[segment], if there is one, plus bias[segment]. dst may be src.
struct NormInstruction {
  int32_t src, dst, weight, bias;
  NormKind kind;
  float epsilon;
  uint32_t segment;

  static constexpr const char *kName = "norm";
  static constexpr StepPart kPart = StepPart::kNorms;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kOptionalVector, "weight", i.weight);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kNumber, "kind", i.kind);
    visit(FieldRole::kNumber, "epsilon", i.epsilon);
    visit(FieldRole::kNumber, "segment", i.segment);
  }
  friend bool operator==(const NormInstruction &, const NormInstruction &) = default;
};

/// dst = src, or its Hadamard transform if dst is kHadamard, as int8 with a scale per group
/// (docs/numbers.md).
struct QuantizeInstruction {
  int32_t src, dst;

  static constexpr const char *kName = "quantize";
  static constexpr StepPart kPart = StepPart::kQuantizing;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  friend bool operator==(const QuantizeInstruction &, const QuantizeInstruction &) = default;
};

/// What a product is for. It affects the breakdown of a step's time and the cost of predictions.
enum class ProductRole : uint8_t { kDense = 0, kAttention = 1, kRouter = 2 };
template <> inline constexpr ProductRole kLast<ProductRole> = ProductRole::kRouter;

/// dst[rows] = weight * src + bias. src is kQuantized where the weight is, kF32 where it is float.
/// `joined`: computed in one parallel run with the product before it, which has the same layer and
/// src. The results of a run lie apart; it has at most kMostTogether products.
struct LinearInstruction {
  int32_t src, dst, weight, bias;
  ProductRole role = ProductRole::kDense;
  bool joined = false;

  static constexpr const char *kName = "linear";
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kNumber, "role", i.role);
    visit(FieldRole::kNumber, "joined", i.joined);
  }
  friend bool operator==(const LinearInstruction &, const LinearInstruction &) = default;
};

/// Rotates `heads` heads of `headDim` elements in place: the first 2 * frequencies elements of
/// each.
struct RopeInstruction {
  int32_t buffer;
  uint32_t heads, headDim, rope;

  static constexpr const char *kName = "rope";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "headDim", i.headDim);
    visit(FieldRole::kRope, "rope", i.rope);
  }
  friend bool operator==(const RopeInstruction &, const RopeInstruction &) = default;
};

/// Writes the keys and values of the batch into a slot of the KV cache at the tokens' positions. In
/// a slot that keeps values in keys (KvSlot), a stored key is the key followed by the value.
struct StoreKvInstruction {
  int32_t key, value;
  uint32_t slot;

  static constexpr const char *kName = "store_kv";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kRead, "value", i.value);
    visit(FieldRole::kSlot, "slot", i.slot);
  }
  friend bool operator==(const StoreKvInstruction &, const StoreKvInstruction &) = default;
};

/// dst[heads * valueHeadDim] = attention of query over the slot's positions up to the token's own;
/// over the last `window` of them if that is not 0, or, if `chunked`, over those of the token's own
/// chunk: positions are divided into chunks of `window`. sinks[heads] are scores without a value:
/// e^sink of a head is added to the sum that its result is divided by.
struct AttendInstruction {
  int32_t query, dst;
  uint32_t slot, heads, window;
  float scale;
  int32_t sinks = kNone;
  bool chunked = false;

  static constexpr const char *kName = "attend";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "window", i.window);
    visit(FieldRole::kNumber, "scale", i.scale);
    visit(FieldRole::kOptionalVector, "sinks", i.sinks);
    visit(FieldRole::kNumber, "chunked", i.chunked);
  }
  friend bool operator==(const AttendInstruction &, const AttendInstruction &) = default;
};

enum class Activation : uint8_t {
  kSilu = 0,          // silu(gate) * up
  kClampedSwiglu = 1, // g * sigmoid(alpha * g) * (u + 1), with g = min(gate, limit) and u = up
                      // clamped to [-limit, limit]
  kGeluTanh = 2,      // gelu(gate) * up, by the approximation with tanh
};
template <> inline constexpr Activation kLast<Activation> = Activation::kGeluTanh;

/// How the two products of a gated network become the input of its last matrix.
struct GluActivation {
  Activation kind = Activation::kSilu;
  float alpha = 0, limit = 0; // Only kClampedSwiglu has them; otherwise 0.
  friend bool operator==(const GluActivation &, const GluActivation &) = default;
};

/// dst = activation(gate, up), as GluActivation says. dst may be gate or up.
struct ActivateInstruction {
  int32_t gate, up, dst;
  Activation activation;
  float alpha = 0, limit = 0;

  static constexpr const char *kName = "activate";
  static constexpr StepPart kPart = StepPart::kDense;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "gate", i.gate);
    visit(FieldRole::kReadInPlace, "up", i.up);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "activation", i.activation);
    visit(FieldRole::kNumber, "alpha", i.alpha);
    visit(FieldRole::kNumber, "limit", i.limit);
  }
  friend bool operator==(const ActivateInstruction &, const ActivateInstruction &) = default;
};

/// How a router's scores become experts and their weights: by the probabilities of all experts
/// (softmax, sigmoid), by Sparsemixer (runtime/engine/Router.h), or by the scores themselves, of
/// which the chosen ones' sigmoids are the weights.
enum class RouterScoring : uint8_t {
  kSoftmaxThenTopK = 0,
  kSigmoid = 1,
  kSparsemixer = 2,
  kTopKThenSigmoid = 3
};
template <> inline constexpr RouterScoring kLast<RouterScoring> = RouterScoring::kTopKThenSigmoid;
template <> inline constexpr GroupScore kLast<GroupScore> = GroupScore::kTwoLargest;

/// experts[topK] and weights[topK], best first, from scores[experts of the layer], as
/// chooseExperts() (Routing.h) does with choiceBias[experts], groups and weightFactors[experts];
/// the layer has topK. A program routes the MoE layers from the first on, in their order.
/// `beginsReads`: the reads of the chosen experts, and with them the layer pass, begin after this
/// instruction. `tolerance`: Sparsemixer's epsilon; 0 with every other scoring.
struct RouteInstruction {
  int32_t scores, experts, weights;
  uint32_t moeLayer;
  RouterScoring scoring;
  bool renormalize;
  float weightScale;
  bool beginsReads = false;
  int32_t choiceBias = kNone;
  uint32_t groups = 1, keptGroups = 1;
  GroupScore groupScore = GroupScore::kLargest;
  int32_t weightFactors = kNone;
  float tolerance = 0;

  static constexpr const char *kName = "route";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "scores", i.scores);
    visit(FieldRole::kWrite, "experts", i.experts);
    visit(FieldRole::kWrite, "weights", i.weights);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kNumber, "scoring", i.scoring);
    visit(FieldRole::kNumber, "renormalize", i.renormalize);
    visit(FieldRole::kNumber, "weightScale", i.weightScale);
    visit(FieldRole::kNumber, "beginsReads", i.beginsReads);
    visit(FieldRole::kOptionalVector, "choiceBias", i.choiceBias);
    visit(FieldRole::kNumber, "groups", i.groups);
    visit(FieldRole::kNumber, "keptGroups", i.keptGroups);
    visit(FieldRole::kNumber, "groupScore", i.groupScore);
    visit(FieldRole::kOptionalVector, "weightFactors", i.weightFactors);
    visit(FieldRole::kNumber, "tolerance", i.tolerance);
  }
  friend bool operator==(const RouteInstruction &, const RouteInstruction &) = default;
};

/// dst[h] = sum over ranks of weights[rank] * expert(src), ranks ascending. Reads each expert that
/// the batch routes to once. src and `gathered` have rows [h] of the kind that the experts' first
/// matrices take.
/// The reads of the experts have begun (beginsReads) with the same `experts`.
/// gate and up are [expert width]; hidden is the quantized input of the last matrix, kNone where
/// that matrix is float; ranks is [topK * h], h rounded up to kRankRowElements. dst serves as
/// scratch meanwhile and is none of the others. Biases, of all experts one after the other, are
/// added to the products of gate, up and down.
constexpr uint32_t kRankRowElements = 16;
struct ExpertsInstruction {
  int32_t src, experts, weights, dst;
  uint32_t moeLayer;
  int32_t gathered, gate, up, hidden, ranks;
  int32_t gateBias = kNone, upBias = kNone, downBias = kNone;

  static constexpr const char *kName = "experts";
  static constexpr StepPart kPart = StepPart::kExperts;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kRead, "experts", i.experts);
    visit(FieldRole::kRead, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kScratch, "gathered", i.gathered);
    visit(FieldRole::kScratch, "gate", i.gate);
    visit(FieldRole::kScratch, "up", i.up);
    visit(FieldRole::kOptionalScratch, "hidden", i.hidden);
    visit(FieldRole::kScratch, "ranks", i.ranks);
    visit(FieldRole::kOptionalVector, "gateBias", i.gateBias);
    visit(FieldRole::kOptionalVector, "upBias", i.upBias);
    visit(FieldRole::kOptionalVector, "downBias", i.downBias);
  }
  friend bool operator==(const ExpertsInstruction &, const ExpertsInstruction &) = default;
};

/// Predicts the experts of a later MoE layer, if the plan has a rule for that layer with this
/// `ahead` (Plan::prefetches), and gives the prefetch candidates to the cache; without such a rule
/// it does nothing. No token depends on it. Cross-layer gate: scores[experts of moeLayer] = weight
/// * src + bias, the later layer's router applied to the router input of the current layer.
/// Activation-path table: the experts chosen by the two layers before decide, and neither src nor
/// weight is used. The weight is a float matrix; scores is scratch. Follows the route of the
/// current layer and precedes the layer pass. `joined` as for products, of which a gate is one.
/// `beginsReads`: as for the route, of the layer that was routed last.
struct PredictInstruction {
  int32_t src, scores, weight, bias;
  uint32_t moeLayer; // The predicted layer.
  uint32_t ahead;    // MoE layers from here to there: 1 to kMostAhead.
  bool joined = false;
  bool beginsReads = false;

  static constexpr const char *kName = "predict";
  static constexpr StepPart kPart = StepPart::kPrefetches;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kScratch, "scores", i.scores);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kMoeLayer, "moeLayer", i.moeLayer);
    visit(FieldRole::kNumber, "ahead", i.ahead);
    visit(FieldRole::kNumber, "joined", i.joined);
    visit(FieldRole::kNumber, "beginsReads", i.beginsReads);
  }
  friend bool operator==(const PredictInstruction &, const PredictInstruction &) = default;
};

/// dst = a + scale * b. dst may be a or b.
struct AddInstruction {
  int32_t a, b, dst;
  float scale;

  static constexpr const char *kName = "add";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "a", i.a);
    visit(FieldRole::kReadInPlace, "b", i.b);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "scale", i.scale);
  }
  friend bool operator==(const AddInstruction &, const AddInstruction &) = default;
};

/// dst = sigmoid(gate[1]) * src. dst may be src.
struct GateRowsInstruction {
  int32_t src, gate, dst;

  static constexpr const char *kName = "gate_rows";
  static constexpr StepPart kPart = StepPart::kDense;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kRead, "gate", i.gate);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  friend bool operator==(const GateRowsInstruction &, const GateRowsInstruction &) = default;
};

/// buffer = buffer clamped to [-limit, limit].
struct ClampInstruction {
  int32_t buffer;
  float limit;

  static constexpr const char *kName = "clamp";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "limit", i.limit);
  }
  friend bool operator==(const ClampInstruction &, const ClampInstruction &) = default;
};

/// A product per head: dst[h] = the last `kept` elements of src[h], then weight[h] * the elements
/// before them. The matrices of the heads are one below the other in weight, which is float.
struct LinearHeadsInstruction {
  int32_t src, dst, weight;
  uint32_t heads, kept;

  static constexpr const char *kName = "linear_heads";
  static constexpr StepPart kPart = StepPart::kAttentionProducts;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "kept", i.kept);
  }
  friend bool operator==(const LinearHeadsInstruction &, const LinearHeadsInstruction &) = default;
};

/// dst = the causal convolution of src along the tokens, each element with its own taps: at token
/// t, dst[i] = sum over j of weight[i][j] * (src[i] at token t - (taps - 1 - j)), inputs before the
/// first token 0; then silu of that if `silu`. weight is [width, taps] of f32; the state slot
/// [taps - 1, width] keeps the last inputs, that of token t in row t mod (taps - 1). dst may be
/// src.
struct ConvolveInstruction {
  int32_t src, dst, weight;
  uint32_t slot;
  bool silu;

  static constexpr const char *kName = "convolve";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kStateSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "silu", i.silu);
  }
  friend bool operator==(const ConvolveInstruction &, const ConvolveInstruction &) = default;
};

/// Each run of `segment` elements of buffer, in place, is divided by sqrt(the sum of its squares +
/// epsilon).
struct UnitNormInstruction {
  int32_t buffer;
  float epsilon;
  uint32_t segment;

  static constexpr const char *kName = "unit_norm";
  static constexpr StepPart kPart = StepPart::kNorms;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "epsilon", i.epsilon);
    visit(FieldRole::kNumber, "segment", i.segment);
  }
  friend bool operator==(const UnitNormInstruction &, const UnitNormInstruction &) = default;
};

/// dst = exp(-exp(logRate) * softplus(src + bias)), elementwise: the factor from 0 to 1 by which a
/// head forgets. dst may be src.
struct DecayInstruction {
  int32_t src, dst, logRate, bias;

  static constexpr const char *kName = "decay";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kVector, "logRate", i.logRate);
    visit(FieldRole::kVector, "bias", i.bias);
  }
  friend bool operator==(const DecayInstruction &, const DecayInstruction &) = default;
};

/// The gated delta rule (Yang et al. 2024, arXiv 2412.06464), token by token. For head h and its
/// matrix S [keyDim, valueDim], which is 0 before the first token:
///   S = decay[h] * S;  u = sigmoid(write[h]) * (value[h] - S^T key);  S = S + key u^T
///   dst[h] = scale * S^T query
/// Query and key are those of key head h / (heads / keyHeads). The state slot [heads * keyDim,
/// valueDim] keeps S.
struct DeltaRuleInstruction {
  int32_t query, key, value, decay, write, dst;
  uint32_t slot, keyHeads, heads;
  float scale;

  static constexpr const char *kName = "delta_rule";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kRead, "value", i.value);
    visit(FieldRole::kRead, "decay", i.decay);
    visit(FieldRole::kRead, "write", i.write);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kStateSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "keyHeads", i.keyHeads);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "scale", i.scale);
  }
  friend bool operator==(const DeltaRuleInstruction &, const DeltaRuleInstruction &) = default;
};

enum class GateKind : uint8_t { kSigmoid = 0, kLinear = 1 };
template <> inline constexpr GateKind kLast<GateKind> = GateKind::kLinear;

/// dst = sigmoid(gate) * src or, with kLinear, gate * src, elementwise. dst may be src or gate.
struct GateInstruction {
  int32_t src, gate, dst;
  GateKind kind;

  static constexpr const char *kName = "gate";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kReadInPlace, "gate", i.gate);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "kind", i.kind);
  }
  friend bool operator==(const GateInstruction &, const GateInstruction &) = default;
};

/// dst = factor * weight[0] * src; factor * src without a weight. dst may be src.
struct ScaleInstruction {
  int32_t src, dst, weight;
  float factor;

  static constexpr const char *kName = "scale";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kOptionalVector, "weight", i.weight);
    visit(FieldRole::kNumber, "factor", i.factor);
  }
  friend bool operator==(const ScaleInstruction &, const ScaleInstruction &) = default;
};

/// buffer = buffer * (1 + scale * ln(1 + floor((position + 1) / period))), computed in double and
/// rounded once to the f32 that multiplies.
struct ScaleByPositionInstruction {
  int32_t buffer;
  float scale;
  uint32_t period;

  static constexpr const char *kName = "scale_by_position";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "scale", i.scale);
    visit(FieldRole::kNumber, "period", i.period);
  }
  friend bool operator==(const ScaleByPositionInstruction &,
                         const ScaleByPositionInstruction &) = default;
};

/// dst = weights[1] * src; then weights = 1: an expert's weight moves from its output to its input.
struct ScaleInputInstruction {
  int32_t src, weights, dst;

  static constexpr const char *kName = "scale_input";
  static constexpr StepPart kPart = StepPart::kRouter;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kUpdate, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  friend bool operator==(const ScaleInputInstruction &, const ScaleInputInstruction &) = default;
};

/// Logits of the tokens whose logits are requested: scale * (weight * src + bias), then, with a
/// softCap c above 0, c * tanh(logit / c). Ends the program.
struct HeadInstruction {
  int32_t src, weight, bias;
  float scale;
  float softCap = 0;

  static constexpr const char *kName = "head";
  static constexpr StepPart kPart = StepPart::kHead;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kMatrix, "weight", i.weight);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kNumber, "scale", i.scale);
    visit(FieldRole::kNumber, "softCap", i.softCap);
  }
  friend bool operator==(const HeadInstruction &, const HeadInstruction &) = default;
};

using Instruction =
    std::variant<EmbedInstruction, NormInstruction, QuantizeInstruction, LinearInstruction,
                 RopeInstruction, StoreKvInstruction, AttendInstruction, ActivateInstruction,
                 RouteInstruction, ExpertsInstruction, PredictInstruction, AddInstruction,
                 GateRowsInstruction, HeadInstruction, ClampInstruction, LinearHeadsInstruction,
                 ConvolveInstruction, UnitNormInstruction, DecayInstruction, DeltaRuleInstruction,
                 GateInstruction, ScaleInstruction, ScaleByPositionInstruction,
                 ScaleInputInstruction>;

constexpr size_t kInstructionKinds = std::variant_size_v<Instruction>;

/// Calls visit with the instruction's struct. std::visit would add 90 KiB to the program, and so to
/// its accounted memory: the names of its instantiations.
template <typename AnyInstruction, typename Visit>
void visitInstruction(AnyInstruction &instruction, Visit &&visit) {
  auto visitAs = [&]<size_t kNumber>(std::in_place_index_t<kNumber>) {
    if (auto *content = std::get_if<kNumber>(&instruction))
      visit(*content);
  };
  [&]<size_t... kNumbers>(std::index_sequence<kNumbers...>) {
    (visitAs(std::in_place_index<kNumbers>), ...);
  }
  (std::make_index_sequence<kInstructionKinds>());
}

/// Calls visit(FieldRole, name, field) for each field, in the order of the encoding. A field is an
/// index (int32_t; kNone where optional and absent), uint32_t, float, bool, or an enum with kLast.
template <typename AnyInstruction, typename Visit>
void describe(AnyInstruction &instruction, Visit &&visit) {
  visitInstruction(instruction, [&]<typename T>(T &content) {
    std::remove_const_t<T>::describe(content, visit);
  });
}

/// The instruction of a number, below kInstructionKinds, with every field 0 or its default.
Instruction emptyInstruction(size_t number);

const char *nameOf(const Instruction &instruction);

/// Whether it is computed in one parallel run with the instruction before it.
bool isJoined(const Instruction &instruction);

/// Whether the reads of the experts that were routed last begin after it.
bool beginsReads(const Instruction &instruction);

/// The part that a step's time at the instruction counts as. That of a product follows its role.
StepPart partOf(const Instruction &instruction);

} // namespace moert
