// What the declarations of instructions are made of: the roles of fields, and the parts of a step's
// time. Instruction.h has the list of instructions.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// The operands of an instruction that makes one row of another. Such operands are a base of the
/// kinds that share them, and no kind of their own, so that none is taken for another.
struct RowOperands {
  int32_t src, dst;

  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const RowOperands &) const = default;
};

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

} // namespace moert
