// f32 to the 16-bit types, rounded to nearest even, the same on every machine. The way back is
// exact and stands in compiler/import/StoredType.h.
#pragma once

#include <cstdint>

namespace moec {

/// IEEE binary16; beyond 65504 it is an infinity, below 2^-24 / 2 zero. A NaN stays one.
uint16_t f32ToF16(float value);

/// bfloat16. A NaN stays one.
uint16_t f32ToBf16(float value);

} // namespace moec
