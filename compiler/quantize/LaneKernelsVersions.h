// The versions of LaneKernels.h, for the file that chooses among them.
#pragma once

#include "compiler/quantize/LaneKernels.h"

namespace moec {

const LaneKernels &baselineLaneKernels();
const LaneKernels &avx2LaneKernels();
const LaneKernels &avx512LaneKernels();

} // namespace moec
