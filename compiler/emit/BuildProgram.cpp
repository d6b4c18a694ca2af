#include "compiler/emit/BuildProgram.h"

#include "llvm/ADT/TypeSwitch.h"

namespace moec {

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Builds one program. The op's verifier has checked that every symbol and operand exists.
class ProgramBuilder {
public:
  explicit ProgramBuilder(ProgramOp from) : op(from) {
    ModuleOp module = op->getParentOfType<ModuleOp>();
    number<WeightOp>(module);
    number<MoeLayerOp>(module);
    number<KvSlotOp>(module);
    number<RopeOp>(module);
  }

  FailureOr<moert::Program> build();

private:
  template <typename OpT> void number(ModuleOp module) {
    for (auto [i, symbol] : llvm::enumerate(module.getOps<OpT>()))
      numbers[symbol.getSymName()] = static_cast<uint32_t>(i);
  }
  LogicalResult addBuffer(BufferOp buffer);

  uint32_t symbol(StringRef name) const { return numbers.lookup(name); }
  int32_t weight(StringRef name) const { return static_cast<int32_t>(symbol(name)); }
  int32_t weight(std::optional<StringRef> name) const {
    return name ? weight(*name) : moert::kNone;
  }
  int32_t buffer(Value value) const { return value ? buffers.at(value) : moert::kNone; }

  moert::Instruction instruction(ExecEmbedOp i);
  moert::Instruction instruction(ExecNormOp i);
  moert::Instruction instruction(ExecQuantizeOp i);
  moert::Instruction instruction(ExecLinearOp i);
  moert::Instruction instruction(ExecRopeOp i);
  moert::Instruction instruction(ExecStoreKvOp i);
  moert::Instruction instruction(ExecAttendOp i);
  moert::Instruction instruction(ExecActivateOp i);
  moert::Instruction instruction(ExecRouteOp i);
  moert::Instruction instruction(ExecPredictOp i);
  moert::Instruction instruction(ExecExpertsOp i);
  moert::Instruction instruction(ExecAddOp i);
  moert::Instruction instruction(ExecGateRowsOp i);
  moert::Instruction instruction(ExecHeadOp i);

  ProgramOp op;
  llvm::StringMap<uint32_t> numbers; // Symbol to number; kinds share no names.
  DenseMap<Value, int32_t> buffers;
  moert::Program program;
};

} // namespace

LogicalResult ProgramBuilder::addBuffer(BufferOp place) {
  if (!place.getOffset())
    return place.emitError("the buffer has no offset: run moe-plan-memory before "
                           "moe-lower-to-schedule");
  BufferType type = cast<BufferType>(place.getType());
  moert::Buffer added;
  added.kind = static_cast<moert::BufferKind>(type.getKind());
  added.width = type.getWidth();
  added.group = type.getGroup();
  added.offset = static_cast<uint64_t>(*place.getOffset());
  added.bytesPerToken = type.bytesPerToken();
  program.arenaBytesPerToken =
      std::max(program.arenaBytesPerToken, added.offset + added.bytesPerToken);
  buffers[place] = static_cast<int32_t>(program.buffers.size());
  program.buffers.push_back(added);
  return success();
}

moert::Instruction ProgramBuilder::instruction(ExecEmbedOp i) {
  return moert::EmbedInstruction{buffer(i.getDst()), weight(i.getWeight()),
                                 i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(ExecNormOp i) {
  return moert::NormInstruction{buffer(i.getSrc()),
                                buffer(i.getDst()),
                                weight(i.getWeight()),
                                weight(i.getBias()),
                                static_cast<moert::NormKind>(i.getKind()),
                                i.getEpsilon().convertToFloat(),
                                i.getSegment()};
}

moert::Instruction ProgramBuilder::instruction(ExecQuantizeOp i) {
  return moert::QuantizeInstruction{buffer(i.getSrc()), buffer(i.getDst())};
}

moert::Instruction ProgramBuilder::instruction(ExecLinearOp i) {
  return moert::LinearInstruction{buffer(i.getSrc()), buffer(i.getDst()), weight(i.getWeight()),
                                  weight(i.getBias())};
}

moert::Instruction ProgramBuilder::instruction(ExecRopeOp i) {
  return moert::RopeInstruction{buffer(i.getBuffer()), i.getHeads(), i.getHeadDim(),
                                symbol(i.getRope())};
}

moert::Instruction ProgramBuilder::instruction(ExecStoreKvOp i) {
  return moert::StoreKvInstruction{buffer(i.getKey()), buffer(i.getValue()), symbol(i.getSlot())};
}

moert::Instruction ProgramBuilder::instruction(ExecAttendOp i) {
  return moert::AttendInstruction{buffer(i.getQuery()), buffer(i.getDst()),
                                  symbol(i.getSlot()),  i.getHeads(),
                                  i.getWindow(),        i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(ExecActivateOp i) {
  return moert::ActivateInstruction{buffer(i.getGate()), buffer(i.getUp()), buffer(i.getDst()),
                                    static_cast<moert::Activation>(i.getActivation())};
}

moert::Instruction ProgramBuilder::instruction(ExecRouteOp i) {
  return moert::RouteInstruction{buffer(i.getScores()),
                                 buffer(i.getExperts()),
                                 buffer(i.getWeights()),
                                 symbol(i.getMoeLayer()),
                                 static_cast<moert::RouterScoring>(i.getScoring()),
                                 i.getTopK(),
                                 i.getRenormalize(),
                                 i.getWeightScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(ExecPredictOp i) {
  return moert::PredictInstruction{buffer(i.getSrc()),      buffer(i.getScores()),
                                   weight(i.getWeight()),   weight(i.getBias()),
                                   symbol(i.getMoeLayer()), i.getAhead()};
}

moert::Instruction ProgramBuilder::instruction(ExecExpertsOp i) {
  return moert::ExpertsInstruction{
      buffer(i.getSrc()),      buffer(i.getExperts()),  buffer(i.getWeights()), buffer(i.getDst()),
      symbol(i.getMoeLayer()), buffer(i.getGathered()), buffer(i.getGate()),    buffer(i.getUp()),
      buffer(i.getHidden()),   buffer(i.getRanks())};
}

moert::Instruction ProgramBuilder::instruction(ExecAddOp i) {
  return moert::AddInstruction{buffer(i.getA()), buffer(i.getB()), buffer(i.getDst()),
                               i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(ExecGateRowsOp i) {
  return moert::GateRowsInstruction{buffer(i.getSrc()), buffer(i.getGate()), buffer(i.getDst())};
}

moert::Instruction ProgramBuilder::instruction(ExecHeadOp i) {
  return moert::HeadInstruction{buffer(i.getSrc()), weight(i.getWeight()), weight(i.getBias()),
                                i.getScale().convertToFloat()};
}

FailureOr<moert::Program> ProgramBuilder::build() {
  program.name = op.getSymName().str();
  for (Operation &each : op.getBody().front()) {
    if (auto place = dyn_cast<BufferOp>(each)) {
      if (failed(addBuffer(place)))
        return failure();
      continue;
    }
    TypeSwitch<Operation *>(&each)
        .Case<ExecEmbedOp, ExecNormOp, ExecQuantizeOp, ExecLinearOp, ExecRopeOp, ExecStoreKvOp,
              ExecAttendOp, ExecActivateOp, ExecRouteOp, ExecPredictOp, ExecExpertsOp, ExecAddOp,
              ExecGateRowsOp, ExecHeadOp>(
            [this](auto i) { program.instructions.push_back(instruction(i)); });
    auto layer = each.getAttrOfType<IntegerAttr>(kLayerAttr);
    program.layers.push_back(layer ? static_cast<int32_t>(layer.getInt()) : moert::kNone);
  }
  return std::move(program);
}

FailureOr<moert::Program> buildProgram(ProgramOp program) {
  return ProgramBuilder(program).build();
}

} // namespace moec
