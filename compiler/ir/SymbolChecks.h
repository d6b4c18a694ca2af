// What layer ops and instructions ask of the symbols that they name. For the dialect's own
// verifiers.
#pragma once

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// The symbol of the given kind, or a null op and a diagnostic at `user`.
template <typename OpT>
OpT lookUp(Operation *user, SymbolTableCollection &symbols, FlatSymbolRefAttr name) {
  auto found = symbols.lookupNearestSymbolFrom<OpT>(user, name);
  if (!found)
    user->emitOpError() << "found no " << OpT::getOperationName() << " named " << name;
  return found;
}

/// A weight of rows x cols.
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

/// A vector of `size` numbers: norms and biases. Absent is fine.
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

/// A norm's weight, whose size divides a row of `width` elements into runs.
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
