#include "passes/LayerTimes.h"

#include "passes/Footprint.h"

#include "runtime/base/Status.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

namespace mlir::moe {

using moec::Quantity;

LayerTimes::LayerTimes(ModuleOp of, const moec::DeviceProfile &on, const LayerTimesUse &how)
    : module(of), symbols(of), device(on), use(how) {
  use.threads = std::clamp<uint32_t>(use.threads, 1, std::max(1u, device.cores));
}

void LayerTimes::take(const Quantity &time) {
  sum.value += time.value;
  sum.origin = moec::worseOf(sum.origin, time.origin);
}

void LayerTimes::addProduct(StringRef weights, uint64_t elements) {
  take(moec::productNs(device, {weights, elements, 1, use.threads}));
  if (use.threads > 1)
    take(device.dispatchNs);
}

LogicalResult LayerTimes::addLinear(Operation *op, LinearAttr linear) {
  auto weight = symbols.lookup<WeightOp>(linear.getWeight().getValue());
  if (!weight.getFormat())
    return op->emitOpError() << "uses weight @" << weight.getSymName()
                             << ", which has no format: run moe-assign-bits first";
  addProduct(stringifyWeightKind(weight.getFormat()->getKind()),
             uint64_t(weight.rows()) * weight.cols());
  return success();
}

LogicalResult LayerTimes::addGlu(Operation *op, GluAttr network) {
  return success(succeeded(addLinear(op, network.getGate())) &&
                 succeeded(addLinear(op, network.getUp())) &&
                 succeeded(addLinear(op, network.getDown())));
}

LogicalResult LayerTimes::add(AttentionOp op) {
  for (LinearAttr linear : {op.getQuery(), op.getKey(), op.getValue(), op.getOutput()})
    if (failed(addLinear(op, linear)))
      return failure();
  auto slot = symbols.lookup<KvSlotOp>(op.getSlot());
  uint64_t positions = use.positions;
  if (op.getWindow())
    positions = std::min<uint64_t>(positions, *op.getWindow());
  const uint64_t rowBytes =
      (uint64_t(slot.getKeyDim()) + slot.getValueDim()) * sizeof(float) * op.getHeads();
  take(moec::attentionNs(device, positions * rowBytes, use.threads));
  return success();
}

/// The name of an expert's stored width in a device profile: "int4", "int2+2".
static std::string widthName(ArrayAttr slices) {
  std::string name;
  for (FormatAttr format : slices.getAsRange<FormatAttr>())
    name = name.empty() ? stringifyWeightKind(format.getKind()).str()
                        : moert::strCat(name, "+", bitsOf(toWeightFormat(format).kind));
  return name;
}

LogicalResult LayerTimes::add(ExpertsOp op) {
  auto layer = symbols.lookup<MoeLayerOp>(op.getMoeLayer());
  if (!layer.getSlices())
    return op.emitOpError() << "uses the experts of @" << layer.getSymName()
                            << ", which have no slices: run moe-assign-bits first";
  const int64_t topK = cast<RankedTensorType>(op.getExperts().getType()).getDimSize(1);
  Quantity before = sum;
  for (auto slices : layer.getSlices()->getAsRange<ArrayAttr>())
    for (auto matrix : layer.getMatrices().getAsRange<ExpertMatrixAttr>())
      addProduct(widthName(slices), uint64_t(matrix.rows()) * matrix.cols());
  // A token takes topK experts, in the mean of the layer's widths.
  sum.value = before.value + (sum.value - before.value) * static_cast<double>(topK) /
                                 static_cast<double>(layer.getExperts());
  return success();
}

LogicalResult LayerTimes::add(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](AttentionOp part) { return add(part); })
      .Case([&](ExpertsOp part) { return add(part); })
      .Case([&](RouteOp part) { return addLinear(op, part.getRouter()); })
      .Case([&](DenseOp part) { return addGlu(op, part.getNetwork()); })
      .Case([&](SharedExpertOp part) {
        if (failed(addGlu(op, part.getNetwork())))
          return failure();
        return part.getGate() ? addLinear(op, *part.getGate()) : success();
      })
      .Default([](Operation *) { return success(); });
}

FailureOr<Quantity> LayerTimes::between(Operation *from, Operation *to) {
  sum = {0, moec::Origin::kMeasured};
  for (Operation *op = from; op != to;) {
    op = op->getNextNode();
    if (!op)
      return to->emitOpError("does not stand behind the op that guesses it");
    if (failed(add(op)))
      return failure();
  }
  return sum;
}

FailureOr<Quantity> LayerTimes::readOf(MoeLayerOp layer) {
  FailureOr<SmallVector<uint64_t>> records = recordBytesOf(layer);
  if (failed(records))
    return failure();
  return moec::readNs(moec::plannedReads(device), *llvm::max_element(*records), 1);
}

} // namespace mlir::moe
