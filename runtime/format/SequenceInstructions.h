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
  bool operator==(const RopeInstruction &) const = default;
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
  bool operator==(const StoreKvInstruction &) const = default;
};

/// The fields of every attention to a slot: dst[heads * valueHeadDim] = attention of query.
struct AttentionOperands {
  int32_t query, dst;
  uint32_t slot, heads;
  float scale;

  bool operator==(const AttentionOperands &) const = default;
};

/// dst[heads * valueHeadDim] = attention of query over the slot's positions up to the token's own;
/// over the last `window` of them if that is not 0, or, if `chunked`, over those of the token's own
/// chunk: positions are divided into chunks of `window`. sinks[heads] are scores without a value:
/// e^sink of a head is added to the sum that its result is divided by.
struct AttendInstruction : AttentionOperands {
  uint32_t window;
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
  bool operator==(const AttendInstruction &) const = default;
};

/// The fields of a choice of keys by scores.
struct ChoiceOperands {
  int32_t query, key, weights, dst;
  uint32_t slot, heads;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kRead, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "heads", i.heads);
  }
  bool operator==(const ChoiceOperands &) const = default;
};

/// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556, section 2.1). Stores key in
/// the slot, whose one head has no values. dst[most]: the positions that the token's attention
/// reads, ascending, then kNone: all up to the token's own if there are at most `most`, otherwise
/// the `most` of them with the largest scores, the lowest of equal ones:
///   score(s) = sum over heads h of weights[h] * max(0, query[h] . key(s))
struct ChooseKeysInstruction : ChoiceOperands {
  static constexpr const char *kName = "choose_keys";
  static constexpr StepPart kPart = StepPart::kAttention;
};

/// The fields of an attention to the keys in the list `chosen`, which kNone ends.
struct ListedAttention : AttentionOperands {
  int32_t chosen;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kRead, "chosen", i.chosen);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "scale", i.scale);
  }
  bool operator==(const ListedAttention &) const = default;
};

/// Attention to the positions in `chosen`.
struct AttendChosenInstruction : ListedAttention {
  static constexpr const char *kName = "attend_chosen";
  static constexpr StepPart kPart = StepPart::kAttention;
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
  bool operator==(const LinearHeadsInstruction &) const = default;
};

/// dst = the causal convolution of src along the tokens, each element with its own taps: at token
/// t, dst[i] = sum over j of weight[i][j] * (src[i] at token t - (taps - 1 - j)), inputs before the
/// first token 0; then silu of that if `silu`. weight is [width, taps] of f32; the state slot
/// [taps - 1, width] keeps the last inputs, that of token t in row t mod (taps - 1). With a state
/// slot of d times as many rows, the inputs are those of each d-th token: at token t, of the tokens
/// t, t - d, t - 2 d and so on. dst may be src.
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
  bool operator==(const ConvolveInstruction &) const = default;
};

/// dst = the rows of weight that the last tokens name, one after the other: `heads` for the token
/// and the one before it, then as many for each token more, up to `tokens` tokens (runtime/format/
/// NgramRows.h). The state slot [tokens - 1, 1] keeps the last tokens, token t in row t mod
/// (tokens - 1).
struct EmbedNgramsInstruction {
  int32_t dst, weight;
  uint32_t slot, tokens, heads, leastRows, number, seed, endToken;

  static constexpr const char *kName = "embed_ngrams";
  static constexpr StepPart kPart = StepPart::kEmbedding;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kTable, "weight", i.weight);
    visit(FieldRole::kStateSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "tokens", i.tokens);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "leastRows", i.leastRows);
    visit(FieldRole::kNumber, "number", i.number);
    visit(FieldRole::kNumber, "seed", i.seed);
    visit(FieldRole::kNumber, "endToken", i.endToken);
  }
  bool operator==(const EmbedNgramsInstruction &) const = default;
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
  bool operator==(const UnitNormInstruction &) const = default;
};

/// The operands of a decay.
struct DecayOperands {
  int32_t src, dst, logRate, bias;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kReadInPlace, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kVector, "logRate", i.logRate);
    visit(FieldRole::kVector, "bias", i.bias);
  }
  bool operator==(const DecayOperands &) const = default;
};

/// dst = exp(-exp(logRate) * softplus(src + bias)), elementwise: the factor from 0 to 1 by which a
/// head forgets, or each element of its keys. logRate has one element for each, or one for as many
/// consecutive ones as its width goes into that of src. dst may be src.
struct DecayInstruction : DecayOperands {
  static constexpr const char *kName = "decay";
  static constexpr StepPart kPart = StepPart::kAttention;
};

/// As decay, but not below exp(bound): dst = exp(bound * sigmoid(exp(logRate) * (src + bias))),
/// with bound < 0.
struct BoundedDecayInstruction : DecayOperands {
  float bound;

  static constexpr const char *kName = "bounded_decay";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    DecayOperands::describe(i, visit);
    visit(FieldRole::kNumber, "bound", i.bound);
  }
  bool operator==(const BoundedDecayInstruction &) const = default;
};

/// The gated delta rule (Yang et al. 2024, arXiv 2412.06464), token by token. For head h and its
/// matrix S [keyDim, valueDim], which is 0 before the first token:
///   S = decay[h] * S;  u = sigmoid(write[h]) * (value[h] - S^T key);  S = S + key u^T
///   dst[h] = scale * S^T query
/// Query and key are those of key head h / (heads / keyHeads). decay is [heads], or [heads *
/// keyDim]: then decay[h] is a diagonal matrix, as in Kimi delta attention (Kimi Linear, arXiv
/// 2510.26692). The state slot [heads * keyDim, valueDim] keeps S.
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
  bool operator==(const DeltaRuleInstruction &) const = default;
};

/// The fields of a selective recurrence. logRate has the role kRates of its kind.
struct SelectiveOperands {
  int32_t query, key, value, step, dst, logRate, skip;
  uint32_t slot;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kRead, "value", i.value);
    visit(FieldRole::kRead, "step", i.step);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(Self::kRates, "logRate", i.logRate);
    visit(FieldRole::kVector, "skip", i.skip);
    visit(FieldRole::kStateSlot, "slot", i.slot);
  }
  bool operator==(const SelectiveOperands &) const = default;
};

/// The state space of Mamba-2 (Dao and Gu 2024, arXiv 2405.21060), token by token. For head h and
/// its matrix S [keyDim, valueDim], which is 0 before the first token:
///   S = exp(-exp(logRate[h]) * step[h]) * S + key (step[h] * value[h])^T
///   dst[h] = S^T query + skip[h] * value[h]
/// Query and key (C and B of the paper) are those of key head h / (heads / keyHeads). The state
/// slot [heads * keyDim, valueDim] keeps S.
struct StateSpaceInstruction : SelectiveOperands {
  uint32_t keyHeads, heads;

  static constexpr const char *kName = "state_space";
  static constexpr StepPart kPart = StepPart::kAttention;
  static constexpr FieldRole kRates = FieldRole::kVector;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    SelectiveOperands::describe(i, visit);
    visit(FieldRole::kNumber, "keyHeads", i.keyHeads);
    visit(FieldRole::kNumber, "heads", i.heads);
  }
  bool operator==(const StateSpaceInstruction &) const = default;
};

/// The selective scan of Mamba-1 (Gu and Dao 2023, arXiv 2312.00752), token by token: a state of
/// keyDim elements for each element d of value, 0 before the first token, with its own rates
/// logRate[d], a matrix of f32:
///   S[i][d] = exp(-exp(logRate[d][i]) * step[d]) * S[i][d] + key[i] * step[d] * value[d]
///   dst[d] = sum over i of query[i] * S[i][d] + skip[d] * value[d]
/// Query and key are C and B of the paper. The state slot [keyDim, width] keeps S.
struct SelectiveScanInstruction : SelectiveOperands {
  static constexpr const char *kName = "selective_scan";
  static constexpr StepPart kPart = StepPart::kAttention;
  static constexpr FieldRole kRates = FieldRole::kMatrix;
};

/// The operands of a factor that grows with the position: buffer = buffer * (1 + scale * ln(1 +
/// periods)), computed in double and rounded once to the f32 that multiplies.
struct PeriodOperands {
  int32_t buffer;
  float scale;
  uint32_t period;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "scale", i.scale);
    visit(FieldRole::kNumber, "period", i.period);
  }
  bool operator==(const PeriodOperands &) const = default;
};

/// periods = floor((position + 1) / period).
struct ScaleByPositionInstruction : PeriodOperands {
  static constexpr const char *kName = "scale_by_position";
  static constexpr StepPart kPart = StepPart::kAttention;
};

/// periods = floor(position / period).
struct ScaleByPeriodInstruction : PeriodOperands {
  static constexpr const char *kName = "scale_by_period";
  static constexpr StepPart kPart = StepPart::kAttention;
};

/// The positions that a token's attention reads. The input of a sequence is what its encoder
/// computed, or in a decoder without one the prefix of its first tokens, which attend to each
/// other.
enum class AttendedRange : uint8_t {
  kEarlier = 0,         // Up to the token's own.
  kInput = 1,           // Those of the input.
  kInputAndEarlier = 2, // Both.
};
template <> inline constexpr AttendedRange kLast<AttendedRange> = AttendedRange::kInputAndEarlier;

/// Attention over a range of positions, otherwise as attend. With positionBias[buckets * heads],
/// positionBias[b * heads + h] is added to the score of head h for a key whose position relative to
/// the token's own is in bucket b (PositionBuckets.h, with maxDistance): of later positions too
/// unless the range is kEarlier.
struct AttendRangeInstruction : AttentionOperands {
  AttendedRange range;
  int32_t positionBias = kNone;
  uint32_t buckets = 0, maxDistance = 0;

  static constexpr const char *kName = "attend_range";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "range", i.range);
    visit(FieldRole::kNumber, "scale", i.scale);
    visit(FieldRole::kOptionalVector, "positionBias", i.positionBias);
    visit(FieldRole::kNumber, "buckets", i.buckets);
    visit(FieldRole::kNumber, "maxDistance", i.maxDistance);
  }
  bool operator==(const AttendRangeInstruction &) const = default;
};

/// dst[h] = row `position` of weight; positions beyond its last row have that one.
struct EmbedPositionInstruction {
  int32_t dst, weight;

  static constexpr const char *kName = "embed_position";
  static constexpr StepPart kPart = StepPart::kEmbedding;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kTable, "weight", i.weight);
  }
  bool operator==(const EmbedPositionInstruction &) const = default;
};

/// buffer = buffer + [sines | cosines] of the rope's angles at position + offset.
struct AddPositionInstruction {
  int32_t buffer;
  uint32_t rope, offset;

  static constexpr const char *kName = "add_position";
  static constexpr StepPart kPart = StepPart::kEmbedding;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kRope, "rope", i.rope);
    visit(FieldRole::kNumber, "offset", i.offset);
  }
  bool operator==(const AddPositionInstruction &) const = default;
};

} // namespace moert
