// Declarations of the instructions that compute each row by itself: norms, products, sums. The
// notation is Instruction.h's.
#pragma once

#include "runtime/format/InstructionFields.h"

#include <optional>

namespace moert {

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
  bool operator==(const EmbedInstruction &) const = default;
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
  bool operator==(const NormInstruction &) const = default;
};

/// dst = src, or its Hadamard transform if dst is kHadamard, as int8 with a scale per group
/// (docs/numbers.md).
struct QuantizeInstruction : RowOperands {
  static constexpr const char *kName = "quantize";
  static constexpr StepPart kPart = StepPart::kQuantizing;
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
  bool operator==(const LinearInstruction &) const = default;
};

enum class Activation : uint8_t {
  kSilu = 0,          // silu(gate) * up
  kClampedSwiglu = 1, // g * sigmoid(alpha * g) * (u + 1), with g = min(gate, limit) and u = up
                      // clamped to [-limit, limit]
  kGeluTanh = 2,      // gelu(gate) * up, by the approximation with tanh
  kSquaredRelu = 3,   // max(up, 0)^2: a network without a gate
  kClampedSilu = 4,   // silu(g) * u, with g and u as for kClampedSwiglu
  kGelu = 5,          // gelu(up), exact: a network without a gate
  kRelu = 6,          // max(up, 0): the same
};
template <> inline constexpr Activation kLast<Activation> = Activation::kRelu;

constexpr bool isClamped(Activation activation) {
  return activation == Activation::kClampedSwiglu || activation == Activation::kClampedSilu;
}

/// How the products of a network become the input of its last matrix.
struct GluActivation {
  Activation kind = Activation::kSilu;
  float alpha = 0, limit = 0; // Where it is clamped; 0 otherwise. kClampedSilu has alpha 1.
  bool operator==(const GluActivation &) const = default;
};

/// dst = activation(gate, up), as GluActivation says. dst may be gate or up.
struct ActivateInstruction : GluActivation {
  int32_t gate, up, dst;

  static constexpr const char *kName = "activate";
  static constexpr StepPart kPart = StepPart::kDense;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "gate", i.gate);
    visit(FieldRole::kReadInPlace, "up", i.up);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "activation", i.kind);
    visit(FieldRole::kNumber, "alpha", i.alpha);
    visit(FieldRole::kNumber, "limit", i.limit);
  }
  bool operator==(const ActivateInstruction &) const = default;
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
  bool operator==(const AddInstruction &) const = default;
};

/// dst = sigmoid(gate) * src. gate is one number, or one for each head: runs of src of equal width.
/// dst may be src.
struct GateRowsInstruction {
  int32_t src, gate, dst;

  static constexpr const char *kName = "gate_rows";
  static constexpr StepPart kPart = StepPart::kDense;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kRead, "gate", i.gate);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const GateRowsInstruction &) const = default;
};

/// dst = factor * src. factor is one number, or one for each head: runs of src of equal width. dst
/// may be src.
struct ScaleRowsInstruction {
  int32_t src, factor, dst;

  static constexpr const char *kName = "scale_rows";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kRead, "factor", i.factor);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const ScaleRowsInstruction &) const = default;
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
  bool operator==(const ClampInstruction &) const = default;
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
  bool operator==(const GateInstruction &) const = default;
};

enum class RowFunction : uint8_t {
  kIdentity = 0,
  kSilu = 1,        // x * sigmoid(x)
  kSoftplus = 2,    // ln(1 + e^x)
  kSquaredRelu = 3, // x^2 where x > 0, otherwise 0
  kSignedRoot = 4,  // The root of |x|, of at least 1e-6, with the sign of x; 0 for 0
  kGelu = 5,        // x * Phi(x), with the distribution function of the standard normal
  kRelu = 6,        // max(x, 0)
  kTanh = 7,
};
template <> inline constexpr RowFunction kLast<RowFunction> = RowFunction::kTanh;

/// The function of a network without a gate; none of one with a gate.
constexpr std::optional<RowFunction> functionOf(Activation activation) {
  if (activation == Activation::kSquaredRelu)
    return RowFunction::kSquaredRelu;
  if (activation == Activation::kGelu)
    return RowFunction::kGelu;
  if (activation == Activation::kRelu)
    return RowFunction::kRelu;
  return std::nullopt;
}
constexpr bool hasGate(Activation activation) {
  return !functionOf(activation);
}

/// dst = function(factor * src + bias), elementwise; without a factor or a bias as if it were 1 or
/// 0. dst may be src.
struct ApplyInstruction {
  int32_t src, dst;
  RowFunction function;
  int32_t factor = kNone, bias = kNone;

  static constexpr const char *kName = "apply";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "function", i.function);
    visit(FieldRole::kOptionalVector, "factor", i.factor);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
  }
  bool operator==(const ApplyInstruction &) const = default;
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
  bool operator==(const ScaleInstruction &) const = default;
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
  bool operator==(const HeadInstruction &) const = default;
};

} // namespace moert
