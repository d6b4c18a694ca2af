// LaneKernels.h for every processor of the architecture.
#include "compiler/quantize/LaneKernelsBody.h"
#include "compiler/quantize/LaneKernelsVersions.h"

namespace moec {

// A table of constants: reading it executes no code of this file.
static constexpr LaneKernels kTable = {searchScales, round, refine, subtractProducts};

const LaneKernels &baselineLaneKernels() {
  return kTable;
}

} // namespace moec
