// Finds the instructions of a program that are computed in one parallel run.
#pragma once

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// Products of one buffer that follow each other, such as query, key and value, are computed in one
/// parallel run. placeProgram() gives them results that lie apart.
template <typename OpT> void join(OpT op) {
  size_t together = 0; // Instructions of the run before this one.
  for (Operation *other = op->getPrevNode(); auto earlier = dyn_cast_or_null<OpT>(other);
       other = other->getPrevNode()) {
    if (earlier.getSrc() != op.getSrc() || earlier->getAttr(kLayerAttr) != op->getAttr(kLayerAttr))
      break;
    ++together;
    if (!earlier.getJoined())
      break;
  }
  op.setJoined(together > 0 && together < moert::kMostTogether);
}

} // namespace mlir::moe
