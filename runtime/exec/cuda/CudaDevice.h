// NVIDIA GPUs by the CUDA runtime; only in libmoert_cuda.so.
#pragma once

#include "runtime/exec/cuda/DeviceFunctions.h"

namespace moert::device {

/// Opens GPU `number`, from 0, for the rest of the process. Returns null, or why it cannot be used:
/// a text that stays.
const char *openCuda(uint32_t number, DeviceFunctions &functions);

} // namespace moert::device
