// Declarations of the instructions that attend to pools: runs of poolTokens consecutive tokens, the
// first of which begins at position 0, with one key each. The notation is Instruction.h's.
#pragma once

#include "runtime/format/SequenceInstructions.h"

namespace moert {

/// dst[w] at a token that ends a pool = the weighted mean of the values of its tokens s, each
/// element by itself, with the softmax over s of gate(s) + bias[s mod poolTokens]; 0 at others.
/// If `overlapping`, value, gate and bias have 2 * w elements, and the tokens are those of the pool
/// before, with the first halves of theirs, and those of the pool, with the second. bias is
/// [poolTokens * the width of value]. The state slot, [3, w] or overlapping [6, w], keeps the
/// largest gate, the sum of weights and that of weighted values of the pool, then of the next one.
struct PoolInstruction {
  int32_t value, gate, dst, bias;
  uint32_t slot, poolTokens;
  bool overlapping = false;

  static constexpr const char *kName = "pool";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "value", i.value);
    visit(FieldRole::kRead, "gate", i.gate);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kOptionalVector, "bias", i.bias);
    visit(FieldRole::kStateSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "poolTokens", i.poolTokens);
    visit(FieldRole::kNumber, "overlapping", i.overlapping);
  }
  bool operator==(const PoolInstruction &) const = default;
};

/// Frequencies of a rotation of parts at most.
constexpr uint32_t kMostPartPairs = 512;

/// Rotates `heads` heads of `headDim` elements in place, as rope does, but the elements from
/// `first` on, by the position of the first token of the token's pool (of the token itself with
/// pools of 1), and, if `inverse`, backwards.
struct RopePartInstruction {
  int32_t buffer;
  uint32_t heads, headDim, rope, first, poolTokens;
  bool inverse = false;

  static constexpr const char *kName = "rope_part";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kUpdate, "buffer", i.buffer);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "headDim", i.headDim);
    visit(FieldRole::kRope, "rope", i.rope);
    visit(FieldRole::kNumber, "first", i.first);
    visit(FieldRole::kNumber, "poolTokens", i.poolTokens);
    visit(FieldRole::kNumber, "inverse", i.inverse);
  }
  bool operator==(const RopePartInstruction &) const = default;
};

/// Stores key in a slot without values. With poolTokens of 0, at the token's position in the slot's
/// first head. Otherwise, at a token that ends a pool, at the number of that pool in the slot's
/// last head, which is the second if there are two.
struct StoreKeyInstruction {
  int32_t key;
  uint32_t slot, poolTokens;

  static constexpr const char *kName = "store_key";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kSlot, "slot", i.slot);
    visit(FieldRole::kNumber, "poolTokens", i.poolTokens);
  }
  bool operator==(const StoreKeyInstruction &) const = default;
};

/// As choose_keys, but of the pools that end at or before the token: stores key, at a token that
/// ends one, at the number of the pool, and chooses those with the largest scores. dst, ascending,
/// then kNone:
///  - with a window of 0, [(most + 1) * poolTokens - 1]: the positions of the tokens of the `most`
///    chosen pools, then of those after the last pool;
///  - otherwise, [window + most]: the last `window` positions, then the chosen pools for
///    attend_pools.
struct ChoosePoolsInstruction : ChoiceOperands {
  uint32_t poolTokens, window;

  static constexpr const char *kName = "choose_pools";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    ChoiceOperands::describe(i, visit);
    visit(FieldRole::kNumber, "poolTokens", i.poolTokens);
    visit(FieldRole::kNumber, "window", i.window);
  }
  bool operator==(const ChoosePoolsInstruction &) const = default;
};

/// dst[window + the pools of maxPositions] as choose_pools writes it with a window, with all pools
/// that end at or before the token.
struct ListPoolsInstruction {
  int32_t dst;
  uint32_t poolTokens, window;

  static constexpr const char *kName = "list_pools";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "poolTokens", i.poolTokens);
    visit(FieldRole::kNumber, "window", i.window);
  }
  bool operator==(const ListPoolsInstruction &) const = default;
};

/// dst[heads * keyDim] = attention of query over the `chosen` keys (choose_pools, list_pools) of a
/// slot that has tokens' keys in its first head and pools' keys in its second, which are their own
/// values. sinks as for attend.
struct AttendPoolsInstruction : ListedAttention {
  int32_t sinks = kNone;

  static constexpr const char *kName = "attend_pools";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    ListedAttention::describe(i, visit);
    visit(FieldRole::kOptionalVector, "sinks", i.sinks);
  }
  bool operator==(const AttendPoolsInstruction &) const = default;
};

} // namespace moert
