// The rules about one program: its buffers lie in the arena, every instruction's operands have the
// kinds and widths that it needs, and every value that is read was written before.
//
// The last rule is checked by a walk through the program that tracks which buffers hold a value
// (BufferWalk.h). It finds lifetimes that overlap by mistake, and expert numbers that no router
// wrote, before they become wrong tokens or wild reads.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/BufferWalk.h"
#include "runtime/format/ValidateRules.h"
#include "runtime/policy/Prefetches.h"

#include <array>
#include <cmath>
#include <optional>

namespace moert {

namespace {

constexpr std::array<const char *, std::variant_size_v<Instruction>> kInstructionNames = {
    "embed",    "norm",  "quantize", "linear",  "rope", "store-kv",  "attend",
    "activate", "route", "experts",  "predict", "add",  "gate-rows", "head"};

/// The input operand that a matrix of this format needs.
Operand inputOf(const WeightFormat &format, const char *name, int32_t buffer, uint64_t width,
                Access access) {
  if (isQuantized(format.kind))
    return {name, buffer, BufferKind::kQuantized, width, format.activationGroup, access};
  return f32Operand(name, buffer, width, access);
}

/// Walks through one program. Borrows both arguments; lives for one call of validateProgram().
class ProgramCheck {
public:
  ProgramCheck(const Artifact &whole, const Program &checked)
      : artifact(whole), program(checked), buffers(checked), isSlotStored(whole.kvSlots.size()) {}

  Status run();

private:
  Status checkLayers() const;
  Status checkEnd() const;

  Status check(const EmbedInstruction &i);
  Status check(const NormInstruction &i);
  Status check(const QuantizeInstruction &i);
  Status check(const LinearInstruction &i);
  Status check(const RopeInstruction &i);
  Status check(const StoreKvInstruction &i);
  Status check(const AttendInstruction &i);
  Status check(const ActivateInstruction &i);
  Status check(const RouteInstruction &i);
  Status check(const ExpertsInstruction &i);
  Status check(const PredictInstruction &i);
  Status check(const AddInstruction &i);
  Status check(const GateRowsInstruction &i);
  Status check(const HeadInstruction &i);

  Result<const ResidentWeight *> weight(int32_t index) const;
  Status checkVector(const char *name, int32_t index, uint64_t width) const;
  Status checkOptionalVector(const char *name, int32_t index, uint64_t width) const;
  Result<const KvSlot *> slot(uint32_t index) const;
  Result<const MoeLayer *> moeLayer(uint32_t index) const;
  Status checkFinite(const char *name, float value) const;

  const Artifact &artifact;
  const Program &program;
  BufferWalk buffers;
  std::vector<bool> isSlotStored;
  std::optional<uint32_t> routedLayer; // The MoE layer whose route came last.
};

Status ProgramCheck::checkLayers() const {
  if (program.layers.size() != program.instructions.size())
    return invalidInput("layers of ", program.layers.size(), " instructions, expected ",
                        program.instructions.size());
  for (int32_t layer : program.layers)
    if (layer < kNone || layer >= int64_t(artifact.model.layers))
      return invalidInput("an instruction of layer ", layer, ", expected -1 to ",
                          artifact.model.layers - 1);
  return {};
}

Result<const ResidentWeight *> ProgramCheck::weight(int32_t index) const {
  if (index < 0 || size_t(index) >= artifact.residents.size())
    return invalidInput("weight ", index, ", there are ", artifact.residents.size());
  return &artifact.residents[size_t(index)];
}

Status ProgramCheck::checkVector(const char *name, int32_t index, uint64_t width) const {
  auto vector = weight(index);
  if (!vector.isOk())
    return vector.status().withContext(name);
  const ResidentWeight &found = **vector;
  if (found.format.kind != WeightKind::kF32 || found.shape.rows != 1 || found.shape.cols != width)
    return invalidInput(name, " is a ", found.shape.rows, " x ", found.shape.cols, " matrix of ",
                        moert::nameOf(found.format.kind), ", expected 1 x ", width, " of f32");
  return {};
}

Status ProgramCheck::checkOptionalVector(const char *name, int32_t index, uint64_t width) const {
  return index == kNone ? Status() : checkVector(name, index, width);
}

Result<const KvSlot *> ProgramCheck::slot(uint32_t index) const {
  if (index >= artifact.kvSlots.size())
    return invalidInput("KV slot ", index, ", there are ", artifact.kvSlots.size());
  return &artifact.kvSlots[index];
}

Result<const MoeLayer *> ProgramCheck::moeLayer(uint32_t index) const {
  if (index >= artifact.moeLayers.size())
    return invalidInput("MoE layer ", index, ", there are ", artifact.moeLayers.size());
  return &artifact.moeLayers[index];
}

Status ProgramCheck::checkFinite(const char *name, float value) const {
  if (!std::isfinite(value))
    return invalidInput(name, " is ", value, ", expected a finite number");
  return {};
}

Status ProgramCheck::check(const EmbedInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *table, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (table->shape.rows != artifact.model.vocabularySize)
    return invalidInput("the weight has ", table->shape.rows, " rows, expected one for each of ",
                        artifact.model.vocabularySize, " tokens");
  return buffers.apply({f32Operand("dst", i.dst, table->shape.cols, Access::kWrite)});
}

Status ProgramCheck::check(const NormInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, buffers.widthOf("src", i.src));
  MOERT_RETURN_IF_ERROR(checkFinite("epsilon", i.epsilon));
  if (i.epsilon < 0)
    return invalidInput("epsilon is ", i.epsilon, ", expected at least 0");
  if (i.segment == 0 || width % i.segment != 0)
    return invalidInput("segment ", i.segment, ", expected a divisor of the width ", width);
  MOERT_RETURN_IF_ERROR(checkVector("weight", i.weight, i.segment));
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, i.segment));
  return buffers.apply({f32Operand("src", i.src, width, Access::kRead),
                        f32Operand("dst", i.dst, width, Access::kWrite)},
                       /*inPlace=*/true);
}

Status ProgramCheck::check(const QuantizeInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, buffers.widthOf("dst", i.dst));
  // Any group is accepted here: the instruction that reads dst checks that it is the weight's.
  uint32_t group = program.buffers[size_t(i.dst)].group;
  return buffers.apply({f32Operand("src", i.src, width, Access::kRead),
                        {"dst", i.dst, BufferKind::kQuantized, width, group, Access::kWrite}});
}

Status ProgramCheck::check(const LinearInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *matrix, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, matrix->shape.rows));
  return buffers.apply({inputOf(matrix->format, "src", i.src, matrix->shape.cols, Access::kRead),
                        f32Operand("dst", i.dst, matrix->shape.rows, Access::kWrite)});
}

Status ProgramCheck::check(const RopeInstruction &i) {
  if (i.rope >= artifact.ropes.size())
    return invalidInput("rope ", i.rope, ", there are ", artifact.ropes.size());
  uint64_t pairs = artifact.ropes[i.rope].inverseFrequencies.size();
  if (pairs > i.headDim / 2)
    return invalidInput("rope ", i.rope, " has ", pairs, " frequencies, heads of ", i.headDim,
                        " elements have room for ", i.headDim / 2);
  return buffers.apply(
      {f32Operand("buffer", i.buffer, uint64_t(i.heads) * i.headDim, Access::kUpdate)});
}

Status ProgramCheck::check(const StoreKvInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const KvSlot *kv, slot(i.slot));
  if (isSlotStored[i.slot])
    return invalidInput("KV slot ", i.slot, " is stored twice");
  isSlotStored[i.slot] = true;
  return buffers.apply(
      {f32Operand("key", i.key, uint64_t(kv->kvHeads) * kv->keyDim, Access::kRead),
       f32Operand("value", i.value, uint64_t(kv->kvHeads) * kv->valueDim, Access::kRead)});
}

Status ProgramCheck::check(const AttendInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const KvSlot *kv, slot(i.slot));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (!isSlotStored[i.slot])
    return invalidInput("KV slot ", i.slot, " has not been stored before");
  if (i.heads == 0 || i.heads % kv->kvHeads != 0)
    return invalidInput(i.heads, " heads, expected a multiple of the slot's ", kv->kvHeads);
  return buffers.apply(
      {f32Operand("query", i.query, uint64_t(i.heads) * kv->keyDim, Access::kRead),
       f32Operand("dst", i.dst, uint64_t(i.heads) * kv->valueDim, Access::kWrite)});
}

Status ProgramCheck::check(const ActivateInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, buffers.widthOf("gate", i.gate));
  return buffers.apply({f32Operand("gate", i.gate, width, Access::kRead),
                        f32Operand("up", i.up, width, Access::kRead),
                        f32Operand("dst", i.dst, width, Access::kWrite)},
                       /*inPlace=*/true);
}

Status ProgramCheck::check(const RouteInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const MoeLayer *layer, moeLayer(i.moeLayer));
  MOERT_RETURN_IF_ERROR(checkFinite("weightScale", i.weightScale));
  if (i.topK == 0 || i.topK > layer->experts.size())
    return invalidInput("top ", i.topK, " of ", layer->experts.size(), " experts");
  // An activation-path table needs the experts chosen by the two layers before the predicted one.
  if (const uint32_t expected = routedLayer ? *routedLayer + 1 : 0; i.moeLayer != expected)
    return invalidInput("MoE layer ", i.moeLayer, " is routed, expected MoE layer ", expected,
                        ": a program routes all MoE layers in order, from the first");
  MOERT_RETURN_IF_ERROR(
      buffers.apply({f32Operand("scores", i.scores, layer->experts.size(), Access::kRead),
                     i32Operand("experts", i.experts, i.topK, Access::kWrite),
                     f32Operand("weights", i.weights, i.topK, Access::kWrite)}));
  buffers.setRouting(i.experts, i.moeLayer);
  buffers.setRouting(i.weights, i.moeLayer);
  routedLayer = i.moeLayer;
  return {};
}

Status ProgramCheck::check(const ExpertsInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const MoeLayer *layer, moeLayer(i.moeLayer));
  MOERT_ASSIGN_OR_RETURN(uint64_t topK, buffers.widthOf("experts", i.experts));
  MOERT_RETURN_IF_ERROR(buffers.widthOf("weights", i.weights).status());
  for (int32_t buffer : {i.experts, i.weights})
    MOERT_RETURN_IF_ERROR(buffers.checkRouting(buffer, i.moeLayer));
  const WeightFormat &format = layer->experts.front().slices.front().format;
  uint64_t hidden = layer->matrices[2].shape.rows, width = layer->matrices[0].shape.rows;
  if (isQuantized(format.kind) != (i.hidden != kNone))
    return invalidInput("hidden is buffer ", i.hidden, ", expected one where the experts (here ",
                        moert::nameOf(format.kind), ") are quantized and none otherwise");

  // The input may be quantized already or, row by row, when it is gathered.
  MOERT_RETURN_IF_ERROR(buffers.widthOf("src", i.src).status());
  bool isSourceFloat = program.buffers[size_t(i.src)].kind == BufferKind::kF32;
  Operand src = isSourceFloat ? f32Operand("src", i.src, hidden, Access::kRead)
                              : inputOf(format, "src", i.src, hidden, Access::kRead);
  Operand gathered = inputOf(format, "gathered", i.gathered, hidden, Access::kScratch);
  Operand experts = i32Operand("experts", i.experts, topK, Access::kRead);
  Operand weights = f32Operand("weights", i.weights, topK, Access::kRead);
  Operand dst = f32Operand("dst", i.dst, hidden, Access::kWrite);
  Operand gate = f32Operand("gate", i.gate, width, Access::kScratch);
  Operand up = f32Operand("up", i.up, width, Access::kScratch);
  Operand ranks =
      f32Operand("ranks", i.ranks, topK * roundUp(hidden, kRankRowElements), Access::kScratch);
  if (i.hidden == kNone)
    return buffers.apply({src, experts, weights, gathered, gate, up, ranks, dst});
  Operand down = inputOf(format, "hidden", i.hidden, width, Access::kScratch);
  return buffers.apply({src, experts, weights, gathered, gate, up, down, ranks, dst});
}

// Its scores are scratch: their values depend on the plan, so no instruction may read them.
Status ProgramCheck::check(const PredictInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const MoeLayer *layer, moeLayer(i.moeLayer));
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *matrix, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkRange("ahead", i.ahead, 1, kMostAhead));
  if (!routedLayer || uint64_t(*routedLayer) + i.ahead != i.moeLayer)
    return invalidInput("MoE layer ", i.moeLayer, " is predicted ", i.ahead, " ahead after ",
                        routedLayer ? strCat("the route of MoE layer ", *routedLayer) : "no route",
                        ", expected that of MoE layer ", int64_t(i.moeLayer) - i.ahead);
  if (isQuantized(matrix->format.kind))
    return invalidInput("the weight is ", moert::nameOf(matrix->format.kind), ", expected floats");
  if (matrix->shape.rows != layer->experts.size())
    return invalidInput("the weight has ", matrix->shape.rows, " rows, expected one for each of ",
                        layer->experts.size(), " experts");
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, matrix->shape.rows));
  return buffers.apply({f32Operand("src", i.src, matrix->shape.cols, Access::kRead),
                        f32Operand("scores", i.scores, matrix->shape.rows, Access::kScratch)});
}

Status ProgramCheck::check(const AddInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, buffers.widthOf("a", i.a));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  return buffers.apply({f32Operand("a", i.a, width, Access::kRead),
                        f32Operand("b", i.b, width, Access::kRead),
                        f32Operand("dst", i.dst, width, Access::kWrite)},
                       /*inPlace=*/true);
}

Status ProgramCheck::check(const GateRowsInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, buffers.widthOf("src", i.src));
  Operand gate = f32Operand("gate", i.gate, 1, Access::kRead);
  Operand dst = f32Operand("dst", i.dst, width, Access::kWrite);
  MOERT_RETURN_IF_ERROR(buffers.checkOperand(gate));
  MOERT_RETURN_IF_ERROR(buffers.checkOperand(dst));
  MOERT_RETURN_IF_ERROR(buffers.checkDisjoint(gate, dst, /*mayBeInPlace=*/false));
  return buffers.apply({f32Operand("src", i.src, width, Access::kRead), gate, dst},
                       /*inPlace=*/true);
}

Status ProgramCheck::check(const HeadInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *matrix, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (matrix->shape.rows != artifact.model.vocabularySize)
    return invalidInput("the weight has ", matrix->shape.rows, " rows, expected one for each of ",
                        artifact.model.vocabularySize, " tokens");
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, matrix->shape.rows));
  return buffers.apply({inputOf(matrix->format, "src", i.src, matrix->shape.cols, Access::kRead)});
}

Status ProgramCheck::checkEnd() const {
  if (!std::holds_alternative<HeadInstruction>(program.instructions.back()))
    return invalidInput("the last instruction is ",
                        kInstructionNames[program.instructions.back().index()], ", expected head");
  for (size_t i = 0; i < isSlotStored.size(); ++i)
    if (!isSlotStored[i])
      return invalidInput("KV slot ", i, " is never stored");
  return {};
}

Status ProgramCheck::run() {
  MOERT_RETURN_IF_ERROR(checkLayers());
  if (program.buffers.size() > kMaxBuffers)
    return invalidInput(program.buffers.size(), " buffers, expected at most ", kMaxBuffers);
  if (program.instructions.empty() || program.instructions.size() > kMaxInstructions)
    return invalidInput(program.instructions.size(), " instructions, expected 1 to ",
                        kMaxInstructions);
  if (program.arenaBytesPerToken > kMaxBytesPerToken)
    return invalidInput("an arena of ", program.arenaBytesPerToken,
                        " bytes per token, expected at most ", kMaxBytesPerToken);
  MOERT_RETURN_IF_ERROR(buffers.checkBuffers());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    auto where = [&] {
      return strCat("instruction ", i, " (", kInstructionNames[instruction.index()], ")");
    };
    if (std::holds_alternative<HeadInstruction>(instruction) &&
        i + 1 != program.instructions.size())
      return invalidInput(where(), ": a head ends the program, but ",
                          program.instructions.size() - i - 1, " instructions follow");
    Status status = std::visit([this](const auto &content) { return check(content); }, instruction);
    if (!status.isOk())
      return std::move(status).withContext(where());
  }
  return checkEnd();
}

} // namespace

Status validateProgram(const Artifact &artifact, const Program &program) {
  return ProgramCheck(artifact, program).run();
}

} // namespace moert
