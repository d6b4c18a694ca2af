// The grids of Swin-MoE's stages, which its computed weights depend on too.
#pragma once

#include "compiler/import/Config.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace moec {

/// A stage's patches, side x side, and the windows that its attention stays in.
struct SwinStage {
  uint32_t side = 0, window = 0;
  bool shifts = false; // Every other block.
};

/// The stages that a checkpoint's config describes.
moert::Result<std::vector<SwinStage>> readSwinStages(const ConfigObject &config);

} // namespace moec
