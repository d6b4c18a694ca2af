#include "compiler/import/architectures/Rope.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace moec {

using moert::deterministicPow;
using moert::invalidInput;
using moert::kPi;
using moert::Result;
using moert::Status;
using moert::strCat;

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

Result<RopeKeys> readKeys(const ConfigObject &config, std::optional<double> defaultTheta) {
  RopeKeys keys;
  if (!config.has("rope_parameters")) {
    MOERT_ASSIGN_OR_RETURN(keys.theta,
                           config.real("rope_theta", kLeastTheta, kMostTheta, defaultTheta));
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
  MOERT_ASSIGN_OR_RETURN(keys.theta,
                         holder.real("rope_theta", kLeastTheta, kMostTheta, defaultTheta));
  return keys;
}

Status scaleLlama3(const ConfigObject &parameters, std::vector<double> &frequencies) {
  MOERT_ASSIGN_OR_RETURN(const double factor, parameters.real("factor", 1, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double low, parameters.real("low_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double high, parameters.real("high_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const uint32_t original,
                         parameters.integer("original_max_position_embeddings", 1, 1u << 30));
  if (!(high >= low))
    return parameters.mismatch("high_freq_factor", "at least low_freq_factor");
  for (double &frequency : frequencies) {
    const double wavelength = 2 * kPi / frequency;
    if (wavelength > original / low) {
      frequency /= factor;
      continue;
    }
    if (wavelength < original / high || high == low)
      continue;
    const double smooth = (original / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
  return Status();
}

/// YaRN (Peng et al. 2023, arXiv 2309.00071, section 3), as transformers computes it: frequencies
/// whose wave turns more than beta_fast times in the original length stay, those that turn less
/// than beta_slow times are divided by the factor, and a linear ramp over the index lies between.
struct Yarn {
  double factor = 1;
  double original = 0; // Positions that the model was trained on.
  double betaFast = 32, betaSlow = 1;
  bool truncates = true; // The ramp begins and ends at whole indices.
};

Result<Yarn> readYarn(const ConfigObject &parameters, const ConfigObject &config) {
  Yarn yarn;
  MOERT_ASSIGN_OR_RETURN(yarn.factor, parameters.real("factor", 1, kMostFactor));
  const char *const key = "original_max_position_embeddings";
  const bool hasOriginal = parameters.has(key);
  MOERT_ASSIGN_OR_RETURN(const uint32_t original,
                         (hasOriginal ? parameters : config)
                             .integer(hasOriginal ? key : "max_position_embeddings", 1, 1u << 30));
  yarn.original = original;
  MOERT_ASSIGN_OR_RETURN(yarn.betaFast, parameters.real("beta_fast", 1e-3, kMostFactor, 32));
  MOERT_ASSIGN_OR_RETURN(yarn.betaSlow, parameters.real("beta_slow", 1e-3, kMostFactor, 1));
  if (yarn.betaFast < yarn.betaSlow)
    return parameters.mismatch("beta_fast", "at least beta_slow");
  MOERT_ASSIGN_OR_RETURN(yarn.truncates, parameters.boolean("truncate", true));
  return yarn;
}

/// What the paper gives for the factor, with DeepSeek's scale of the logarithm.
double yarnMagnitude(double factor, double scale) {
  return factor > 1 ? 0.1 * scale * moert::deterministicLog(factor) + 1 : 1;
}

constexpr double kMostYarnScale = 1e3;

/// Factor on cos and sin: attention_factor, or mscale over mscale_all_dim, or what the paper gives
/// for the factor.
Result<float> yarnAttentionFactor(const ConfigObject &parameters, double factor) {
  const auto magnitude = [&](double scale) { return yarnMagnitude(factor, scale); };
  if (parameters.has("attention_factor")) {
    MOERT_ASSIGN_OR_RETURN(const double given,
                           parameters.real("attention_factor", 0, kMostYarnScale));
    return static_cast<float>(given);
  }
  if (!parameters.has("mscale") || !parameters.has("mscale_all_dim"))
    return static_cast<float>(magnitude(1));
  MOERT_ASSIGN_OR_RETURN(const double scale, parameters.real("mscale", 0, kMostYarnScale));
  MOERT_ASSIGN_OR_RETURN(const double all, parameters.real("mscale_all_dim", 0, kMostYarnScale));
  if (scale == 0 || all == 0) // As unset, in the reference implementation.
    return static_cast<float>(magnitude(1));
  return static_cast<float>(magnitude(scale) / magnitude(all));
}

void scaleYarn(const Yarn &yarn, double theta, std::vector<double> &frequencies) {
  const double dim = 2.0 * static_cast<double>(frequencies.size());
  const auto indexOf = [&](double turns) {
    return dim * moert::deterministicLog(yarn.original / (turns * 2 * kPi)) /
           (2 * moert::deterministicLog(theta));
  };
  double low = indexOf(yarn.betaFast), high = indexOf(yarn.betaSlow);
  if (yarn.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high)
    high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] * (1 - ramp) + frequencies[i] / yarn.factor * ramp;
  }
}

/// Hunyuan's dynamic type: alpha scales theta, by the same factor at every length.
Status scaleTheta(uint32_t dim, RopeKeys &keys) {
  if (keys.type != "dynamic" || !keys.parameters->has("alpha"))
    return Status();
  if (dim <= 2)
    return keys.parameters->mismatch("alpha", "none with heads of 2 elements");
  MOERT_ASSIGN_OR_RETURN(const double alpha, keys.parameters->real("alpha", 1, kMostFactor));
  keys.theta *= deterministicPow(alpha, static_cast<double>(dim) / (dim - 2));
  keys.type = "default";
  return Status();
}

/// Frequencies as of a whole head; those past the rotated part are 0, which rotates nothing.
Status scaleProportional(const ConfigObject &parameters, std::vector<double> &frequencies) {
  MOERT_ASSIGN_OR_RETURN(const double part, parameters.real("partial_rotary_factor", 0, 1, 1));
  MOERT_ASSIGN_OR_RETURN(const double factor, parameters.real("factor", 1, kMostFactor, 1));
  const auto rotated = static_cast<size_t>(part * static_cast<double>(frequencies.size()));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = i < rotated ? frequencies[i] / factor : 0;
  return Status();
}

/// LongRoPE (Ding et al. 2024, arXiv 2402.13753) as PhiMoE has it: each frequency is divided by a
/// factor of its own, from one list up to the original length and from another beyond it.
Status scaleLong(const RopeKeys &keys, const ConfigObject &config, std::vector<double> &frequencies,
                 RopeDescription &rope) {
  const ConfigObject &parameters = *keys.parameters;
  const char *const key = "original_max_position_embeddings";
  const ConfigObject &holder = parameters.has(key) ? parameters : config;
  MOERT_ASSIGN_OR_RETURN(rope.originalPositions, holder.integer(key, 1, 1u << 30));
  MOERT_ASSIGN_OR_RETURN(const uint32_t outer,
                         config.integer(key, 1, 1u << 30, rope.originalPositions));
  if (outer != rope.originalPositions)
    return parameters.mismatch(key, strCat("the same as outside of it, ", outer));
  MOERT_ASSIGN_OR_RETURN(const double shortScale, parameters.real("short_mscale", 1e-6, 1e6));
  MOERT_ASSIGN_OR_RETURN(const double longScale, parameters.real("long_mscale", 1e-6, 1e6));
  rope.attentionFactor = static_cast<float>(shortScale);
  rope.longAttentionFactor = static_cast<float>(longScale);
  const auto readFactors = [&](std::string_view name) -> Result<std::vector<double>> {
    MOERT_ASSIGN_OR_RETURN(std::vector<double> factors, parameters.reals(name, 1e-6, kMostFactor));
    if (factors.size() != frequencies.size())
      return parameters.mismatch(name, strCat("a list of ", frequencies.size(),
                                              " numbers, half of a head's elements; it has ",
                                              factors.size()));
    return factors;
  };
  MOERT_ASSIGN_OR_RETURN(const std::vector<double> shorter, readFactors("short_factor"));
  MOERT_ASSIGN_OR_RETURN(const std::vector<double> longer, readFactors("long_factor"));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    rope.longInverseFrequencies.push_back(static_cast<float>(frequencies[i] / longer[i]));
    frequencies[i] /= shorter[i];
  }
  return Status();
}

Status scale(const RopeKeys &keys, const ConfigObject &config, std::vector<double> &frequencies,
             float &attentionFactor) {
  if (keys.type == "default")
    return Status();
  if (keys.type == "llama3")
    return scaleLlama3(*keys.parameters, frequencies);
  if (keys.type == "yarn") {
    if (keys.theta <= 1)
      return config.mismatch("rope_theta", "more than 1 with YaRN");
    MOERT_ASSIGN_OR_RETURN(const Yarn yarn, readYarn(*keys.parameters, config));
    MOERT_ASSIGN_OR_RETURN(attentionFactor, yarnAttentionFactor(*keys.parameters, yarn.factor));
    scaleYarn(yarn, keys.theta, frequencies);
    return Status();
  }
  if (keys.type != "linear")
    return keys.parameters->mismatch(keys.parameters->contains("type") ? "type" : "rope_type",
                                     "default, linear, llama3, yarn, or dynamic with alpha");
  MOERT_ASSIGN_OR_RETURN(const double factor, keys.parameters->real("factor", 1, kMostFactor));
  for (double &frequency : frequencies)
    frequency /= factor;
  return Status();
}

} // namespace

Result<double> readPartialRotaryFactor(const ConfigObject &config, double fallback) {
  const char *const key = "partial_rotary_factor";
  if (config.has(key) || !config.has("rope_parameters"))
    return config.has(key) ? config.real(key, 0, 1) : Result<double>(fallback);
  MOERT_ASSIGN_OR_RETURN(const ConfigObject parameters, config.object("rope_parameters"));
  return parameters.has(key) ? parameters.real(key, 0, 1) : Result<double>(fallback);
}

Result<double> readScoreFactor(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const RopeKeys keys, readKeys(config, std::nullopt));
  if (keys.type != "yarn" || !keys.parameters->has("mscale_all_dim"))
    return 1.0;
  MOERT_ASSIGN_OR_RETURN(const double factor, keys.parameters->real("factor", 1, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double scale,
                         keys.parameters->real("mscale_all_dim", 0, kMostYarnScale));
  const double magnitude = yarnMagnitude(factor, scale);
  return magnitude * magnitude;
}

static Result<RopeDescription> describeRope(RopeKeys keys, const ConfigObject &config,
                                            const RopeKind &kind) {
  MOERT_RETURN_IF_ERROR(scaleTheta(kind.dim, keys));
  std::vector<double> frequencies;
  for (uint32_t i = 0; i < kind.dim; i += 2)
    frequencies.push_back(deterministicPow(keys.theta, -(static_cast<double>(i) / kind.dim)));
  RopeDescription rope;
  rope.style = kind.style;
  if (kind.mayBeProportional && keys.type == "proportional")
    MOERT_RETURN_IF_ERROR(scaleProportional(*keys.parameters, frequencies));
  else if (kind.isLong && keys.type == "longrope")
    MOERT_RETURN_IF_ERROR(scaleLong(keys, config, frequencies, rope));
  else
    MOERT_RETURN_IF_ERROR(scale(keys, config, frequencies, rope.attentionFactor));
  rope.inverseFrequencies.assign(frequencies.begin(), frequencies.end());
  return rope;
}

Result<RopeDescription> readRope(const ConfigObject &config, const RopeKind &kind) {
  MOERT_ASSIGN_OR_RETURN(RopeKeys keys, readKeys(config, kind.defaultTheta));
  MOERT_ASSIGN_OR_RETURN(const double part, readPartialRotaryFactor(config));
  if (part != 1 && !kind.isPartial)
    return config.mismatch("partial_rotary_factor", "1");
  return describeRope(std::move(keys), config, kind);
}

Result<RopeDescription> readLayerRope(const ConfigObject &config, std::string_view layerType,
                                      const RopeKind &kind) {
  MOERT_ASSIGN_OR_RETURN(const ConfigObject types, config.object("rope_parameters"));
  RopeKeys keys;
  MOERT_ASSIGN_OR_RETURN(keys.parameters, types.object(layerType));
  const ConfigObject &parameters = *keys.parameters;
  MOERT_ASSIGN_OR_RETURN(keys.type, readType(parameters, "default"));
  MOERT_ASSIGN_OR_RETURN(keys.theta,
                         parameters.real("rope_theta", kLeastTheta, kMostTheta, kind.defaultTheta));
  MOERT_ASSIGN_OR_RETURN(const double part, parameters.real("partial_rotary_factor", 0, 1, 1));
  if (part != 1 && keys.type != "proportional")
    return parameters.mismatch("partial_rotary_factor", "1");
  return describeRope(std::move(keys), config, kind);
}

} // namespace moec
