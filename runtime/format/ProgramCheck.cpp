// Checks of instructions that follow from their declarations and from the shapes of their operands
// (InstructionShapes.cpp).
#include "runtime/format/ProgramCheck.h"

#include "runtime/base/CheckedMath.h"

#include <cmath>
#include <vector>

namespace moert {

namespace {

Status checkIndex(const char *what, int64_t index, size_t count) {
  if (index < 0 || uint64_t(index) >= count)
    return invalidInput(what, " ", index, ", there are ", count);
  return {};
}

Status checkVector(const char *name, const ResidentWeight &found, uint64_t width) {
  if (found.format.kind != WeightKind::kF32 || found.shape.rows != 1 || found.shape.cols != width)
    return invalidInput(name, " is a ", found.shape.rows, " x ", found.shape.cols, " matrix of ",
                        nameOf(found.format.kind), ", expected 1 x ", width, " of f32");
  return {};
}

/// Whether a field refers to something that exists, or is a number that can be computed with.
template <typename T>
Status checkField(const Artifact &artifact, const BufferWalk &buffers, FieldRole role,
                  const char *name, const T &field) {
  if constexpr (std::is_same_v<T, float>) {
    if (!std::isfinite(field))
      return invalidInput(name, " is ", field, ", expected a finite number");
    return {};
  } else {
    const int64_t index = int64_t(field);
    if (role == FieldRole::kNumber || (isOptional(role) && index == kNone))
      return {};
    if (isBuffer(role))
      return buffers.widthOf(name, int32_t(index)).status();
    if (isWeight(role))
      return checkIndex(name, index, artifact.residents.size());
    if (role == FieldRole::kSlot)
      return checkIndex("KV slot", index, artifact.kvSlots.size());
    if (role == FieldRole::kStateSlot)
      return checkIndex("state slot", index, artifact.stateSlots.size());
    if (role == FieldRole::kRope)
      return checkIndex("rope", index, artifact.ropes.size());
    return checkIndex("MoE layer", index, artifact.moeLayers.size());
  }
}

/// Whether it works with the token of each row, not with rows alone.
bool usesPositions(const Instruction &instruction) {
  bool isUsed = std::holds_alternative<HeadInstruction>(instruction) ||
                std::holds_alternative<ScaleByPositionInstruction>(instruction) ||
                std::holds_alternative<ScaleByPeriodInstruction>(instruction);
  describe(instruction, [&](FieldRole role, const char *, const auto &) {
    isUsed |= role == FieldRole::kTable || role == FieldRole::kSlot ||
              role == FieldRole::kStateSlot || role == FieldRole::kRope;
  });
  return isUsed;
}

} // namespace

Status checkActivation(const GluActivation &activation) {
  const bool hasLimit = isClamped(activation.kind);
  for (const float number : {activation.alpha, activation.limit})
    if (!std::isfinite(number) || (hasLimit ? number <= 0 : number != 0))
      return invalidInput("the activation has alpha ", activation.alpha, " and limit ",
                          activation.limit, ", expected ",
                          hasLimit ? "positive numbers" : "0 and 0");
  return {};
}

Status ProgramCheck::checkInstruction(const Instruction &instruction, Values values) {
  Status status;
  describe(instruction, [&](FieldRole role, const char *name, const auto &field) {
    if (status.isOk())
      status = checkField(artifact, buffers, role, name, field);
  });
  MOERT_RETURN_IF_ERROR(std::move(status));
  MOERT_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, shapesOf(artifact, program, instruction));
  if (usesPositions(instruction) && buffers.rowsPerToken() != 1)
    return invalidInput("it uses the positions of tokens, which have ", buffers.rowsPerToken(),
                        " rows each here");

  std::vector<Operand> operands;
  status = {};
  describeShaped(
      instruction, shapes,
      [&](FieldRole role, const char *name, int32_t field, const Shape &expected) {
        if (!status.isOk())
          return;
        if (role == FieldRole::kOptionalScratch && isQuantized(expected.kind) != (field != kNone))
          status = invalidInput(name, " is buffer ", field,
                                ", expected one where its elements are quantized, otherwise none");
        else if (field != kNone && !isBuffer(role))
          status = checkVector(name, artifact.residents[size_t(field)], expected.width);
        else if (field != kNone)
          operands.push_back({name, field, role, expected});
      });
  MOERT_RETURN_IF_ERROR(std::move(status));
  MOERT_RETURN_IF_ERROR(buffers.checkShapes(operands));
  return values == Values::kTracked ? buffers.apply(operands) : Status();
}

} // namespace moert
