// The instructions of a schedule. Each is declared once, in one of the files below: its fields, and
// describe(), which passes them to a visitor with their roles. From that follow the encoding, the
// decoder, the checks of numbers and operands, the lifetimes of buffers, the conversion from IR,
// and the cost of products. docs/adding-an-instruction.md lists the steps of a new one.
//
// Notation: [w] is one row of w elements per token.
#pragma once

#include "runtime/format/ExpertInstructions.h"
#include "runtime/format/ImageInstructions.h"
#include "runtime/format/PoolInstructions.h"
#include "runtime/format/RowInstructions.h"
#include "runtime/format/SequenceInstructions.h"
#include "runtime/format/StreamInstructions.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace moert {

using Instruction = std::variant<
    EmbedInstruction, NormInstruction, QuantizeInstruction, LinearInstruction, RopeInstruction,
    StoreKvInstruction, AttendInstruction, ActivateInstruction, RouteInstruction,
    ExpertsInstruction, PredictInstruction, AddInstruction, GateRowsInstruction, HeadInstruction,
    ClampInstruction, LinearHeadsInstruction, ConvolveInstruction, UnitNormInstruction,
    DecayInstruction, DeltaRuleInstruction, GateInstruction, ScaleInstruction,
    ScaleByPositionInstruction, ScaleInputInstruction, ApplyInstruction, StateSpaceInstruction,
    SelectiveScanInstruction, ChooseKeysInstruction, AttendChosenInstruction,
    BoundedDecayInstruction, RepeatRowInstruction, MeanStreamsInstruction, StreamWeightsInstruction,
    MergeStreamsInstruction, UpdateStreamsInstruction, PoolInstruction, RopePartInstruction,
    StoreKeyInstruction, ChoosePoolsInstruction, ListPoolsInstruction, AttendPoolsInstruction,
    MaskExpertsInstruction, DotStreamsInstruction, EmbedNgramsInstruction, CapacityInstruction,
    PatchesInstruction, AttendWindowsInstruction, MergePatchesInstruction, MeanRowsInstruction,
    AttendRangeInstruction, EmbedPositionInstruction, AddPositionInstruction,
    ScaleByPeriodInstruction, ScaleRowsInstruction>;

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
