#include "passes/LayerTimes.h"

#include "passes/Footprint.h"

#include "runtime/base/Status.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::moe {

using moec::Quantity;
using moec::StoredMatrix;

LayerTimes::LayerTimes(ModuleOp of, const moec::DeviceProfile &on, const moec::StepUse &how)
    : module(of), symbols(of), device(on), times(on, how) {}

FailureOr<StoredMatrix> LayerTimes::matrixOf(Operation *op, LinearAttr linear) {
  auto weight = symbols.lookup<WeightOp>(linear.getWeight().getValue());
  if (!weight.getFormat())
    return op->emitOpError() << "uses weight @" << weight.getSymName()
                             << ", which has no format: run moe-assign-bits first";
  return StoredMatrix{stringifyWeightKind(weight.getFormat()->getKind()),
                      static_cast<uint32_t>(weight.rows()), static_cast<uint32_t>(weight.cols())};
}

FailureOr<double> LayerTimes::timeOf(Operation *op, LinearAttr linear) {
  FailureOr<StoredMatrix> matrix = matrixOf(op, linear);
  if (failed(matrix))
    return failure();
  return times.product(*matrix).firstNs;
}

FailureOr<double> LayerTimes::timeOf(Operation *op, GluAttr network) {
  FailureOr<StoredMatrix> gate = matrixOf(op, network.getGate()),
                          up = matrixOf(op, network.getUp()),
                          down = matrixOf(op, network.getDown());
  if (failed(gate) || failed(up) || failed(down))
    return failure();
  return times.network(*gate, *up, *down).firstNs;
}

FailureOr<double> LayerTimes::timeOf(AttentionOp op) {
  SmallVector<StoredMatrix> inputs;
  for (LinearAttr linear : {op.getQuery(), op.getKey(), op.getValue()}) {
    FailureOr<StoredMatrix> matrix = matrixOf(op, linear);
    if (failed(matrix))
      return failure();
    inputs.push_back(*matrix);
  }
  FailureOr<double> output = timeOf(op, op.getOutput());
  if (failed(output))
    return failure();
  auto slot = symbols.lookup<KvSlotOp>(op.getSlot());
  return times.products(inputs).firstNs + *output +
         times
             .attention({static_cast<uint32_t>(op.getHeads()),
                         static_cast<uint32_t>(slot.getKvHeads()),
                         static_cast<uint32_t>(slot.getKeyDim()),
                         static_cast<uint32_t>(slot.getValueDim()),
                         static_cast<uint32_t>(op.getWindow().value_or(0))})
             .firstNs;
}

/// The name of an expert's stored width in a device profile: "int4", "int2+2".
static std::string widthName(ArrayAttr slices) {
  std::string name;
  for (FormatAttr format : slices.getAsRange<FormatAttr>())
    name = name.empty() ? stringifyWeightKind(format.getKind()).str()
                        : moert::strCat(name, "+", bitsOf(toWeightFormat(format).kind));
  return name;
}

// A token uses topK experts; their width is the mean of the layer's widths.
FailureOr<double> LayerTimes::timeOf(ExpertsOp op) {
  auto layer = symbols.lookup<MoeLayerOp>(op.getMoeLayer());
  if (!layer.getSlices())
    return op.emitOpError() << "uses the experts of @" << layer.getSymName()
                            << ", which have no slices: run moe-assign-bits first";
  double all = 0;
  for (auto slices : layer.getSlices()->getAsRange<ArrayAttr>()) {
    const std::string weights = widthName(slices);
    SmallVector<StoredMatrix> matrices; // Gate, up, down.
    for (auto matrix : layer.getMatrices().getAsRange<ExpertMatrixAttr>())
      matrices.push_back(
          {weights, static_cast<uint32_t>(matrix.rows()), static_cast<uint32_t>(matrix.cols())});
    all += times.network(matrices[0], matrices[1], matrices[2]).firstNs;
  }
  const int64_t topK = cast<RankedTensorType>(op.getExperts().getType()).getDimSize(1);
  return all * static_cast<double>(topK) / static_cast<double>(layer.getExperts());
}

FailureOr<double> LayerTimes::timeOf(Operation *op) {
  return TypeSwitch<Operation *, FailureOr<double>>(op)
      .Case([&](AttentionOp part) { return timeOf(part); })
      .Case([&](ExpertsOp part) { return timeOf(part); })
      .Case([&](RouteOp part) { return timeOf(op, part.getRouter()); })
      .Case([&](DenseOp part) { return timeOf(op, part.getNetwork()); })
      .Case([&](SharedExpertOp part) -> FailureOr<double> {
        FailureOr<double> network = timeOf(op, part.getNetwork());
        if (failed(network) || !part.getGate())
          return network;
        FailureOr<double> gate = timeOf(op, *part.getGate());
        if (failed(gate))
          return failure();
        return *network + *gate;
      })
      .Default([](Operation *) { return 0.0; });
}

FailureOr<Quantity> LayerTimes::between(Operation *from, Operation *to) {
  double sum = 0;
  for (Operation *op = from; op != to;) {
    op = op->getNextNode();
    if (!op)
      return to->emitOpError("does not follow the router that predicts its experts");
    FailureOr<double> time = timeOf(op);
    if (failed(time))
      return failure();
    sum += *time;
  }
  return Quantity{sum, times.origin()};
}

FailureOr<Quantity> LayerTimes::readOf(MoeLayerOp layer) {
  FailureOr<SmallVector<uint64_t>> records = recordBytesOf(layer);
  if (failed(records))
    return failure();
  return moec::readNs(moec::plannedReads(device), *llvm::max_element(*records), 1);
}

} // namespace mlir::moe
