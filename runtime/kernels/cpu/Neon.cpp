// The kernels for every ARMv8-A processor.
#include "runtime/kernels/cpu/CpuTables.h"

#include "runtime/kernels/cpu/DotNeon.h"

#include "runtime/kernels/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kNeon, "neon");

const KernelTable &neonKernels() {
  return kTable;
}

} // namespace moert
