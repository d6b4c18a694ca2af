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

  moert::Instruction instruction(PlayEmbedOp i);
  moert::Instruction instruction(PlayNormOp i);
  moert::Instruction instruction(PlayQuantizeOp i);
  moert::Instruction instruction(PlayLinearOp i);
  moert::Instruction instruction(PlayRopeOp i);
  moert::Instruction instruction(PlayStoreKvOp i);
  moert::Instruction instruction(PlayAttendOp i);
  moert::Instruction instruction(PlayActivateOp i);
  moert::Instruction instruction(PlayRouteOp i);
  moert::Instruction instruction(PlayPredictOp i);
  moert::Instruction instruction(PlayExpertsOp i);
  moert::Instruction instruction(PlayAddOp i);
  moert::Instruction instruction(PlayGateRowsOp i);
  moert::Instruction instruction(PlayHeadOp i);

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

moert::Instruction ProgramBuilder::instruction(PlayEmbedOp i) {
  return moert::EmbedInstruction{buffer(i.getDst()), weight(i.getWeight()),
                                 i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(PlayNormOp i) {
  return moert::NormInstruction{buffer(i.getSrc()),
                                buffer(i.getDst()),
                                weight(i.getWeight()),
                                weight(i.getBias()),
                                static_cast<moert::NormKind>(i.getKind()),
                                i.getEpsilon().convertToFloat(),
                                i.getSegment()};
}

moert::Instruction ProgramBuilder::instruction(PlayQuantizeOp i) {
  return moert::QuantizeInstruction{buffer(i.getSrc()), buffer(i.getDst())};
}

moert::Instruction ProgramBuilder::instruction(PlayLinearOp i) {
  return moert::LinearInstruction{buffer(i.getSrc()), buffer(i.getDst()), weight(i.getWeight()),
                                  weight(i.getBias())};
}

moert::Instruction ProgramBuilder::instruction(PlayRopeOp i) {
  return moert::RopeInstruction{buffer(i.getBuffer()), i.getHeads(), i.getHeadDim(),
                                symbol(i.getRope())};
}

moert::Instruction ProgramBuilder::instruction(PlayStoreKvOp i) {
  return moert::StoreKvInstruction{buffer(i.getKey()), buffer(i.getValue()), symbol(i.getSlot())};
}

moert::Instruction ProgramBuilder::instruction(PlayAttendOp i) {
  return moert::AttendInstruction{buffer(i.getQuery()), buffer(i.getDst()),
                                  symbol(i.getSlot()),  i.getHeads(),
                                  i.getWindow(),        i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(PlayActivateOp i) {
  return moert::ActivateInstruction{buffer(i.getGate()), buffer(i.getUp()), buffer(i.getDst()),
                                    static_cast<moert::Activation>(i.getActivation())};
}

moert::Instruction ProgramBuilder::instruction(PlayRouteOp i) {
  return moert::RouteInstruction{buffer(i.getScores()),
                                 buffer(i.getExperts()),
                                 buffer(i.getWeights()),
                                 symbol(i.getMoeLayer()),
                                 static_cast<moert::RouterScoring>(i.getScoring()),
                                 i.getTopK(),
                                 i.getRenormalize(),
                                 i.getWeightScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(PlayPredictOp i) {
  return moert::PredictInstruction{buffer(i.getSrc()),      buffer(i.getScores()),
                                   weight(i.getWeight()),   weight(i.getBias()),
                                   symbol(i.getMoeLayer()), i.getAhead()};
}

moert::Instruction ProgramBuilder::instruction(PlayExpertsOp i) {
  return moert::ExpertsInstruction{
      buffer(i.getSrc()),      buffer(i.getExperts()),  buffer(i.getWeights()), buffer(i.getDst()),
      symbol(i.getMoeLayer()), buffer(i.getGathered()), buffer(i.getGate()),    buffer(i.getUp()),
      buffer(i.getHidden()),   buffer(i.getRanks())};
}

moert::Instruction ProgramBuilder::instruction(PlayAddOp i) {
  return moert::AddInstruction{buffer(i.getA()), buffer(i.getB()), buffer(i.getDst()),
                               i.getScale().convertToFloat()};
}

moert::Instruction ProgramBuilder::instruction(PlayGateRowsOp i) {
  return moert::GateRowsInstruction{buffer(i.getSrc()), buffer(i.getGate()), buffer(i.getDst())};
}

moert::Instruction ProgramBuilder::instruction(PlayHeadOp i) {
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
        .Case<PlayEmbedOp, PlayNormOp, PlayQuantizeOp, PlayLinearOp, PlayRopeOp, PlayStoreKvOp,
              PlayAttendOp, PlayActivateOp, PlayRouteOp, PlayPredictOp, PlayExpertsOp, PlayAddOp,
              PlayGateRowsOp, PlayHeadOp>(
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
