// Declarations of the instructions that depend on a token's position or on the tokens before it:
// attention, convolutions and recurrences, and what prepares their inputs.
#pragma once

#include "runtime/format/InstructionFields.h"

namespace moert {

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

} // namespace moert
