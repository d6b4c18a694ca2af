#include "compiler/ir/MoeDialect.h"

#include "compiler/ir/FieldAttrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/ir/MoeDialect.cpp.inc"
#include "compiler/ir/MoeEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/MoeAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/ir/MoeTypes.cpp.inc"

namespace mlir::moe {

namespace {

/// Formats and types of rows repeat by the thousand; a short name for each keeps text readable.
struct MoeAsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto format = dyn_cast<FormatAttr>(attribute);
    if (!format)
      return AliasResult::NoAlias;
    os << stringifyWeightKind(format.getKind());
    if (format.isQuantized())
      os << "g" << format.getGroup() << "a" << format.getActivationGroup();
    if (format.getOffsets())
      os << "o";
    if (format.getRefines())
      os << "r";
    if (format.getByteScales())
      os << "b";
    if (format.getHadamard())
      os << "h";
    return AliasResult::FinalAlias;
  }

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    auto row = dyn_cast<RowType>(type);
    if (!row)
      return AliasResult::NoAlias;
    os << stringifyBufferKind(row.getKind()) << "x" << row.getWidth();
    if (row.getGroup())
      os << "g" << row.getGroup();
    if (row.getRows() != 1)
      os << "r" << row.getRows();
    return AliasResult::FinalAlias;
  }
};

} // namespace

void MoeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/ir/MoeAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/ir/MoeTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/MoeOps.cpp.inc"
      >();
  addInterfaces<MoeAsmInterface>();
}

//===----------------------------------------------------------------------===//
// Attributes of the module
//===----------------------------------------------------------------------===//

// Errors about the module are emitted at its location: emitOpError would print the whole module.

/// Checks a plan's entries per MoE layer: experts exist in the layer, and a layer that is predicted
/// `ahead` layers before has such an earlier layer.
static LogicalResult verifyExperts(Operation *op, const moert::Plan &plan) {
  for (auto [i, layer] : llvm::enumerate(cast<ModuleOp>(op).getOps<MoeLayerOp>())) {
    std::vector<uint32_t> named;
    if (!plan.pinned.empty())
      llvm::append_range(named, plan.pinned[i]);
    if (!plan.start.empty())
      llvm::append_range(named, plan.start[i].experts);
    if (!layer.getExpertsAttr())
      return success(); // The layer's own verifier refuses it; it runs after the module's.
    for (uint32_t expert : named)
      if (expert >= layer.getExperts())
        return emitError(op->getLoc())
               << "plan '" << plan.name << "' names expert " << expert << " of MoE layer " << i
               << ", which has " << layer.getExperts();
    if (!plan.prefetches.empty()) {
      const moert::PrefetchRule &rule = plan.prefetches[i];
      if (rule.predictor != moert::Predictor::kOff && rule.ahead > i)
        return emitError(op->getLoc())
               << "plan '" << plan.name << "' predicts MoE layer " << i << " "
               << uint32_t(rule.ahead) << " ahead, but no MoE layer is that far before it";
    }
  }
  return success();
}

static LogicalResult verifyPlans(Operation *op, Attribute value) {
  auto plans = dyn_cast<ArrayAttr>(value);
  if (!plans)
    return emitError(op->getLoc(), "'moe.plans' expected an array of #moe.plan");
  size_t moeLayers = llvm::range_size(cast<ModuleOp>(op).getOps<MoeLayerOp>());
  uint64_t above = UINT64_MAX;
  for (Attribute entry : plans) {
    if (!isa<PlanAttr>(entry))
      return emitError(op->getLoc(), "'moe.plans' expected an array of #moe.plan");
    const moert::Plan &plan = cast<PlanAttr>(entry).getData();
    if (plan.quotaPages.size() != moeLayers)
      return emitError(op->getLoc())
             << "plan '" << plan.name << "' has quotas for " << plan.quotaPages.size()
             << " MoE layers, expected " << moeLayers;
    if (failed(verifyExperts(op, plan)))
      return failure();
    // A plan without a budget counts as the largest.
    uint64_t budget = plan.budgetBytes ? plan.budgetBytes : UINT64_MAX;
    if (budget > above)
      return emitError(op->getLoc())
             << "plan '" << plan.name
             << "' has a larger budget than the one before, expected the largest first";
    above = budget;
  }
  return success();
}

static LogicalResult verifyOffsets(Operation *op, Attribute value) {
  constexpr int64_t kMaxOffset = int64_t(1) << 40; // Far beyond any arena; sums cannot overflow.
  auto offsets = dyn_cast<DenseI64ArrayAttr>(value);
  if (!offsets)
    return emitError(op->getLoc(), "'moe.offsets' expected an array of i64");
  for (int64_t offset : offsets.asArrayRef())
    if (offset < 0 || offset > kMaxOffset)
      return emitError(op->getLoc())
             << "an offset of " << offset << ", expected 0 to " << kMaxOffset;
  return success();
}

template <typename AttrT>
static LogicalResult verifyKind(Operation *op, const NamedAttribute &attribute) {
  return isa<AttrT>(attribute.getValue()) ? success()
                                          : emitError(op->getLoc())
                                                << "'" << attribute.getName().getValue()
                                                << "' expected a #" << AttrT::name << " attribute";
}

LogicalResult MoeDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef key = attribute.getName();
  if (key == kLayerAttr) {
    auto layer = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!layer || !layer.getType().isInteger(32) || layer.getInt() < 0)
      return emitError(op->getLoc(), "'moe.layer' expected an i32 that is not negative");
    return success();
  }
  if (key == kOffsetsAttr)
    return verifyOffsets(op, attribute.getValue());
  if (!isa<ModuleOp>(op))
    return emitError(op->getLoc()) << "'" << key << "' is an attribute of the module only";
  Attribute value = attribute.getValue();
  if (key == kModelAttr)
    return verifyKind<ModelAttr>(op, attribute);
  if (key == kArtifactAttr)
    return verifyKind<ArtifactAttr>(op, attribute);
  if (key == kQuantizerAttr)
    return verifyKind<QuantizerAttr>(op, attribute);
  if (key == kMeasuredAttr)
    return verifyKind<MeasuredAttr>(op, attribute);
  if (key == kQuickLossAttr)
    return verifyKind<QuickLossAttr>(op, attribute);
  if (key == kChatAttr)
    return verifyKind<ChatAttr>(op, attribute);
  if (key == kSamplingAttr)
    return verifyKind<SamplingDefaultsAttr>(op, attribute);
  if (key == kExpertBitsAttr || key == kExpertDownBitsAttr || key == kResidentBitsAttr ||
      key == kHeadBitsAttr || key == kKvBitsAttr || key == kWidthsByAttr || key == kClassNamesAttr)
    return isa<StringAttr>(value) ? success()
                                  : emitError(op->getLoc()) << "'" << key << "' expected a string";
  if (key == kPageBytesAttr) {
    auto bytes = dyn_cast<IntegerAttr>(value);
    if (!bytes || !bytes.getType().isInteger(64) || bytes.getInt() < 4096 ||
        bytes.getInt() > 1 << 20 || !llvm::isPowerOf2_64(static_cast<uint64_t>(bytes.getInt())))
      return emitError(op->getLoc(),
                       "'moe.page_bytes' expected a power of two from 4 KiB to 1 MiB as i64");
    return success();
  }
  if (key == kPlansAttr)
    return verifyPlans(op, value);
  return emitError(op->getLoc()) << "unknown attribute '" << key << "' of the dialect moe";
}

//===----------------------------------------------------------------------===//
// Conversion to the runtime's types
//===----------------------------------------------------------------------===//

moert::WeightFormat toWeightFormat(FormatAttr format) {
  return {static_cast<moert::WeightKind>(format.getKind()),
          format.getGroup(),
          format.getActivationGroup(),
          format.getOffsets(),
          format.getRefines(),
          format.getByteScales(),
          format.getHadamard()};
}

FormatAttr toFormatAttr(MLIRContext *context, const moert::WeightFormat &format) {
  return FormatAttr::get(context, static_cast<WeightKind>(format.kind), format.group,
                         format.activationGroup, format.hasOffsets, format.refines,
                         format.hasByteScales, format.hasHadamard);
}

moert::MatrixShape shapeOf(SourceAttr source) {
  return {source.getRows(), source.getCols()};
}

moert::MoeLayer matricesOf(MoeLayerOp op) {
  moert::MoeLayer layer;
  layer.layer = op.getLayer();
  layer.activation.kind = static_cast<moert::Activation>(op.getActivation());
  if (FloatAttr alpha = op.getAlphaAttr(), limit = op.getLimitAttr(); alpha && limit)
    layer.activation = {layer.activation.kind, alpha.getValue().convertToFloat(),
                        limit.getValue().convertToFloat()};
  for (ExpertMatrixAttr matrix : op.getMatrices().getAsRange<ExpertMatrixAttr>())
    layer.matrices.push_back(
        {static_cast<moert::ExpertPart>(matrix.getPart()), shapeOf(matrix.getSources().front())});
  return layer;
}

LogicalResult emitStatus(Operation *op, const moert::Status &status) {
  return op->emitError(status.message());
}

} // namespace mlir::moe
