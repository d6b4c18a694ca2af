// Rotary position embedding in configs: rope_theta and rope_scaling in published files,
// rope_parameters in files written by transformers 5.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>

namespace moec {

/// Reads the keys and computes the inverse frequencies for an even rotaryDim: in double with
/// deterministic functions, rounded once to f32. Supports the types default, linear, llama3 and
/// yarn; names any other type in an error. defaultTheta: where the config has no rope_theta.
moert::Result<RopeDescription> readRope(const ConfigObject &config, uint32_t rotaryDim,
                                        std::optional<double> defaultTheta = std::nullopt);

} // namespace moec
