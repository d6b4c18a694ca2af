#include "compiler/translate/ImportArtifact.h"

#include "compiler/ir/BuildProgram.h"
#include "compiler/ir/PlanAttrs.h"
#include "compiler/ir/SourceAttrs.h"
#include "runtime/format/WeightsChecksum.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

namespace moec {

using namespace mlir;
using namespace mlir::moe;
using moert::FieldRole;

namespace {

/// Builds one module. Symbols are declared first, each kind in the artifact's order; programs refer
/// to them by their numbers in it.
class ArtifactImporter {
public:
  ArtifactImporter(MLIRContext *context, const moert::Artifact &from)
      : artifact(from), builder(context), where(builder.getUnknownLoc()),
        module(ModuleOp::create(where)), symbols(*module) {
    builder.setInsertionPointToEnd(module->getBody());
  }

  OwningOpRef<ModuleOp> build(StringRef path);

private:
  using Symbols = SmallVector<FlatSymbolRefAttr>;

  void setAttributes(StringRef path);
  /// The op's name, with a number where another symbol has it.
  FlatSymbolRefAttr declared(Operation *op) { return FlatSymbolRefAttr::get(symbols.insert(op)); }
  void declareWeight(const moert::ResidentWeight &weight);
  void declareLayer(const moert::MoeLayer &layer);
  ExpertMatrixAttr matrixOf(const moert::MoeLayer &layer, const moert::ExpertMatrix &matrix);
  void addProgram(const moert::Program &program);
  void addInstruction(const moert::Program &program, size_t number, MutableArrayRef<Value> rows);
  const Symbols &symbolsOf(FieldRole role) const;
  FloatAttr f32(float value) { return builder.getF32FloatAttr(value); }

  const moert::Artifact &artifact;
  OpBuilder builder;
  Location where;
  OwningOpRef<ModuleOp> module;
  SymbolTable symbols;
  Symbols weights, moeLayers, kvSlots, stateSlots, ropes;
};

} // namespace

//===----------------------------------------------------------------------===//
// Attributes of the module
//===----------------------------------------------------------------------===//

void ArtifactImporter::setAttributes(StringRef path) {
  MLIRContext *context = builder.getContext();
  const moert::ModelInfo &model = artifact.model;
  SmallVector<Attribute> provenance;
  for (const auto &[key, value] : artifact.provenance)
    provenance.push_back(builder.getStrArrayAttr({key, value}));
  const auto set = [&](StringRef name, Attribute value) { (*module)->setAttr(name, value); };
  set(kModelAttr,
      ModelAttr::get(context, model.modelType, model.vocabularySize, model.hiddenSize, model.layers,
                     model.maxPositions, builder.getDenseI32ArrayAttr(model.eosTokens), "",
                     model.bosToken ? *model.bosToken : kAbsent));
  set(kArtifactAttr,
      ArtifactAttr::get(context, path, moert::weightsChecksum(artifact), artifact.pathsChecksum,
                        artifact.traceChecksum, builder.getArrayAttr(provenance)));
  if (artifact.measured)
    set(kMeasuredAttr, MeasuredAttr::get(context, *artifact.measured));
  if (artifact.quickLoss)
    set(kQuickLossAttr, QuickLossAttr::get(context, *artifact.quickLoss));
  if (artifact.chat)
    set(kChatAttr, ChatAttr::get(context, *artifact.chat));
  if (artifact.sampling)
    set(kSamplingAttr, SamplingDefaultsAttr::get(context, *artifact.sampling));
  set(kPageBytesAttr, builder.getI64IntegerAttr(artifact.pageBytes));
  setPlans(*module, artifact.plans);
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

void ArtifactImporter::declareWeight(const moert::ResidentWeight &weight) {
  const FormatAttr format = toFormatAttr(builder.getContext(), weight.format);
  const bool isVector = weight.shape.rows == 1 && format.getKind() == WeightKind::kF32;
  auto source = SourceAttr::get(builder.getContext(), weight.name, weight.shape.rows,
                                weight.shape.cols, format.getKind());
  weights.push_back(declared(WeightOp::create(
      builder, where, weight.name, isVector ? WeightRole::kVector : WeightRole::kMatrix, source,
      /*width_class=*/StringAttr(), /*bits=*/IntegerAttr(), format)));
}

ExpertMatrixAttr ArtifactImporter::matrixOf(const moert::MoeLayer &layer,
                                            const moert::ExpertMatrix &matrix) {
  MLIRContext *context = builder.getContext();
  const auto part = static_cast<ExpertPart>(matrix.part);
  SmallVector<SourceAttr> sources;
  for (auto [number, expert] : llvm::enumerate(layer.experts)) {
    const moert::WeightFormat &stored =
        formatOf(moert::fullSlicesOf(expert).front().format, matrix.part);
    const std::string name = ("layer" + Twine(layer.layer) + ".experts." + Twine(number) + "." +
                              stringifyExpertPart(part))
                                 .str();
    sources.push_back(SourceAttr::get(context, name, matrix.shape.rows, matrix.shape.cols,
                                      static_cast<WeightKind>(stored.kind)));
  }
  return ExpertMatrixAttr::get(context, part, compact(sources));
}

void ArtifactImporter::declareLayer(const moert::MoeLayer &layer) {
  const auto matrices =
      llvm::map_to_vector(layer.matrices, [&](const moert::ExpertMatrix &each) -> Attribute {
        return matrixOf(layer, each);
      });
  const moert::GluActivation &activation = layer.activation;
  const bool isClamped = moert::isClamped(activation.kind);
  auto op = MoeLayerOp::create(
      builder, where, ("layer" + Twine(layer.layer) + ".experts").str(), layer.layer,
      static_cast<Activation>(activation.kind), isClamped ? f32(activation.alpha) : FloatAttr(),
      isClamped ? f32(activation.limit) : FloatAttr(), static_cast<uint32_t>(layer.experts.size()),
      builder.getArrayAttr(matrices), /*bits=*/DenseI32ArrayAttr(),
      /*downBits=*/DenseI32ArrayAttr(), /*slices=*/ArrayAttr(), /*downSlices=*/ArrayAttr(),
      /*scaledInputs=*/false);
  op.setFormats(llvm::map_to_vector(layer.experts,
                                    [](const moert::Expert &expert) { return formatsOf(expert); }));
  moeLayers.push_back(declared(op));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

const ArtifactImporter::Symbols &ArtifactImporter::symbolsOf(FieldRole role) const {
  switch (role) {
  case FieldRole::kSlot:
    return kvSlots;
  case FieldRole::kStateSlot:
    return stateSlots;
  case FieldRole::kRope:
    return ropes;
  case FieldRole::kMoeLayer:
    return moeLayers;
  default:
    return weights;
  }
}

template <typename T> static Attribute numberAttr(Builder &builder, const T &field) {
  if constexpr (std::is_same_v<T, bool>)
    return field ? builder.getUnitAttr() : Attribute();
  else if constexpr (std::is_same_v<T, float>)
    return builder.getF32FloatAttr(field);
  else
    return builder.getI32IntegerAttr(static_cast<int32_t>(field));
}

/// rows: the value that each buffer of the program has.
void ArtifactImporter::addInstruction(const moert::Program &program, size_t number,
                                      MutableArrayRef<Value> rows) {
  const moert::Instruction &instruction = program.instructions[number];
  OperationState state(where, ("moe." + Twine(moert::nameOf(instruction))).str());
  SmallVector<size_t> results;
  SmallVector<int64_t> offsets, scratch, optionalScratch; // In this order.
  moert::describe(instruction, [&]<typename T>(FieldRole role, const char *name, const T &field) {
    if (role == FieldRole::kNumber) {
      if (Attribute value = numberAttr(builder, field))
        state.addAttribute(name, value);
      return;
    }
    if (static_cast<int32_t>(field) == moert::kNone)
      return;
    const auto index = static_cast<size_t>(field);
    if (!isBuffer(role)) {
      state.addAttribute(name, symbolsOf(role)[index]);
      return;
    }
    const moert::Buffer &buffer = program.buffers[index];
    if (isInput(role))
      state.addOperands(rows[index]);
    if (role == FieldRole::kWrite || role == FieldRole::kUpdate) {
      results.push_back(index);
      state.addTypes(RowType::get(builder.getContext(), static_cast<BufferKind>(buffer.kind),
                                  buffer.width, buffer.group, buffer.rows()));
    }
    if (role == FieldRole::kWrite)
      offsets.push_back(static_cast<int64_t>(buffer.offset));
    else if (role == FieldRole::kOptionalScratch)
      optionalScratch.push_back(static_cast<int64_t>(buffer.offset));
    else if (role == FieldRole::kScratch)
      scratch.push_back(static_cast<int64_t>(buffer.offset));
  });
  llvm::append_range(offsets, scratch);
  llvm::append_range(offsets, optionalScratch);
  if (!offsets.empty())
    state.addAttribute(kOffsetsAttr, builder.getDenseI64ArrayAttr(offsets));
  if (program.layers[number] != moert::kNone)
    state.addAttribute(kLayerAttr, builder.getI32IntegerAttr(program.layers[number]));
  Operation *op = builder.create(state);
  for (auto [index, result] : llvm::zip_equal(results, op->getResults()))
    rows[index] = result;
}

void ArtifactImporter::addProgram(const moert::Program &program) {
  const OpBuilder::InsertionGuard guard(builder);
  auto op = ProgramOp::create(builder, where, program.name);
  builder.setInsertionPointToEnd(&op.block());
  SmallVector<Value> rows(program.buffers.size());
  for (size_t i = 0; i < program.instructions.size(); ++i)
    addInstruction(program, i, rows);
}

OwningOpRef<ModuleOp> ArtifactImporter::build(StringRef path) {
  setAttributes(path);
  for (const moert::ResidentWeight &weight : artifact.residents)
    declareWeight(weight);
  for (const moert::MoeLayer &layer : artifact.moeLayers)
    declareLayer(layer);
  for (auto [i, slot] : llvm::enumerate(artifact.kvSlots))
    kvSlots.push_back(declared(KvSlotOp::create(
        builder, where, ("kv" + Twine(i)).str(), slot.kvHeads, slot.keyDim, slot.valueDim,
        KvKindAttr::get(builder.getContext(), static_cast<KvKind>(slot.kind)))));
  for (auto [i, slot] : llvm::enumerate(artifact.stateSlots))
    stateSlots.push_back(declared(
        StateSlotOp::create(builder, where, ("state" + Twine(i)).str(), slot.rows, slot.width)));
  for (auto [i, rope] : llvm::enumerate(artifact.ropes))
    ropes.push_back(declared(RopeTableOp::create(builder, where, ("rope" + Twine(i)).str(), rope)));
  for (const moert::Program &program : artifact.programs)
    addProgram(program);
  if (failed(verify(*module)))
    return nullptr;
  return std::move(module);
}

OwningOpRef<ModuleOp> importArtifact(MLIRContext *context, const moert::Artifact &artifact,
                                     StringRef path) {
  context->loadDialect<MoeDialect>();
  return ArtifactImporter(context, artifact).build(path);
}

} // namespace moec
