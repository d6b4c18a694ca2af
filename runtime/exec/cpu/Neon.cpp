// The kernels for every ARMv8-A processor.
#include "runtime/exec/cpu/CpuTables.h"

#include "runtime/exec/cpu/DotNeon.h"

#include "runtime/exec/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kNeon, "neon");

const KernelTable &neonKernels() {
  return kTable;
}

} // namespace moert
