// The kernels for ARM processors with byte matrix products. Only this file is compiled for them.
#include "runtime/exec/cpu/CpuTables.h"

#include "runtime/exec/cpu/DotI8mm.h"

#include "runtime/exec/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kI8mm, "i8mm");

const KernelTable &i8mmKernels() {
  return kTable;
}

} // namespace moert
