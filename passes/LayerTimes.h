// How long ops on layers compute for one token on a device: products and attention, which are
// nearly all of it at real sizes. What is read from disk does not count.
#pragma once

#include "compiler/ir/MoeDialect.h"
#include "compiler/plan/DeviceTimes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

struct LayerTimesUse {
  uint32_t threads = 1;
  uint32_t positions = 1; // That an attention looks back at.
};

/// Needs the formats of assign-bits; borrows module and device.
class LayerTimes {
public:
  LayerTimes(ModuleOp module, const moec::DeviceProfile &device, const LayerTimesUse &use);

  /// Adds up the ops behind `from` up to `to`, this one included, of one block.
  FailureOr<moec::Quantity> between(Operation *from, Operation *to);

  /// The largest expert of a layer, read alone.
  FailureOr<moec::Quantity> readOf(MoeLayerOp layer);

private:
  LogicalResult add(Operation *op);
  LogicalResult add(AttentionOp op);
  LogicalResult add(ExpertsOp op);
  LogicalResult addLinear(Operation *op, LinearAttr linear);
  LogicalResult addGlu(Operation *op, GluAttr network);
  void addProduct(StringRef weights, uint64_t elements);
  void take(const moec::Quantity &time);

  ModuleOp module;
  SymbolTable symbols;
  const moec::DeviceProfile &device;
  LayerTimesUse use;
  moec::Quantity sum;
};

} // namespace mlir::moe
