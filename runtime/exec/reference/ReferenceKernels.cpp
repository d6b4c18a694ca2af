// The table of the reference twin.
#include "runtime/exec/reference/Reference.h"

namespace moert {

const KernelTable &referenceKernels() {
  static constexpr KernelTable kTable = {
      .isa = Isa::kReference,
      .name = "reference",
      .quantizeRows = reference::quantizeRows,
      .linearQuantized = reference::linearQuantized,
      .linearFloat = reference::linearFloat,
      .linearRows = reference::linearRows,
      .gatherRow = reference::gatherRow,
      .addBias = reference::addBias,
      .norm = reference::norm,
      .ropeTable = reference::ropeTable,
      .rope = reference::rope,
      .storeKvRow = reference::storeKvRow,
      .attend = reference::attend,
      .scoreIndex = reference::scoreIndex,
      .siluMultiply = reference::siluMultiply,
      .clampedSwiglu = reference::clampedSwiglu,
      .geluTanhMultiply = reference::geluTanhMultiply,
      .scale = reference::scale,
      .softCap = reference::softCap,
      .addScaled = reference::addScaled,
      .clamp = reference::clamp,
      .gateRows = reference::gateRows,
      .combineRanks = reference::combineRanks,
      .softmax = reference::softmax,
      .sigmoid = reference::sigmoid,
      .convolve = reference::convolve,
      .unitNorm = reference::unitNorm,
      .decay = reference::decay,
      .deltaRule = reference::deltaRule,
      .apply = reference::apply,
      .stateSpace = reference::stateSpace,
      .selectiveScan = reference::selectiveScan,
      .gate = reference::gate,
  };
  return kTable;
}

} // namespace moert
