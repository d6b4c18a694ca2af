#include "compiler/translate/BuildEmitPlan.h"

#include "compiler/ir/BuildProgram.h"
#include "compiler/ir/Choices.h"
#include "compiler/ir/PlanAttrs.h"
#include "runtime/images/ClassNames.h"

namespace moec {

using namespace mlir;
using namespace mlir::moe;

static_assert(static_cast<int>(mlir::moe::QuantizeMethod::kGptq) ==
              static_cast<int>(moec::QuantizeMethod::kGptq));

static WeightSource toWeightSource(SourceAttr source) {
  WeightSource result;
  result.tensor = source.getTensor().str();
  result.rows = source.getRows();
  result.cols = source.getCols();
  if (source.getIndex() != kAbsent)
    result.index = static_cast<uint32_t>(source.getIndex());
  result.firstRow = source.getFirstRow();
  result.rowStep = source.getRowStep();
  result.transposed = source.getTransposed();
  result.blocks = source.getBlocks();
  result.blockStep = source.getBlockStep();
  result.stackedVectors = source.getStackedVectors();
  result.addsOne = source.getAddsOne();
  result.integers = source.getIntegers();
  result.shards = source.getShards();
  return result;
}

static void addModel(ModelAttr model, EmitPlan &plan) {
  moert::ModelInfo &info = plan.artifact.model;
  info.modelType = model.getType().str();
  info.vocabularySize = model.getVocabulary();
  info.hiddenSize = model.getHidden();
  info.layers = model.getLayers();
  info.maxPositions = model.getMaxPositions();
  if (model.getBos() != kAbsent)
    info.bosToken = static_cast<int32_t>(model.getBos());
  info.eosTokens.assign(model.getEos().asArrayRef().begin(), model.getEos().asArrayRef().end());
}

static LogicalResult addResidents(ModuleOp module, EmitPlan &plan) {
  for (auto [weight, resident] :
       llvm::zip_equal(module.getOps<WeightOp>(), plan.artifact.residents)) {
    if (!weight.getFormat())
      return weight.emitError("the weight has no format: run moe-assign-bits first");
    auto layout = moert::layoutOf(resident.shape, resident.format);
    if (!layout.isOk())
      return emitStatus(weight, layout.status());
    resident.bytes = layout->bytes;
    plan.residentSources.push_back(toWeightSource(weight.getSource()));
  }
  return success();
}

static LogicalResult addMoeLayers(ModuleOp module, EmitPlan &plan) {
  for (auto [op, layer] : llvm::zip_equal(module.getOps<MoeLayerOp>(), plan.artifact.moeLayers)) {
    if (!op.getSlices())
      return op.emitError("the experts have no slices: run moe-assign-bits first");
    plan.scalesInputs.push_back(op.getScaledInputs());
    std::vector<std::vector<WeightSource>> &sources = plan.expertSources.emplace_back();
    for (uint32_t i = 0; i < layer.experts.size(); ++i) {
      std::vector<WeightSource> &matrices = sources.emplace_back();
      for (const moert::ExpertMatrix &matrix : layer.matrices)
        matrices.push_back(toWeightSource(op.sourceOf(static_cast<ExpertPart>(matrix.part), i)));
    }
  }
  return success();
}

static LogicalResult addPlans(ModuleOp module, EmitPlan &plan) {
  auto plans = module->getAttrOfType<ArrayAttr>(kPlansAttr);
  auto pageBytes = module->getAttrOfType<IntegerAttr>(kPageBytesAttr);
  if (!plans || !pageBytes)
    return emitError(module.getLoc(), "the module has no plans: run moe-make-plans first");
  plan.artifact.pageBytes = static_cast<uint32_t>(pageBytes.getInt());
  plan.artifact.plans = plansOf(module);
  return success();
}

LogicalResult addPrograms(ModuleOp module, moert::Artifact &artifact) {
  for (ProgramOp op : module.getOps<ProgramOp>()) {
    if (!isBufferized(op))
      return op.emitError("the program has no offsets: run moe-bufferize first");
    FailureOr<moert::Program> program = buildProgram(op);
    if (mlir::failed(program))
      return failure();
    addProgram(std::move(*program), artifact);
  }
  return success();
}

// Facts about how the file was made; nothing that differs between two equal compilations.
static LogicalResult addProvenance(ModuleOp module, EmitPlan &plan) {
  if (auto artifact = module->getAttrOfType<ArtifactAttr>(kArtifactAttr)) {
    for (ArrayAttr entry : artifact.getProvenance().getAsRange<ArrayAttr>())
      plan.artifact.provenance.emplace_back(cast<StringAttr>(entry[0]).str(),
                                            cast<StringAttr>(entry[1]).str());
    return success();
  }
  auto bits = module->getAttrOfType<StringAttr>(kExpertBitsAttr);
  auto residentBits = module->getAttrOfType<StringAttr>(kResidentBitsAttr);
  if (!bits || !residentBits)
    return emitError(module.getLoc(), "the module has no 'moe.expert_bits' or 'moe.resident_bits': "
                                      "run moe-assign-bits first");
  plan.artifact.provenance = {{"moec", MOE_VERSION},
                              {"model_type", plan.artifact.model.modelType},
                              {"bits", bits.str()},
                              {"resident_bits", residentBits.str()},
                              {"quantizer", std::string(nameOf(plan.origin.method))}};
  if (auto downBits = module->getAttrOfType<StringAttr>(kExpertDownBitsAttr))
    plan.artifact.provenance.emplace_back("down_bits", downBits.str());
  if (auto headBits = module->getAttrOfType<StringAttr>(kHeadBitsAttr))
    plan.artifact.provenance.emplace_back("head_bits", headBits.str());
  if (auto kvBits = module->getAttrOfType<StringAttr>(kKvBitsAttr))
    plan.artifact.provenance.emplace_back("kv_bits", kvBits.str());
  if (auto widthsBy = module->getAttrOfType<StringAttr>(kWidthsByAttr))
    plan.artifact.provenance.emplace_back("widths_by", widthsBy.str());
  if (auto names = module->getAttrOfType<StringAttr>(kClassNamesAttr))
    plan.artifact.provenance.emplace_back(moert::kClassNamesKey, names.str());
  return success();
}

LogicalResult describeModel(ModuleOp module, EmitPlan &plan) {
  plan.artifact = symbolsOf(module);
  if (auto model = module->getAttrOfType<ModelAttr>(kModelAttr))
    addModel(model, plan);
  const Quantizer quantizer = quantizerOf(module);
  plan.origin = {static_cast<moec::QuantizeMethod>(quantizer.method), quantizer.isNested,
                 quantizer.calibration, quantizer.traceExpertBytes, quantizer.searchRuns};
  plan.artifact.measured = dataOf<MeasuredAttr>(module, kMeasuredAttr);
  plan.artifact.quickLoss = dataOf<QuickLossAttr>(module, kQuickLossAttr);
  plan.artifact.chat = dataOf<ChatAttr>(module, kChatAttr);
  plan.artifact.sampling = dataOf<SamplingDefaultsAttr>(module, kSamplingAttr);
  return success(succeeded(addResidents(module, plan)) && succeeded(addMoeLayers(module, plan)));
}

LogicalResult buildEmitPlan(ModuleOp module, EmitPlan &plan) {
  if (!module->hasAttr(kModelAttr))
    return emitError(module.getLoc(), "the module has no 'moe.model'");
  if (failed(describeModel(module, plan)) || failed(addPlans(module, plan)) ||
      failed(addPrograms(module, plan.artifact)))
    return failure();
  return addProvenance(module, plan);
}

} // namespace moec
