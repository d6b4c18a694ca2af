// The checks of layer ops on the symbols that they refer to. For the dialect's own
// verifiers.
#pragma once

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// Returns the symbol of the given kind, or emits a diagnostic at `user` and returns a null op.
template <typename OpT>
OpT lookUp(Operation *user, SymbolTableCollection &symbols, FlatSymbolRefAttr name) {
  auto found = symbols.lookupNearestSymbolFrom<OpT>(user, name);
  if (!found)
    user->emitOpError() << "found no " << OpT::getOperationName() << " named " << name;
  return found;
}

/// Checks for a weight of rows x cols.
inline WeightOp checkWeight(Operation *user, SymbolTableCollection &symbols, FlatSymbolRefAttr name,
                            uint64_t rows, uint64_t cols) {
  auto weight = lookUp<WeightOp>(user, symbols, name);
  if (!weight)
    return nullptr;
  if (weight.rows() != rows || weight.cols() != cols) {
    user->emitOpError() << "weight " << name << " is " << weight.rows() << " x " << weight.cols()
                        << ", expected " << rows << " x " << cols;
    return nullptr;
  }
  return weight;
}

/// Checks for a vector of `size` numbers: norms and biases. Absent is allowed.
inline LogicalResult checkVector(Operation *user, SymbolTableCollection &symbols,
                                 FlatSymbolRefAttr name, uint64_t size) {
  if (!name)
    return success();
  WeightOp weight = checkWeight(user, symbols, name, 1, size);
  if (!weight)
    return failure();
  if (weight.getRole() != WeightRole::kVector)
    return user->emitOpError() << "weight " << name << " has the role "
                               << stringifyWeightRole(weight.getRole()) << ", expected vector";
  return success();
}

/// Elements of a row: the type is tensor<?xN>.
inline FailureOr<uint64_t> widthOf(Operation *op, Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  if (!type.isDynamicDim(0) || type.isDynamicDim(1) || type.getDimSize(1) == 0)
    return op->emitOpError() << "expected rows as tensor<?xN>, found " << type;
  return static_cast<uint64_t>(type.getDimSize(1));
}

/// Checks the matrix of a product and its bias.
inline LogicalResult checkLinear(Operation *op, SymbolTableCollection &symbols, LinearAttr linear,
                                 uint64_t rows, uint64_t cols) {
  if (!checkWeight(op, symbols, linear.getWeight(), rows, cols))
    return failure();
  return checkVector(op, symbols, linear.getBias(), rows);
}

/// Routers and shared gates are identified by their role, so that no pass quantizes them.
inline LogicalResult checkRouterRole(Operation *user, SymbolTableCollection &symbols,
                                     FlatSymbolRefAttr name) {
  auto weight = lookUp<WeightOp>(user, symbols, name);
  if (!weight)
    return failure();
  if (weight.getRole() != WeightRole::kRouter)
    return user->emitOpError() << "weight " << name << " has the role "
                               << stringifyWeightRole(weight.getRole()) << ", expected router";
  return success();
}

/// Checks that groups divide the experts and that the kept ones hold topK. Absent is allowed.
LogicalResult checkGroups(Operation *user, std::optional<RouterGroupsAttr> groups, uint64_t experts,
                          uint64_t topK);

/// Checks that `target` is `ahead` MoE layers after the layer of `user`, if `user` has a layer
/// number.
inline LogicalResult checkAhead(Operation *user, MoeLayerOp target, uint32_t ahead) {
  if (ahead == 0 || ahead > moert::kMostAhead)
    return user->emitOpError() << "predicts " << ahead << " MoE layers ahead, expected 1 to "
                               << moert::kMostAhead;
  auto from = user->getAttrOfType<IntegerAttr>(kLayerAttr);
  if (!from)
    return success();
  int64_t found = 0; // MoE layers after the user's, up to the target.
  for (MoeLayerOp layer : user->getParentOfType<ModuleOp>().getOps<MoeLayerOp>())
    found += layer.getLayer() > from.getInt() && layer.getLayer() <= target.getLayer();
  if (found != ahead)
    return user->emitOpError() << "predicts @" << target.getSymName() << ", which is " << found
                               << " MoE layers ahead of layer " << from.getInt() << ", not "
                               << ahead;
  return success();
}

/// Checks a norm's weight, whose size divides a row of `width` elements into runs.
inline LogicalResult checkNorm(Operation *user, SymbolTableCollection &symbols,
                               FlatSymbolRefAttr weight, FlatSymbolRefAttr bias, uint64_t width,
                               uint64_t segment) {
  if (segment == 0 || width % segment != 0)
    return user->emitOpError() << "a row of " << width << " does not divide into runs of "
                               << segment;
  if (failed(checkVector(user, symbols, weight, segment)))
    return failure();
  return checkVector(user, symbols, bias, segment);
}

} // namespace mlir::moe
