// Rotary position embedding, as configs spell it: rope_theta + rope_scaling in published files,
// rope_parameters in those that transformers 5 writes.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <cstdint>

namespace moec {

/// Reads the keys and works out the inverse frequencies for an even rotaryDim: in double with
/// deterministic functions, rounded to f32 once. Knows the types default, linear and llama3;
/// refuses every other by name.
moert::Result<RopeDescription> readRope(const ConfigObject &config, uint32_t rotaryDim);

} // namespace moec
