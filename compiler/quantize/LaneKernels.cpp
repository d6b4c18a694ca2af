#include "compiler/quantize/LaneKernels.h"

#include "compiler/quantize/LaneKernelsVersions.h"

using namespace moert;

namespace moec {

const LaneKernels &laneKernelsFor(Isa isa) {
#ifdef MOEC_HAS_X86_KERNELS
  if (isa == Isa::kAvx512)
    return avx512LaneKernels();
  if (isa == Isa::kAvx2)
    return avx2LaneKernels();
#endif
  (void)isa;
  return baselineLaneKernels();
}

Isa bestIsa() {
  return bestKernels().isa;
}

} // namespace moec
