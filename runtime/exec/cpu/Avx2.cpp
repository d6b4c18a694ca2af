// The kernels for processors with AVX2, FMA and F16C. Only this file is compiled for them.
#include "runtime/exec/cpu/CpuTables.h"

#include "runtime/exec/cpu/Dot256.h"

#include "runtime/exec/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kAvx2, "avx2");

const KernelTable &avx2Kernels() {
  return kTable;
}

} // namespace moert
