#include "compiler/ir/BuildProgram.h"

#include "runtime/format/ProgramCheck.h"

#include <map>

namespace mlir::moe {

using moert::FieldRole;

moert::Artifact symbolsOf(ModuleOp module) {
  moert::Artifact symbols;
  if (auto model = module->getAttrOfType<ModelAttr>(kModelAttr)) {
    symbols.model.maxPositions = model.getMaxPositions();
    symbols.model.vocabularySize = model.getVocabulary();
  }
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
    for (uint32_t i = 0; i < op.getExperts(); ++i)
      if (!op.getSlices())
        layer.experts[i].slices.emplace_back();
      else
        for (const moert::ExpertFormat &format : op.formatsOf(i))
          layer.experts[i].slices.emplace_back().format = format;
  }
  for (KvSlotOp slot : module.getOps<KvSlotOp>())
    symbols.kvSlots.push_back({slot.getKvHeads(), slot.getKeyDim(), slot.getValueDim(),
                               static_cast<moert::KvKind>(slot.getKind().value_or(KvKind::kF32))});
  for (StateSlotOp slot : module.getOps<StateSlotOp>())
    symbols.stateSlots.push_back({slot.getRows(), slot.getWidth()});
  for (RopeTableOp op : module.getOps<RopeTableOp>()) {
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

bool isBufferized(ProgramOp program) {
  return llvm::any_of(program.block(), [](Operation &op) { return op.hasAttr(kOffsetsAttr); });
}

void removeOffsets(ProgramOp program) {
  for (Operation &op : program.block())
    op.removeAttr(kOffsetsAttr);
}

namespace {

/// Builds one program. Operations become instructions one by one; a row is a buffer of its own
/// until it has an offset, and buffers of one type at one offset are the same.
class ProgramBuilder {
public:
  ProgramBuilder(ProgramOp from, const moert::Artifact &artifact) : symbols(artifact) {
    ModuleOp module = from->getParentOfType<ModuleOp>();
    number<WeightOp>(module);
    number<MoeLayerOp>(module);
    number<KvSlotOp>(module);
    number<StateSlotOp>(module);
    number<RopeTableOp>(module);
    program.name = from.getSymName().str();
    isPlaced = isBufferized(from);
  }

  LogicalResult add(Operation *op);
  LogicalResult addAll(ProgramOp from) {
    for (Operation &op : from.block())
      if (failed(add(&op)))
        return failure();
    return success();
  }

  moert::Program program;
  bool isPlaced;

private:
  template <typename OpT> void number(ModuleOp module) {
    for (auto [i, symbol] : llvm::enumerate(module.getOps<OpT>()))
      numbers[symbol.getSymName()] = {symbol, static_cast<uint32_t>(i)};
  }
  template <typename OpT> FailureOr<uint32_t> numberOf(Operation *op, Attribute name);
  FailureOr<uint32_t> numberOf(Operation *op, FieldRole role, Attribute name);
  LogicalResult setInputs(Operation *op, moert::Instruction &made);
  LogicalResult setOutputs(Operation *op, moert::Instruction &made);
  LogicalResult setScratch(Operation *op, moert::Instruction &made);
  /// Adds a buffer of so many rows per token.
  int32_t addBuffer(Operation *op, moert::Buffer added, uint32_t rows);

  const moert::Artifact &symbols;
  llvm::StringMap<std::pair<Operation *, uint32_t>> numbers; // Kinds share no names.
  DenseMap<Value, int32_t> buffers;
  std::map<std::tuple<moert::BufferKind, uint32_t, uint32_t, uint32_t, uint64_t>, int32_t> places;
  size_t nextOffset = 0; // The added op's.
};

} // namespace

static ArrayRef<int64_t> offsetsOf(Operation *op) {
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
  return offsets ? offsets.asArrayRef() : ArrayRef<int64_t>();
}

int32_t ProgramBuilder::addBuffer(Operation *op, moert::Buffer added, uint32_t rows) {
  added.bytesPerToken = added.bytesPerRow() * rows;
  const auto next = static_cast<int32_t>(program.buffers.size());
  if (isPlaced) {
    ArrayRef<int64_t> offsets = offsetsOf(op);
    added.offset = nextOffset < offsets.size() ? static_cast<uint64_t>(offsets[nextOffset]) : 0;
    ++nextOffset;
    auto [place, isNew] =
        places.try_emplace({added.kind, added.width, added.group, rows, added.offset}, next);
    if (!isNew)
      return place->second;
  }
  program.arenaBytesPerToken =
      std::max(program.arenaBytesPerToken, added.offset + added.bytesPerToken);
  program.buffers.push_back(added);
  return next;
}

template <typename OpT>
FailureOr<uint32_t> ProgramBuilder::numberOf(Operation *op, Attribute name) {
  auto found = numbers.find(cast<FlatSymbolRefAttr>(name).getValue());
  if (found == numbers.end() || !isa<OpT>(found->second.first))
    return op->emitOpError() << "found no " << OpT::getOperationName() << " named " << name;
  return found->second.second;
}

FailureOr<uint32_t> ProgramBuilder::numberOf(Operation *op, FieldRole role, Attribute name) {
  if (role == FieldRole::kSlot)
    return numberOf<KvSlotOp>(op, name);
  if (role == FieldRole::kStateSlot)
    return numberOf<StateSlotOp>(op, name);
  if (role == FieldRole::kRope)
    return numberOf<RopeTableOp>(op, name);
  if (role == FieldRole::kMoeLayer)
    return numberOf<MoeLayerOp>(op, name);
  return numberOf<WeightOp>(op, name);
}

static std::optional<moert::Instruction> emptyInstructionOf(Operation *op) {
  StringRef name = op->getName().getStringRef();
  name.consume_front("moe.");
  for (size_t number = 0; number < moert::kInstructionKinds; ++number)
    if (moert::Instruction made = moert::emptyInstruction(number); moert::nameOf(made) == name)
      return made;
  return std::nullopt;
}

/// A number of any type, or a flag, which is present.
template <typename T> static T toNumber(Attribute attribute) {
  if constexpr (std::is_same_v<T, float>)
    return cast<FloatAttr>(attribute).getValue().convertToFloat();
  else if constexpr (std::is_same_v<T, bool>)
    return true;
  else
    return static_cast<T>(cast<IntegerAttr>(attribute).getValue().getZExtValue());
}

LogicalResult ProgramBuilder::setInputs(Operation *op, moert::Instruction &made) {
  unsigned operand = 0;
  bool isRight = true;
  moert::describe(made, [&]<typename T>(FieldRole role, const char *name, T &field) {
    Attribute attribute = isBuffer(role) ? Attribute() : op->getAttr(name);
    if (isInput(role)) {
      field = static_cast<T>(buffers.at(op->getOperand(operand++)));
    } else if (!attribute) {
      if (isBuffer(role) || isOptional(role))
        field = static_cast<T>(moert::kNone);
    } else if (role == FieldRole::kNumber) {
      field = toNumber<T>(attribute);
    } else if (FailureOr<uint32_t> number = numberOf(op, role, attribute); succeeded(number)) {
      field = static_cast<T>(*number);
    } else {
      isRight = false;
    }
  });
  return success(isRight);
}

/// No instruction copies a row, so nothing may read an updated one as it was.
static LogicalResult checkUpdate(Operation *op, Value updated) {
  for (Operation *user : updated.getUsers())
    if (op->isBeforeInBlock(user))
      return op->emitOpError() << "updates a row that " << user->getName() << " reads later";
  return success();
}

LogicalResult ProgramBuilder::setOutputs(Operation *op, moert::Instruction &made) {
  unsigned operand = 0, result = 0;
  bool isRight = true;
  moert::describe(made, [&]<typename T>(FieldRole role, const char *, T &field) {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (role == FieldRole::kUpdate) {
        isRight &= succeeded(checkUpdate(op, op->getOperand(operand)));
        buffers[op->getResult(result++)] = field;
      } else if (role == FieldRole::kWrite) {
        auto type = cast<RowType>(op->getResult(result).getType());
        FailureOr<int32_t> added = addBuffer(op,
                                             {static_cast<moert::BufferKind>(type.getKind()),
                                              type.getWidth(), type.getGroup(), 0, 0},
                                             type.getRows());
        isRight &= succeeded(added);
        field = buffers[op->getResult(result++)] = added.value_or(moert::kNone);
      }
      operand += isInput(role);
    }
  });
  return success(isRight);
}

LogicalResult ProgramBuilder::setScratch(Operation *op, moert::Instruction &made) {
  bool hasScratch = false;
  moert::describe(made, [&](FieldRole role, const char *, auto &) {
    hasScratch |= role == FieldRole::kScratch || role == FieldRole::kOptionalScratch;
  });
  if (!hasScratch)
    return success();
  auto shapes = moert::shapesOf(symbols, program, made);
  if (!shapes.isOk())
    return op->emitOpError(shapes.status().message());
  const uint32_t rows = cast<RowType>(op->getOperand(0).getType()).getRows();
  for (FieldRole which : {FieldRole::kScratch, FieldRole::kOptionalScratch})
    moert::describeShaped(
        made, *shapes, [&](FieldRole role, const char *, int32_t &field, const moert::Shape &of) {
          if (role == which && (!isOptional(role) || isQuantized(of.kind)))
            field = addBuffer(op, {of.kind, static_cast<uint32_t>(of.width), of.group, 0, 0}, rows);
        });
  return success();
}

LogicalResult ProgramBuilder::add(Operation *op) {
  std::optional<moert::Instruction> made = emptyInstructionOf(op);
  if (!made)
    return op->emitOpError("is not an instruction");
  nextOffset = 0;
  if (failed(setInputs(op, *made)) || failed(setOutputs(op, *made)) ||
      failed(setScratch(op, *made)))
    return failure();
  if (const size_t found = offsetsOf(op).size(); isPlaced && found != nextOffset)
    return op->emitOpError() << "has " << found << " offsets, expected " << nextOffset
                             << ": run moe-bufferize again";
  program.instructions.push_back(*made);
  auto layer = op->getAttrOfType<IntegerAttr>(kLayerAttr);
  program.layers.push_back(layer ? static_cast<int32_t>(layer.getInt()) : moert::kNone);
  return success();
}

FailureOr<moert::Program> buildProgram(ProgramOp program) {
  const moert::Artifact symbols = symbolsOf(program->getParentOfType<ModuleOp>());
  ProgramBuilder builder(program, symbols);
  if (failed(builder.addAll(program)))
    return failure();
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
  ProgramBuilder builder(program, symbols);
  if (failed(builder.addAll(program)))
    return failure();
  moert::ProgramCheck check(symbols, builder.program);
  if (moert::Status status = check.checkBuffers(); !status.isOk())
    return program.emitOpError(status.message());
  const auto values = builder.isPlaced ? moert::Values::kTracked : moert::Values::kIgnored;
  for (auto [op, instruction] : llvm::zip_equal(program.block(), builder.program.instructions))
    if (moert::Status status = check.checkInstruction(instruction, values); !status.isOk())
      return op.emitOpError(status.message());
  return success();
}

LogicalResult forEachInput(ProgramOp program,
                           llvm::function_ref<void(OpOperand &, const moert::Shape &)> visit) {
  const moert::Artifact symbols = symbolsOf(program->getParentOfType<ModuleOp>());
  ProgramBuilder builder(program, symbols);
  for (Operation &op : llvm::make_early_inc_range(program.block())) {
    if (failed(builder.add(&op)))
      return failure();
    const moert::Instruction &instruction = builder.program.instructions.back();
    auto shapes = moert::shapesOf(symbols, builder.program, instruction);
    if (!shapes.isOk())
      return op.emitOpError(shapes.status().message());
    unsigned operand = 0;
    moert::describeShaped(instruction, *shapes,
                          [&](FieldRole role, const char *, int32_t, const moert::Shape &needed) {
                            if (isInput(role))
                              visit(op.getOpOperand(operand++), needed);
                          });
  }
  return success();
}

} // namespace mlir::moe
