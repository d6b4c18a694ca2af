// Rotary position embedding in configs: rope_theta and rope_scaling in published files,
// rope_parameters in files written by transformers 5.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace moec {

/// What a family's class decides about its rotary embedding.
struct RopeKind {
  uint32_t dim = 0; // Elements of a head that rotate, the first ones; even.
  RopeStyle style = RopeStyle::kHalf;
  std::optional<double> defaultTheta = {}; // Without rope_theta; absent: it is required.
  bool isPartial = false; // Only then may the config have partial_rotary_factor < 1.
  /// The type "proportional" is supported: of the frequencies of a whole head, only the first part,
  /// partial_rotary_factor, is not 0.
  bool mayBeProportional = false;
  bool isLong = false; // Only then may the type be longrope, with the keys of PhiMoE.
};

/// Reads the keys and computes the inverse frequencies: in double with deterministic functions,
/// rounded once to f32. Supports the types default, linear, llama3, yarn, dynamic with alpha
/// (Hunyuan's) and, where the family has it, longrope; names any other type in an error.
moert::Result<RopeDescription> readRope(const ConfigObject &config, const RopeKind &kind);

/// The same for the parameters that rope_parameters lists under a type of layer.
moert::Result<RopeDescription> readLayerRope(const ConfigObject &config, std::string_view layerType,
                                             const RopeKind &kind);

/// DeepSeek's factor on attention scores with YaRN: the square of what mscale_all_dim gives; 1 if
/// there is none, or without YaRN.
moert::Result<double> readScoreFactor(const ConfigObject &config);

/// partial_rotary_factor, of the config or of its rope_parameters, or the fallback.
moert::Result<double> readPartialRotaryFactor(const ConfigObject &config, double fallback = 1);

} // namespace moec
