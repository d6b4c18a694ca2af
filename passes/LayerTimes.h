// Compute times of ops on layers for one token on a device, by OperationTimes. Disk reads are not
// included.
#pragma once

#include "compiler/ir/MoeDialect.h"
#include "compiler/plan/OperationTimes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Needs the formats of assign-bits; borrows module and device.
class LayerTimes {
public:
  LayerTimes(ModuleOp module, const moec::DeviceProfile &device, const moec::StepUse &use);

  /// Adds up the ops after `from` up to and including `to`, in one block.
  FailureOr<moec::Quantity> between(Operation *from, Operation *to);

  /// The largest expert of a layer, read alone.
  FailureOr<moec::Quantity> readOf(MoeLayerOp layer);

private:
  FailureOr<double> timeOf(Operation *op);
  FailureOr<double> timeOf(AttentionOp op);
  FailureOr<double> timeOf(ExpertsOp op);
  FailureOr<double> timeOf(Operation *op, LinearAttr linear);
  FailureOr<double> timeOf(Operation *op, GluAttr network);
  FailureOr<moec::StoredMatrix> matrixOf(Operation *op, LinearAttr linear);

  ModuleOp module;
  SymbolTable symbols;
  const moec::DeviceProfile &device;
  moec::OperationTimes times;
};

} // namespace mlir::moe
