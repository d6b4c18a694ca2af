#include "compiler/import/architectures/Rope.h"

#include "runtime/base/DeterministicMath.h"

#include <optional>

namespace moec {

using moert::deterministicPow;
using moert::invalidInput;
using moert::kPi;
using moert::Result;
using moert::Status;

namespace {

/// Published values are 1e4 to 1e7; any value in this range is computable.
constexpr double kLeastTheta = 1, kMostTheta = 1e15;
constexpr double kMostFactor = 1e6;

/// Location of the keys.
struct RopeKeys {
  double theta = 0;
  std::string type = "default";
  std::optional<ConfigObject> parameters; // The scaling's parameters.
};

Result<std::string> readType(const ConfigObject &parameters, std::optional<std::string> fallback) {
  if (!parameters.contains("type"))
    return parameters.string("rope_type", std::move(fallback));
  MOERT_ASSIGN_OR_RETURN(const std::string type, parameters.string("type"));
  MOERT_ASSIGN_OR_RETURN(const std::string ropeType, parameters.string("rope_type", type));
  if (type != ropeType)
    return parameters.mismatch("rope_type", "the same as 'type', which is \"" + type + "\"");
  return type;
}

Result<RopeKeys> readKeys(const ConfigObject &config) {
  RopeKeys keys;
  if (!config.has("rope_parameters")) {
    MOERT_ASSIGN_OR_RETURN(keys.theta, config.real("rope_theta", kLeastTheta, kMostTheta));
    if (!config.has("rope_scaling"))
      return keys;
    MOERT_ASSIGN_OR_RETURN(keys.parameters, config.object("rope_scaling"));
    MOERT_ASSIGN_OR_RETURN(keys.type, readType(*keys.parameters, std::nullopt));
    return keys;
  }
  if (config.has("rope_scaling"))
    return config.mismatch("rope_scaling",
                           "no such key together with rope_parameters, which replaces it");
  MOERT_ASSIGN_OR_RETURN(keys.parameters, config.object("rope_parameters"));
  MOERT_ASSIGN_OR_RETURN(keys.type, readType(*keys.parameters, "default"));
  const ConfigObject &holder = keys.parameters->contains("rope_theta") ? *keys.parameters : config;
  MOERT_ASSIGN_OR_RETURN(keys.theta, holder.real("rope_theta", kLeastTheta, kMostTheta));
  return keys;
}

/// No supported family rotates only a part of each head.
Status refusePartial(const ConfigObject &config) {
  if (!config.has("partial_rotary_factor"))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const double factor, config.real("partial_rotary_factor", 0, 1));
  return factor == 1 ? Status() : config.mismatch("partial_rotary_factor", "1");
}

Status scaleLlama3(const ConfigObject &parameters, std::vector<double> &frequencies) {
  MOERT_ASSIGN_OR_RETURN(const double factor, parameters.real("factor", 1, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double low, parameters.real("low_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double high, parameters.real("high_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const uint32_t original,
                         parameters.integer("original_max_position_embeddings", 1, 1u << 30));
  if (!(high > low))
    return parameters.mismatch("high_freq_factor", "more than low_freq_factor");
  for (double &frequency : frequencies) {
    const double wavelength = 2 * kPi / frequency;
    if (wavelength < original / high)
      continue;
    if (wavelength > original / low) {
      frequency /= factor;
      continue;
    }
    const double smooth = (original / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
  return Status();
}

Status scale(const RopeKeys &keys, std::vector<double> &frequencies) {
  if (keys.type == "default")
    return Status();
  if (keys.type == "llama3")
    return scaleLlama3(*keys.parameters, frequencies);
  if (keys.type != "linear")
    return keys.parameters->mismatch(keys.parameters->contains("type") ? "type" : "rope_type",
                                     "default, linear or llama3");
  MOERT_ASSIGN_OR_RETURN(const double factor, keys.parameters->real("factor", 1, kMostFactor));
  for (double &frequency : frequencies)
    frequency /= factor;
  return Status();
}

} // namespace

Result<RopeDescription> readRope(const ConfigObject &config, uint32_t rotaryDim) {
  MOERT_ASSIGN_OR_RETURN(const RopeKeys keys, readKeys(config));
  MOERT_RETURN_IF_ERROR(refusePartial(config));
  if (keys.parameters)
    MOERT_RETURN_IF_ERROR(refusePartial(*keys.parameters));

  std::vector<double> frequencies;
  for (uint32_t i = 0; i < rotaryDim; i += 2)
    frequencies.push_back(deterministicPow(keys.theta, -(static_cast<double>(i) / rotaryDim)));
  MOERT_RETURN_IF_ERROR(scale(keys, frequencies));
  RopeDescription rope;
  rope.inverseFrequencies.assign(frequencies.begin(), frequencies.end());
  return rope;
}

} // namespace moec
