// The kernels of a device (runtime/exec/cuda), compiled for the host, as one more version of the
// table: what tests the vector versions tests them.
#pragma once

#include "runtime/exec/Kernels.h"

namespace moert::test {

/// Operations that devices do not have are the reference's.
const KernelTable &deviceKernels();

} // namespace moert::test
