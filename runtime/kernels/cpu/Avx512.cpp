// The kernels for processors with AVX-512 F, BW, VL and DQ, and VNNI: the one file that is compiled
// for them.
#include "runtime/kernels/cpu/CpuTables.h"
#include "runtime/kernels/reference/Reference.h"

#include "runtime/kernels/cpu/Dot512.h"

#include "runtime/kernels/cpu/Elementwise.h"

#include "runtime/kernels/cpu/Attention.h"
#include "runtime/kernels/cpu/LinearFloat.h"

#include "runtime/kernels/cpu/LinearQuantized.h"

namespace moert {

// A table of constants: nothing of this file runs when it is asked for.
static constexpr KernelTable kTable = {
    .isa = Isa::kAvx512,
    .name = "avx512",
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

const KernelTable &avx512Kernels() {
  return kTable;
}

} // namespace moert
