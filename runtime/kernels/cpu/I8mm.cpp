// The kernels for ARM processors with byte matrix products. Only this file is compiled for them.
#include "runtime/kernels/cpu/CpuTables.h"

#include "runtime/kernels/cpu/DotI8mm.h"

#include "runtime/kernels/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kI8mm, "i8mm");

const KernelTable &i8mmKernels() {
  return kTable;
}

} // namespace moert
