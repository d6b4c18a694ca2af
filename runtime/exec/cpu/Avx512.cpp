// The kernels for processors with AVX-512 F, BW, VL and DQ, and VNNI. Only this file is compiled
// for them.
#include "runtime/exec/cpu/CpuTables.h"

#include "runtime/exec/cpu/Dot512.h"

#include "runtime/exec/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kAvx512, "avx512");

const KernelTable &avx512Kernels() {
  return kTable;
}

} // namespace moert
