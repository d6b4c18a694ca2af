// The kernel tables of the instruction sets. Only Select.cpp calls these functions; a table's
// kernels may run only if the processor has its instructions.
#pragma once

#include "runtime/exec/Kernels.h"

namespace moert {

const KernelTable &avx2Kernels();   // AVX2, FMA, F16C.
const KernelTable &avx512Kernels(); // AVX-512 F, BW, VL, DQ, VNNI.
const KernelTable &neonKernels();   // ARMv8-A.
const KernelTable &dotprodKernels();
const KernelTable &i8mmKernels();

} // namespace moert
