// Weights whose codes and scales are taken over as they are stored, for those who keep them without
// loss: MXFP4 and ggml's blocks.
#pragma once

#include "compiler/import/StoredTensors.h"
#include "compiler/import/StoredType.h"
#include "compiler/import/codecs/CodedWeight.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <optional>
#include <span>

namespace moec {

/// The type in which a weight's rows can be kept. MXFP4 if they are E2M1 codes, two a byte, low
/// half first, with an E8M0 scale for each 32 inputs and nothing else.
std::optional<StoredType> keptTypeOf(const CodedWeight &weight);

/// Reads a region of whole blocks, row by row: a row's blocks, or, of MXFP4, its codes, then its
/// scales. out.size() == storedBytes(*keptTypeOf(weight), rowCount * colCount). The region must be
/// inside the weight. Refuses scales that are not finite, and values that are infinite in f32.
moert::Status readKept(const StoredTensors &stored, const CodedWeight &weight,
                       const CodedRegion &region, std::span<std::byte> out);

} // namespace moec
