// MXFP4 weights as they are stored, for those who keep them without loss: E2M1 codes and E8M0
// scales, unconverted.
#pragma once

#include "compiler/import/StoredTensors.h"
#include "compiler/import/codecs/CodedWeight.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <span>

namespace moec {

/// Whether a weight's rows are E2M1 codes, two a byte, low half first, with an E8M0 scale for each
/// 32 inputs and nothing else.
bool isMxfp4(const CodedWeight &weight);

/// Reads a region of whole groups, row by row: a row's codes, then its scales. out.size() ==
/// storedBytes(StoredType::kMxfp4, rowCount * colCount). The region must be inside the weight.
/// Refuses scales that are NaN, and values that are infinite in f32.
moert::Status readMxfp4(const StoredTensors &stored, const CodedWeight &weight,
                        const CodedRegion &region, std::span<std::byte> out);

} // namespace moec
