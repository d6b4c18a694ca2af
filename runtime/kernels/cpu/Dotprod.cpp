// The kernels for ARM processors with byte dot products. Only this file is compiled for them.
#include "runtime/kernels/cpu/CpuTables.h"

#include "runtime/kernels/cpu/DotDotprod.h"

#include "runtime/kernels/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kDotprod, "dotprod");

const KernelTable &dotprodKernels() {
  return kTable;
}

} // namespace moert
