// The grids of error feedback: a grid for each width, chosen for the experts' sizes.
#pragma once

#include "compiler/quantize/GridMatrix.h"

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// In the order of `widths`. Codes are non-linear where the format has levels for them. 64 inputs
/// share a scale, or 32 where the experts are so small that the padding of their records would
/// keep most of what 64 save.
moert::Result<std::vector<Grid>> feedbackGrids(std::span<const moert::MoeLayer> layers,
                                               std::span<const uint32_t> widths,
                                               uint32_t activationGroup, bool nested);

} // namespace moec
