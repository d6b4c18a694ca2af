// What the rules of instructions' shapes (InstructionShapes.cpp) are made of.
#pragma once

#include "runtime/format/Artifact.h"
#include "runtime/format/BufferWalk.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace moert {

inline Shape f32(uint64_t width) {
  return {BufferKind::kF32, width};
}

/// With so many rows of a token.
inline Shape rowsOf(Shape shape, uint64_t rows) {
  shape.rows = rows;
  return shape;
}

/// The input that a matrix of this format needs.
Shape inputOf(const WeightFormat &format, uint64_t width);

Status checkTable(const ResidentWeight &table);
Status checkFloat(const ResidentWeight &matrix);
/// what: "the weight is ", for the message.
Status checkF32(const char *what, const ResidentWeight &matrix);
Status checkSegments(float epsilon, uint32_t segment, uint64_t width);
Status checkPools(uint32_t poolTokens);
/// Whether a slot of keys without values has the heads that `expected` names.
Status checkKeySlot(const KvSlot &kv, bool hasHeads, const char *expected);
Status checkState(const StateSlot &slot, uint64_t rows, uint64_t width);
/// Sparsemixer and the choice by scores define weights that nothing else changes.
Status checkScoring(const RouteInstruction &i, uint32_t topK);

/// Borrows the artifact and the program. Every index in the instructions has been checked.
class ShapeChecks {
public:
  ShapeChecks(const Artifact &whole, const Program &checked) : artifact(whole), program(checked) {}

  std::vector<Shape> shapes; // That the last rule expects.

protected:
  const ResidentWeight &weight(int32_t index) const { return artifact.residents[size_t(index)]; }
  const Buffer &buffer(int32_t index) const { return program.buffers[size_t(index)]; }

  /// The rows of the state of a recurrence with a matrix per head.
  template <typename Recurrence> Result<uint64_t> headRows(const Recurrence &i) const {
    return headRows(artifact.stateSlots[i.slot], i.heads, i.keyHeads, buffer(i.key).width,
                    buffer(i.value).width);
  }
  Status checkDecay(const DecayOperands &i);
  /// Numbers of heads, runs of src of equal width.
  Status checkHeads(int32_t src, int32_t numbers);
  Status checkPeriod(uint32_t period, int32_t scaled);
  Status checkIndexSlot(const ChoiceOperands &i) const;
  /// How many streams of the width of `one` `all` has.
  Result<uint64_t> streamsOf(int32_t all, int32_t one) const;
  /// Elements of a value that a head of an attention reads.
  Result<uint32_t> attendedDim(const KvSlot &kv, const AttentionOperands &i) const;

  Status expect(std::initializer_list<Shape> list) {
    shapes = list;
    return {};
  }

  const Artifact &artifact;
  const Program &program;

private:
  static Result<uint64_t> headRows(const StateSlot &slot, uint32_t heads, uint32_t keyHeads,
                                   uint64_t keys, uint64_t values);
};

} // namespace moert
