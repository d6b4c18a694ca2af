// The rules about one program: its buffers lie in the arena, every instruction's operands have the
// kinds and widths that it needs, and nothing is read that is not there.
//
// The last of these is a walk through the program that knows which buffers hold a value. Writing a
// buffer ends the value of every other one that shares bytes with it, so that lifetimes that
// plan-memory let overlap by mistake, and expert numbers that are not a router's, are found here
// and not as wrong tokens or wild reads.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <span>

namespace moert {

namespace {

const char *nameOf(BufferKind kind) {
  constexpr const char *kNames[] = {"f32", "i32", "quantized"};
  return kNames[static_cast<uint8_t>(kind)];
}

constexpr std::array<const char *, std::variant_size_v<Instruction>> kInstructionNames = {
    "embed",    "norm",  "quantize", "linear", "rope",      "store-kv", "attend",
    "activate", "route", "experts",  "add",    "gate-rows", "head"};

enum class Access {
  kRead,
  kWrite,
  kUpdate,  // Read, then written.
  kScratch, // Written; holds nothing afterwards.
};

/// A buffer that an instruction uses, and what it has to be.
struct Operand {
  const char *name;
  int32_t buffer;
  BufferKind kind;
  uint64_t width;
  uint32_t group; // Of kQuantized.
  Access access;
};

Operand f32(const char *name, int32_t buffer, uint64_t width, Access access) {
  return {name, buffer, BufferKind::kF32, width, 0, access};
}
Operand i32(const char *name, int32_t buffer, uint64_t width, Access access) {
  return {name, buffer, BufferKind::kI32, width, 0, access};
}
/// An input of a matrix: what its format wants.
Operand inputOf(const WeightFormat &format, const char *name, int32_t buffer, uint64_t width,
                Access access) {
  if (isQuantized(format.kind))
    return {name, buffer, BufferKind::kQuantized, width, format.activationGroup, access};
  return f32(name, buffer, width, access);
}

constexpr int64_t kNotRouted = -1;

/// Walks through one program. Borrows both; lives for one call of validateProgram().
class ProgramCheck {
public:
  ProgramCheck(const Artifact &whole, const Program &checked)
      : artifact(whole), program(checked), states(checked.buffers.size()),
        isSlotStored(whole.kvSlots.size()) {}

  Status run();

private:
  /// What a buffer holds at this point of the program.
  struct State {
    bool hasValue = false;
    int64_t routedLayer = kNotRouted; // The MoE layer whose router wrote it.
  };

  Status checkBuffer(const Buffer &buffer) const;
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
  Status check(const AddInstruction &i);
  Status check(const GateRowsInstruction &i);
  Status check(const HeadInstruction &i);

  // Where a width is not known from elsewhere, the buffer itself says it.
  Result<uint64_t> widthOf(const char *name, int32_t buffer) const;
  Result<const ResidentWeight *> weight(int32_t index) const;
  Status checkVector(const char *name, int32_t index, uint64_t width) const;
  Status checkOptionalVector(const char *name, int32_t index, uint64_t width) const;
  Result<const KvSlot *> slot(uint32_t index) const;
  Result<const MoeLayer *> moeLayer(uint32_t index) const;
  Status checkFinite(const char *name, float value) const;

  Status checkOperand(const Operand &operand) const;
  Status checkDisjoint(const Operand &a, const Operand &b, bool mayBeInPlace) const;
  void write(int32_t buffer, bool hasValue);

  /// Checks the operands and carries out what they do to the buffers' values. inPlace: written
  /// operands may lie exactly where read ones do.
  Status apply(std::initializer_list<Operand> operands, bool inPlace = false);

  const Artifact &artifact;
  const Program &program;
  std::vector<State> states;
  std::vector<bool> isSlotStored;
};

bool sharesBytes(const Buffer &a, const Buffer &b) {
  return a.offset < b.offset + b.bytesPerToken && b.offset < a.offset + a.bytesPerToken;
}

bool isSamePlace(const Buffer &a, const Buffer &b) {
  return a.offset == b.offset && a.bytesPerToken == b.bytesPerToken;
}

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

Status ProgramCheck::checkBuffer(const Buffer &buffer) const {
  bool isGroupRight = buffer.kind == BufferKind::kQuantized
                          ? buffer.group == 16 || buffer.group == 32 || buffer.group == 64
                          : buffer.group == 0;
  if (!isGroupRight)
    return invalidInput("group ", buffer.group, " of a ", nameOf(buffer.kind),
                        " buffer, expected 16, 32 or 64 where quantized, otherwise 0");
  if (buffer.width == 0)
    return invalidInput("width 0, expected at least 1");
  uint64_t bytes = bufferBytesPerToken(buffer.kind, buffer.width, buffer.group);
  if (buffer.bytesPerToken != bytes)
    return invalidInput(buffer.bytesPerToken, " bytes per token, a ", nameOf(buffer.kind),
                        " row of ", buffer.width, " has ", bytes);
  if (buffer.offset % kBufferAlignment != 0)
    return invalidInput("offset ", buffer.offset, ", expected a multiple of ", kBufferAlignment);
  if (!rangeFits(buffer.offset, buffer.bytesPerToken, program.arenaBytesPerToken))
    return invalidInput(buffer.bytesPerToken, " bytes at offset ", buffer.offset,
                        " leave the arena of ", program.arenaBytesPerToken, " bytes per token");
  return {};
}

Result<uint64_t> ProgramCheck::widthOf(const char *name, int32_t buffer) const {
  if (buffer < 0 || size_t(buffer) >= program.buffers.size())
    return invalidInput(name, " is buffer ", buffer, ", there are ", program.buffers.size());
  return uint64_t(program.buffers[size_t(buffer)].width);
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

Status ProgramCheck::checkOperand(const Operand &operand) const {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf(operand.name, operand.buffer));
  const Buffer &buffer = program.buffers[size_t(operand.buffer)];
  if (buffer.kind != operand.kind)
    return invalidInput(operand.name, " is ", nameOf(buffer.kind), ", expected ",
                        nameOf(operand.kind));
  if (width != operand.width)
    return invalidInput(operand.name, " has width ", width, ", expected ", operand.width);
  if (buffer.group != operand.group)
    return invalidInput(operand.name, " has group ", buffer.group, ", expected ", operand.group);
  bool isRead = operand.access == Access::kRead || operand.access == Access::kUpdate;
  if (isRead && !states[size_t(operand.buffer)].hasValue)
    return invalidInput(operand.name, " is buffer ", operand.buffer,
                        ", which holds no value here: it was never written or was overwritten");
  return {};
}

Status ProgramCheck::checkDisjoint(const Operand &a, const Operand &b, bool mayBeInPlace) const {
  const Buffer &first = program.buffers[size_t(a.buffer)];
  const Buffer &second = program.buffers[size_t(b.buffer)];
  if ((a.access == Access::kRead && b.access == Access::kRead) || !sharesBytes(first, second))
    return {};
  bool isInPlace = (a.access == Access::kRead || b.access == Access::kRead) &&
                   isSamePlace(first, second) && first.kind == second.kind;
  if (mayBeInPlace && isInPlace)
    return {};
  return invalidInput(a.name, " and ", b.name, " share bytes of the arena");
}

void ProgramCheck::write(int32_t buffer, bool hasValue) {
  const Buffer &written = program.buffers[size_t(buffer)];
  for (size_t i = 0; i < states.size(); ++i)
    if (sharesBytes(program.buffers[i], written))
      states[i] = {};
  states[size_t(buffer)].hasValue = hasValue;
}

Status ProgramCheck::apply(std::initializer_list<Operand> operands, bool inPlace) {
  for (const Operand &operand : operands)
    MOERT_RETURN_IF_ERROR(checkOperand(operand));
  for (const Operand *a = operands.begin(); a != operands.end(); ++a)
    for (const Operand *b = a + 1; b != operands.end(); ++b)
      MOERT_RETURN_IF_ERROR(checkDisjoint(*a, *b, inPlace));
  for (const Operand &operand : operands)
    if (operand.access != Access::kRead)
      write(operand.buffer, operand.access != Access::kScratch);
  return {};
}

Status ProgramCheck::check(const EmbedInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *table, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (table->shape.rows != artifact.model.vocabularySize)
    return invalidInput("the weight has ", table->shape.rows, " rows, expected one for each of ",
                        artifact.model.vocabularySize, " tokens");
  return apply({f32("dst", i.dst, table->shape.cols, Access::kWrite)});
}

Status ProgramCheck::check(const NormInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf("src", i.src));
  MOERT_RETURN_IF_ERROR(checkFinite("epsilon", i.epsilon));
  if (i.epsilon < 0)
    return invalidInput("epsilon is ", i.epsilon, ", expected at least 0");
  if (i.segment == 0 || width % i.segment != 0)
    return invalidInput("segment ", i.segment, ", expected a divisor of the width ", width);
  MOERT_RETURN_IF_ERROR(checkVector("weight", i.weight, i.segment));
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, i.segment));
  return apply({f32("src", i.src, width, Access::kRead), f32("dst", i.dst, width, Access::kWrite)},
               /*inPlace=*/true);
}

Status ProgramCheck::check(const QuantizeInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf("dst", i.dst));
  // Any group will do: whoever reads dst checks that it is the weight's.
  uint32_t group = program.buffers[size_t(i.dst)].group;
  return apply({f32("src", i.src, width, Access::kRead),
                {"dst", i.dst, BufferKind::kQuantized, width, group, Access::kWrite}});
}

Status ProgramCheck::check(const LinearInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *matrix, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, matrix->shape.rows));
  return apply({inputOf(matrix->format, "src", i.src, matrix->shape.cols, Access::kRead),
                f32("dst", i.dst, matrix->shape.rows, Access::kWrite)});
}

Status ProgramCheck::check(const RopeInstruction &i) {
  if (i.rope >= artifact.ropes.size())
    return invalidInput("rope ", i.rope, ", there are ", artifact.ropes.size());
  uint64_t pairs = artifact.ropes[i.rope].inverseFrequencies.size();
  if (pairs > i.headDim / 2)
    return invalidInput("rope ", i.rope, " has ", pairs, " frequencies, heads of ", i.headDim,
                        " elements have room for ", i.headDim / 2);
  return apply({f32("buffer", i.buffer, uint64_t(i.heads) * i.headDim, Access::kUpdate)});
}

Status ProgramCheck::check(const StoreKvInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const KvSlot *kv, slot(i.slot));
  if (isSlotStored[i.slot])
    return invalidInput("KV slot ", i.slot, " is stored twice");
  isSlotStored[i.slot] = true;
  return apply({f32("key", i.key, uint64_t(kv->kvHeads) * kv->keyDim, Access::kRead),
                f32("value", i.value, uint64_t(kv->kvHeads) * kv->valueDim, Access::kRead)});
}

Status ProgramCheck::check(const AttendInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const KvSlot *kv, slot(i.slot));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (!isSlotStored[i.slot])
    return invalidInput("KV slot ", i.slot, " has not been stored before");
  if (i.heads == 0 || i.heads % kv->kvHeads != 0)
    return invalidInput(i.heads, " heads, expected a multiple of the slot's ", kv->kvHeads);
  return apply({f32("query", i.query, uint64_t(i.heads) * kv->keyDim, Access::kRead),
                f32("dst", i.dst, uint64_t(i.heads) * kv->valueDim, Access::kWrite)});
}

Status ProgramCheck::check(const ActivateInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf("gate", i.gate));
  return apply({f32("gate", i.gate, width, Access::kRead), f32("up", i.up, width, Access::kRead),
                f32("dst", i.dst, width, Access::kWrite)},
               /*inPlace=*/true);
}

Status ProgramCheck::check(const RouteInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const MoeLayer *layer, moeLayer(i.moeLayer));
  MOERT_RETURN_IF_ERROR(checkFinite("weightScale", i.weightScale));
  if (i.topK == 0 || i.topK > layer->experts.size())
    return invalidInput("top ", i.topK, " of ", layer->experts.size(), " experts");
  MOERT_RETURN_IF_ERROR(apply({f32("scores", i.scores, layer->experts.size(), Access::kRead),
                               i32("experts", i.experts, i.topK, Access::kWrite),
                               f32("weights", i.weights, i.topK, Access::kWrite)}));
  states[size_t(i.experts)].routedLayer = i.moeLayer;
  states[size_t(i.weights)].routedLayer = i.moeLayer;
  return {};
}

Status ProgramCheck::check(const ExpertsInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const MoeLayer *layer, moeLayer(i.moeLayer));
  MOERT_ASSIGN_OR_RETURN(uint64_t topK, widthOf("experts", i.experts));
  MOERT_RETURN_IF_ERROR(widthOf("weights", i.weights).status());
  for (int32_t buffer : {i.experts, i.weights})
    if (states[size_t(buffer)].routedLayer != int64_t(i.moeLayer))
      return invalidInput("buffer ", buffer, " does not hold the routing of MoE layer ",
                          i.moeLayer);
  const WeightFormat &format = layer->experts.front().slices.front().format;
  uint64_t hidden = layer->matrices[2].shape.rows, width = layer->matrices[0].shape.rows;
  if (isQuantized(format.kind) != (i.hidden != kNone))
    return invalidInput("hidden is buffer ", i.hidden, ", expected one where the experts (here ",
                        moert::nameOf(format.kind), ") are quantized and none otherwise");

  // The input may be quantized already or, row by row, when it is gathered.
  MOERT_RETURN_IF_ERROR(widthOf("src", i.src).status());
  bool isSourceFloat = program.buffers[size_t(i.src)].kind == BufferKind::kF32;
  Operand src = isSourceFloat ? f32("src", i.src, hidden, Access::kRead)
                              : inputOf(format, "src", i.src, hidden, Access::kRead);
  Operand gathered = inputOf(format, "gathered", i.gathered, hidden, Access::kScratch);
  Operand experts = i32("experts", i.experts, topK, Access::kRead);
  Operand weights = f32("weights", i.weights, topK, Access::kRead);
  Operand dst = f32("dst", i.dst, hidden, Access::kWrite);
  Operand gate = f32("gate", i.gate, width, Access::kScratch);
  Operand up = f32("up", i.up, width, Access::kScratch);
  Operand ranks = f32("ranks", i.ranks, topK * roundUp(hidden, kRankRowElements), Access::kScratch);
  if (i.hidden == kNone)
    return apply({src, experts, weights, gathered, gate, up, ranks, dst});
  Operand down = inputOf(format, "hidden", i.hidden, width, Access::kScratch);
  return apply({src, experts, weights, gathered, gate, up, down, ranks, dst});
}

Status ProgramCheck::check(const AddInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf("a", i.a));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  return apply({f32("a", i.a, width, Access::kRead), f32("b", i.b, width, Access::kRead),
                f32("dst", i.dst, width, Access::kWrite)},
               /*inPlace=*/true);
}

Status ProgramCheck::check(const GateRowsInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(uint64_t width, widthOf("src", i.src));
  Operand gate = f32("gate", i.gate, 1, Access::kRead);
  Operand dst = f32("dst", i.dst, width, Access::kWrite);
  MOERT_RETURN_IF_ERROR(checkOperand(gate));
  MOERT_RETURN_IF_ERROR(checkOperand(dst));
  MOERT_RETURN_IF_ERROR(checkDisjoint(gate, dst, /*mayBeInPlace=*/false));
  return apply({f32("src", i.src, width, Access::kRead), gate, dst}, /*inPlace=*/true);
}

Status ProgramCheck::check(const HeadInstruction &i) {
  MOERT_ASSIGN_OR_RETURN(const ResidentWeight *matrix, weight(i.weight));
  MOERT_RETURN_IF_ERROR(checkFinite("scale", i.scale));
  if (matrix->shape.rows != artifact.model.vocabularySize)
    return invalidInput("the weight has ", matrix->shape.rows, " rows, expected one for each of ",
                        artifact.model.vocabularySize, " tokens");
  MOERT_RETURN_IF_ERROR(checkOptionalVector("bias", i.bias, matrix->shape.rows));
  return apply({inputOf(matrix->format, "src", i.src, matrix->shape.cols, Access::kRead)});
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
  for (size_t i = 0; i < program.buffers.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkBuffer(program.buffers[i]).withContext(strCat("buffer ", i)));
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
