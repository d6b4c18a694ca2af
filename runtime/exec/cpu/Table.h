// The table of this directory's kernels. Included after an instruction set's Dot...h.
#pragma once

#include "runtime/exec/reference/Reference.h"

#include "runtime/exec/cpu/Elementwise.h"

#include "runtime/exec/cpu/Attention.h"
#include "runtime/exec/cpu/LinearFloat.h"
#include "runtime/exec/cpu/Recurrence.h"

#include "runtime/exec/cpu/LinearQuantized.h"

namespace moert {
namespace {

/// constexpr, so that the table is a constant: asking for it executes none of its instructions.
constexpr KernelTable tableFor(Isa isa, const char *name) {
  return {
      .isa = isa,
      .name = name,
      .quantizeRows = quantizeRows,
      .linearQuantized = linearQuantized,
      .linearFloat = linearFloat,
      .linearRows = linearRows,
      .gatherRow = reference::gatherRow, // One row per step: not worth a vector version.
      .addBias = addBias,
      .norm = norm,
      .ropeTable = reference::ropeTable, // Once per position, in double.
      .rope = rope,
      .storeKvRow = storeKvRow,
      .attend = attend,
      .scoreIndex = scoreIndex,
      .siluMultiply = siluMultiply,
      .clampedSwiglu = clampedSwiglu,
      .geluTanhMultiply = geluTanhMultiply,
      .scale = scale,
      .softCap = softCap,
      .addScaled = addScaled,
      .clamp = clamp,
      .gateRows = gateRows,
      .combineRanks = combineRanks,
      .softmax = softmax,
      .sigmoid = sigmoid,
      .convolve = convolve,
      .unitNorm = unitNorm,
      .decay = reference::decay, // A few numbers per token, in double.
      .deltaRule = deltaRule,
      .apply = apply,
      .stateSpace = stateSpace,
      .selectiveScan = selectiveScan,
      .gate = gate,
  };
}

} // namespace
} // namespace moert
