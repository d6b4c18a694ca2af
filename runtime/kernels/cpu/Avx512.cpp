// The kernels for processors with AVX-512 F, BW, VL and DQ, and VNNI. Only this file is compiled
// for them.
#include "runtime/kernels/cpu/CpuTables.h"

#include "runtime/kernels/cpu/Dot512.h"

#include "runtime/kernels/cpu/Table.h"

namespace moert {

static constexpr KernelTable kTable = tableFor(Isa::kAvx512, "avx512");

const KernelTable &avx512Kernels() {
  return kTable;
}

} // namespace moert
