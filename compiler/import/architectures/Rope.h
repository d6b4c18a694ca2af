// Rotary position embedding in configs: rope_theta and rope_scaling in published files,
// rope_parameters in files written by transformers 5. Read as modeling_rope_utils.py of
// transformers 5.24 does: the keys of rope_scaling, unless it is empty, or else those of
// rope_parameters; what the object lacks is read outside of it, and then has the class's default.
// The length of the training is the exception: outside of the object it has precedence.
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
  bool isPartial = false; // Only then may the config have partial_rotary_factor < 1.
  /// The type "proportional" is supported: of the frequencies of a whole head, only the first part,
  /// partial_rotary_factor, is not 0.
  bool mayBeProportional = false;
  bool isLong = false;   // The type may be longrope, with the keys of PhiMoE, and no other.
  bool hasAlpha = false; // The type may be dynamic with alpha, as Hunyuan has it.
  /// The key with theta where the config has several rotations; empty: rope_theta. Only that of
  /// another key is scaled, and it is not multiplied unless attention_factor says so.
  std::string_view thetaKey = {};
};

/// Reads the keys and computes the inverse frequencies: in double with deterministic functions,
/// rounded once to f32. Supports the types default, linear, llama3, yarn and, where the family has
/// them, longrope or dynamic with alpha; names any other type in an error.
moert::Result<RopeDescription> readRope(const ConfigObject &config, const RopeKind &kind);

/// Reads the parameters that rope_parameters lists under a type of layer. A partial kind's
/// dim is that of a whole head, of which their partial_rotary_factor rotates.
moert::Result<RopeDescription> readLayerRope(const ConfigObject &config, std::string_view layerType,
                                             const RopeKind &kind);

/// DeepSeek's factor on attention scores: the square of what mscale_all_dim gives for the factor,
/// in any type but the default; 1 if there is none.
moert::Result<double> readScoreFactor(const ConfigObject &config);

/// The value of partial_rotary_factor. `fallback`, if set, replaces the class's default.
moert::Result<double> readPartialRotaryFactor(const ConfigObject &config,
                                              std::optional<double> fallback = std::nullopt);

} // namespace moec
