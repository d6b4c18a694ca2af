// The kernels for ARM processors with byte dot products. Only this file is compiled for them.
#include "runtime/exec/cpu/CpuTables.h"

#include "runtime/exec/cpu/DotDotprod.h"

#include "runtime/exec/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kDotprod, "dotprod");

const KernelTable &dotprodKernels() {
  return kTable;
}

} // namespace moert
