// The tensor `pixels` f32 [N, channels, side, side] of a safetensors file: images that are prepared
// already.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/ImageInstructions.h"

#include <string>
#include <vector>

namespace moert {

/// Refuses another type or shape than that of the model's images.
Result<std::vector<float>> readPixels(const std::string &path, const PatchesInstruction &images);

} // namespace moert
