// The kernels of this folder as a table. Included behind an instruction set's Dot...h.
#pragma once

#include "runtime/kernels/reference/Reference.h"

#include "runtime/kernels/cpu/Elementwise.h"

#include "runtime/kernels/cpu/Attention.h"
#include "runtime/kernels/cpu/LinearFloat.h"

#include "runtime/kernels/cpu/LinearQuantized.h"

namespace moert {
namespace {

/// For a table of constants: nothing of an instruction set runs when its table is asked for.
constexpr KernelTable tableFor(Isa isa, const char *name) {
  return {
      .isa = isa,
      .name = name,
      .quantizeRows = quantizeRows,
      .linearQuantized = linearQuantized,
      .linearFloat = linearFloat,
      .linearRows = linearRows,
      .gatherRow = reference::gatherRow, // One row of a step: not worth a version.
      .addBias = addBias,
      .norm = norm,
      .ropeTable = reference::ropeTable, // Once a position, in double.
      .rope = rope,
      .attend = attend,
      .siluMultiply = siluMultiply,
      .addScaled = addScaled,
      .gateRows = gateRows,
      .combineRanks = combineRanks,
      .softmax = softmax,
  };
}

} // namespace
} // namespace moert
