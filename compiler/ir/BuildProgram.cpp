#include "compiler/ir/BuildProgram.h"

#include "runtime/format/ProgramCheck.h"

namespace mlir::moe {

using moert::FieldRole;

moert::Artifact symbolsOf(ModuleOp module) {
  moert::Artifact symbols;
  for (WeightOp weight : module.getOps<WeightOp>()) {
    moert::ResidentWeight &resident = symbols.residents.emplace_back();
    resident.name = weight.getSource().getTensor().str();
    resident.shape = shapeOf(weight.getSource());
    if (weight.getFormat())
      resident.format = toWeightFormat(*weight.getFormat());
  }
  for (MoeLayerOp op : module.getOps<MoeLayerOp>()) {
    moert::MoeLayer &layer = symbols.moeLayers.emplace_back(matricesOf(op));
    layer.experts.resize(op.getExperts());
    for (uint32_t i = 0; op.getSlices() && i < op.getExperts(); ++i)
      for (const moert::ExpertFormat &format : op.formatsOf(i))
        layer.experts[i].slices.emplace_back().format = format;
  }
  for (KvSlotOp slot : module.getOps<KvSlotOp>())
    symbols.kvSlots.push_back({slot.getKvHeads(), slot.getKeyDim(), slot.getValueDim(),
                               static_cast<moert::KvKind>(slot.getKind().value_or(KvKind::kF32))});
  for (StateSlotOp slot : module.getOps<StateSlotOp>())
    symbols.stateSlots.push_back({slot.getRows(), slot.getWidth()});
  for (RopeOp op : module.getOps<RopeOp>()) {
    moert::Rope &rope = symbols.ropes.emplace_back();
    rope.style = static_cast<moert::RopeStyle>(op.getStyle());
    rope.attentionFactor = op.getAttentionFactor().convertToFloat();
    for (FloatAttr frequency : op.getInverseFrequencies().getAsRange<FloatAttr>())
      rope.inverseFrequencies.push_back(frequency.getValue().convertToFloat());
    if (!op.getOriginalPositions())
      continue;
    rope.originalPositions = *op.getOriginalPositions();
    rope.longAttentionFactor = op.getLongAttentionFactor()->convertToFloat();
    for (FloatAttr frequency : op.getLongInverseFrequencies()->getAsRange<FloatAttr>())
      rope.longInverseFrequencies.push_back(frequency.getValue().convertToFloat());
  }
  return symbols;
}

namespace {

/// Builds one program. Operations become instructions one by one.
class ProgramBuilder {
public:
  explicit ProgramBuilder(ProgramOp from) {
    ModuleOp module = from->getParentOfType<ModuleOp>();
    number<WeightOp>(module);
    number<MoeLayerOp>(module);
    number<KvSlotOp>(module);
    number<StateSlotOp>(module);
    number<RopeOp>(module);
    program.name = from.getSymName().str();
  }

  void add(BufferOp buffer);
  LogicalResult add(Operation *op);

  moert::Program program;

private:
  template <typename OpT> void number(ModuleOp module) {
    for (auto [i, symbol] : llvm::enumerate(module.getOps<OpT>()))
      symbols[symbol.getSymName()] = {symbol, static_cast<uint32_t>(i)};
  }
  template <typename OpT> FailureOr<uint32_t> numberOf(Operation *op, Attribute name);
  FailureOr<uint32_t> numberOf(Operation *op, FieldRole role, Attribute name);

  llvm::StringMap<std::pair<Operation *, uint32_t>> symbols; // Kinds share no names.
  DenseMap<Value, int32_t> buffers;
};

} // namespace

void ProgramBuilder::add(BufferOp place) {
  BufferType type = cast<BufferType>(place.getType());
  moert::Buffer added;
  added.kind = static_cast<moert::BufferKind>(type.getKind());
  added.width = type.getWidth();
  added.group = type.getGroup();
  added.offset = static_cast<uint64_t>(place.getOffset().value_or(0));
  added.bytesPerToken = type.bytesPerToken();
  program.arenaBytesPerToken =
      std::max(program.arenaBytesPerToken, added.offset + added.bytesPerToken);
  buffers[place] = static_cast<int32_t>(program.buffers.size());
  program.buffers.push_back(added);
}

template <typename OpT>
FailureOr<uint32_t> ProgramBuilder::numberOf(Operation *op, Attribute name) {
  auto found = symbols.find(cast<FlatSymbolRefAttr>(name).getValue());
  if (found == symbols.end() || !isa<OpT>(found->second.first))
    return op->emitOpError() << "found no " << OpT::getOperationName() << " named " << name;
  if (auto weight = dyn_cast<WeightOp>(found->second.first); weight && !weight.getFormat())
    return op->emitOpError() << "weight " << name << " has no format";
  return found->second.second;
}

FailureOr<uint32_t> ProgramBuilder::numberOf(Operation *op, FieldRole role, Attribute name) {
  if (role == FieldRole::kSlot)
    return numberOf<KvSlotOp>(op, name);
  if (role == FieldRole::kStateSlot)
    return numberOf<StateSlotOp>(op, name);
  if (role == FieldRole::kRope)
    return numberOf<RopeOp>(op, name);
  if (role == FieldRole::kMoeLayer)
    return numberOf<MoeLayerOp>(op, name);
  return numberOf<WeightOp>(op, name);
}

static std::optional<moert::Instruction> emptyInstructionOf(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (!name.consume_front("moe.exec."))
    return std::nullopt;
  for (size_t number = 0; number < moert::kInstructionKinds; ++number)
    if (moert::Instruction made = moert::emptyInstruction(number); moert::nameOf(made) == name)
      return made;
  return std::nullopt;
}

/// A number of any type, or a flag: a boolean, or an attribute that is present.
template <typename T> static T toNumber(Attribute attribute) {
  if constexpr (std::is_same_v<T, float>)
    return cast<FloatAttr>(attribute).getValue().convertToFloat();
  else if constexpr (std::is_same_v<T, bool>)
    return isa<UnitAttr>(attribute) || cast<BoolAttr>(attribute).getValue();
  else
    return static_cast<T>(cast<IntegerAttr>(attribute).getValue().getZExtValue());
}

LogicalResult ProgramBuilder::add(Operation *op) {
  std::optional<moert::Instruction> made = emptyInstructionOf(op);
  if (!made)
    return op->emitOpError("is not an instruction");
  size_t declared = 0, operand = 0;
  moert::describe(*made, [&](FieldRole role, const char *, auto &) { declared += isBuffer(role); });
  DictionaryAttr attributes = op->getAttrDictionary();
  bool isRight = true;
  moert::describe(*made, [&]<typename T>(FieldRole role, const char *name, T &field) {
    Attribute attribute = attributes.get(name);
    if (isBuffer(role)) {
      const bool isAbsent = isOptional(role) && op->getNumOperands() < declared;
      field = static_cast<T>(isAbsent ? moert::kNone : buffers.at(op->getOperand(operand++)));
    } else if (!attribute) {
      if (isOptional(role))
        field = static_cast<T>(moert::kNone);
    } else if (role == FieldRole::kNumber) {
      field = toNumber<T>(attribute);
    } else if (FailureOr<uint32_t> number = numberOf(op, role, attribute); succeeded(number)) {
      field = static_cast<T>(*number);
    } else {
      isRight = false;
    }
  });
  program.instructions.push_back(*made);
  auto layer = op->getAttrOfType<IntegerAttr>(kLayerAttr);
  program.layers.push_back(layer ? static_cast<int32_t>(layer.getInt()) : moert::kNone);
  return success(isRight);
}

FailureOr<moert::Program> buildProgram(ProgramOp program) {
  ProgramBuilder builder(program);
  for (Operation &op : program.getBody().front())
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      if (!buffer.getOffset())
        return buffer.emitError("the buffer has no offset: run moe-plan-memory before "
                                "moe-lower-to-schedule");
      builder.add(buffer);
    } else if (failed(builder.add(&op))) {
      return failure();
    }
  return std::move(builder.program);
}

void addProgram(moert::Program program, moert::Artifact &artifact) {
  for (const moert::Instruction &instruction : program.instructions)
    if (const auto *route = std::get_if<moert::RouteInstruction>(&instruction))
      artifact.moeLayers[route->moeLayer].topK =
          program.buffers[static_cast<size_t>(route->experts)].width;
  artifact.programs.push_back(std::move(program));
}

LogicalResult checkProgram(ProgramOp program) {
  const moert::Artifact symbols = symbolsOf(program->getParentOfType<ModuleOp>());
  ProgramBuilder builder(program);
  bool isPlanned = true;
  for (BufferOp buffer : program.getBody().front().getOps<BufferOp>()) {
    builder.add(buffer);
    isPlanned &= buffer.getOffset().has_value();
  }
  moert::ProgramCheck check(symbols, builder.program);
  if (moert::Status status = check.checkBuffers(); !status.isOk())
    return program.emitOpError(status.message());
  for (Operation &op : program.getBody().front()) {
    if (isa<BufferOp>(op))
      continue;
    if (failed(builder.add(&op)))
      return failure();
    moert::Status status =
        check.checkInstruction(builder.program.instructions.back(),
                               isPlanned ? moert::Values::kTracked : moert::Values::kIgnored);
    if (!status.isOk())
      return op.emitOpError(status.message());
  }
  return success();
}

} // namespace mlir::moe
