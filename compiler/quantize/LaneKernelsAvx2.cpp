// LaneKernels.h for processors with AVX2.
#include "compiler/quantize/LaneKernelsBody.h"
#include "compiler/quantize/LaneKernelsVersions.h"

namespace moec {

// A table of constants: reading it executes no code of this file.
static constexpr LaneKernels kTable = {searchScales, round, refine, subtractProducts};

const LaneKernels &avx2LaneKernels() {
  return kTable;
}

} // namespace moec
