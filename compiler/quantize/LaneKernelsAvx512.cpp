// LaneKernels.h for processors with AVX-512.
#include "compiler/quantize/LaneKernelsBody.h"
#include "compiler/quantize/LaneKernelsVersions.h"

namespace moec {

// A table of constants: reading it executes no code of this file.
static constexpr LaneKernels kTable = {searchScales, round, refine, subtractProducts};

const LaneKernels &avx512LaneKernels() {
  return kTable;
}

} // namespace moec
