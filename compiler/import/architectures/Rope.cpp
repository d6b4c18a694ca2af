#include "compiler/import/architectures/Rope.h"

#include "compiler/import/ConfigTable.h"
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

/// The keys of a rope object, of all types; every one but the type may be absent.
constexpr ConfigKey kRows[] = {
    {"rope_type", "text", R"("default")", KeyEffect::kUsed, "type"},
    {"rope_theta", "real", "null"},
    {"partial_rotary_factor", "real?", "null"},
    {"original_max_position_embeddings", "int", "null"},
    {"factor", "real?", "null"},
    {"attention_factor", "real?", "null"},
    {"beta_fast", "real?", "32"},
    {"beta_slow", "real?", "1"},
    {"mscale", "real?", "null"},
    {"mscale_all_dim", "real?", "null"},
    {"truncate", "flag?", "true"},
    {"low_freq_factor", "real", "null"},
    {"high_freq_factor", "real", "null"},
    {"short_factor", "list", "null"},
    {"long_factor", "list", "null"},
    {"short_mscale", "real", "null"},
    {"long_mscale", "real", "null"},
    {"alpha", "real?", "null"},
    {"divisors", "list", "null"},
};

const ConfigTable &ropeTable() {
  static const ConfigTable table(kRows);
  return table;
}

/// A rope object and the config around it.
struct RopeKeys {
  ConfigObject config;
  std::optional<ConfigObject> parameters;
  std::string type = "default";
  double theta = 0;
  bool isPerLayer = false;

  /// Where the value of a key is that may be inside the object or outside of it.
  const ConfigObject &holder(std::string_view key) const {
    return parameters && parameters->contains(key) ? *parameters : config;
  }
};

/// The class's own rope_parameters, if it has some, are as good as the file's.
Result<std::optional<ConfigObject>> findParameters(const ConfigObject &config) {
  for (const char *key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key))
      continue;
    MOERT_ASSIGN_OR_RETURN(const ConfigObject object, config.object(key));
    if (object.keys().empty() && std::string_view(key) == "rope_scaling")
      continue;
    MOERT_ASSIGN_OR_RETURN(const ConfigObject read, object.withTable(ropeTable()));
    return std::optional<ConfigObject>(read);
  }
  return std::optional<ConfigObject>();
}

Status readTypeAndTheta(RopeKeys &keys) {
  if (keys.parameters) {
    MOERT_ASSIGN_OR_RETURN(keys.type, keys.parameters->string("rope_type"));
    if (!keys.parameters->contains("rope_type") && keys.parameters->contains("factor"))
      return keys.parameters->mismatch("rope_type", "the type that its factor belongs to");
  }
  MOERT_ASSIGN_OR_RETURN(keys.theta,
                         keys.holder("rope_theta").real("rope_theta", kLeastTheta, kMostTheta));
  return Status();
}

Result<RopeKeys> readKeys(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(std::optional<ConfigObject> parameters, findParameters(config));
  RopeKeys keys{config, std::move(parameters)};
  MOERT_RETURN_IF_ERROR(readTypeAndTheta(keys));
  return keys;
}

/// Positions that the model was trained on: outside of the object, inside of it, or all positions.
/// Types of layers do not look outside.
Result<uint32_t> readOriginal(const RopeKeys &keys) {
  const char *const key = "original_max_position_embeddings";
  if (!keys.isPerLayer && keys.config.contains(key))
    return keys.config.integer(key, 1, 1u << 30);
  if (keys.parameters->contains(key))
    return keys.parameters->integer(key, 1, 1u << 30);
  return keys.config.integer("max_position_embeddings", 1, 1u << 30);
}

/// The part of a head that rotates; null is a whole head.
Result<double> readPart(const RopeKeys &keys, std::optional<double> fallback) {
  const char *const key = "partial_rotary_factor";
  const ConfigObject &holder = keys.holder(key);
  if (fallback && !holder.contains(key))
    return *fallback;
  return holder.has(key) ? holder.real(key, 0, 1) : Result<double>(1);
}

Status scaleLlama3(const RopeKeys &keys, std::vector<double> &frequencies) {
  const ConfigObject &parameters = *keys.parameters;
  MOERT_ASSIGN_OR_RETURN(const double factor, parameters.real("factor", 1, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double low, parameters.real("low_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const double high, parameters.real("high_freq_factor", 1e-6, kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const uint32_t original, readOriginal(keys));
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

/// null and 0 stand for the default, as in the reference.
Result<double> readTurns(const ConfigObject &parameters, std::string_view key, double fallback) {
  if (!parameters.has(key))
    return fallback;
  MOERT_ASSIGN_OR_RETURN(const double turns, parameters.real(key, 0, kMostFactor));
  return turns == 0 ? fallback : turns;
}

Result<Yarn> readYarn(const RopeKeys &keys) {
  const ConfigObject &parameters = *keys.parameters;
  Yarn yarn;
  MOERT_ASSIGN_OR_RETURN(const uint32_t original, readOriginal(keys));
  yarn.original = original;
  if (parameters.contains("factor") && !parameters.has("factor")) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t positions,
                           keys.config.integer("max_position_embeddings", 1, 1u << 30));
    yarn.factor = positions / yarn.original;
    if (yarn.factor < 1)
      return parameters.mismatch("factor",
                                 "a number: there are fewer positions than original ones");
  } else {
    MOERT_ASSIGN_OR_RETURN(yarn.factor, parameters.real("factor", 1, kMostFactor));
  }
  MOERT_ASSIGN_OR_RETURN(yarn.betaFast, readTurns(parameters, "beta_fast", yarn.betaFast));
  MOERT_ASSIGN_OR_RETURN(yarn.betaSlow, readTurns(parameters, "beta_slow", yarn.betaSlow));
  if (yarn.betaFast < yarn.betaSlow)
    return parameters.mismatch("beta_fast", "at least beta_slow");
  MOERT_ASSIGN_OR_RETURN(yarn.truncates, parameters.boolean("truncate"));
  if (keys.isPerLayer && !yarn.truncates)
    return parameters.mismatch("truncate", "true: the reference implementation truncates in an "
                                           "object per type of layer, whatever the key is");
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
Status scaleProportional(const RopeKeys &keys, std::vector<double> &frequencies) {
  MOERT_ASSIGN_OR_RETURN(const double part, readPart(keys, std::nullopt));
  double factor = 1;
  if (keys.parameters->contains("factor")) {
    MOERT_ASSIGN_OR_RETURN(factor, keys.parameters->real("factor", 1, kMostFactor));
  }
  const auto rotated = static_cast<size_t>(part * static_cast<double>(frequencies.size()));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = i < rotated ? frequencies[i] / factor : 0;
  return Status();
}

/// A list of numbers that frequencies are divided by, one each.
Result<std::vector<double>> readDivisors(const ConfigObject &parameters, std::string_view key,
                                         size_t frequencies, double most) {
  MOERT_ASSIGN_OR_RETURN(std::vector<double> divisors, parameters.reals(key, 1e-6, most));
  if (divisors.size() != frequencies)
    return parameters.mismatch(key, strCat("a list of ", frequencies,
                                           " numbers, half of a head's elements; it has ",
                                           divisors.size()));
  return divisors;
}

/// rope_freqs.weight of GGUF files: llama.cpp's converter computes a divisor for each frequency
/// from llama3, the type that was published. 1e30 is no rotation.
Status divide(const RopeKeys &keys, std::vector<double> &frequencies) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<double> divisors,
                         readDivisors(*keys.parameters, "divisors", frequencies.size(), 1e31));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] /= divisors[i];
  return Status();
}

/// LongRoPE (Ding et al. 2024, arXiv 2402.13753) as PhiMoE has it: each frequency is divided by a
/// factor of its own, from one list up to the original length and from another beyond it.
Status scaleLong(const RopeKeys &keys, std::vector<double> &frequencies, RopeDescription &rope) {
  const ConfigObject &parameters = *keys.parameters;
  const char *const key = "original_max_position_embeddings";
  MOERT_ASSIGN_OR_RETURN(rope.originalPositions, readOriginal(keys));
  if (parameters.contains(key)) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t inner, parameters.integer(key, 1, 1u << 30));
    if (inner != rope.originalPositions)
      return parameters.mismatch(key,
                                 strCat("the same as outside of it, ", rope.originalPositions));
  }
  MOERT_ASSIGN_OR_RETURN(const double shortScale, parameters.real("short_mscale", 1e-6, 1e6));
  MOERT_ASSIGN_OR_RETURN(const double longScale, parameters.real("long_mscale", 1e-6, 1e6));
  rope.attentionFactor = static_cast<float>(shortScale);
  rope.longAttentionFactor = static_cast<float>(longScale);
  MOERT_ASSIGN_OR_RETURN(const std::vector<double> shorter,
                         readDivisors(parameters, "short_factor", frequencies.size(), kMostFactor));
  MOERT_ASSIGN_OR_RETURN(const std::vector<double> longer,
                         readDivisors(parameters, "long_factor", frequencies.size(), kMostFactor));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    rope.longInverseFrequencies.push_back(static_cast<float>(frequencies[i] / longer[i]));
    frequencies[i] /= shorter[i];
  }
  return Status();
}

Status scale(const RopeKeys &keys, const RopeKind &kind, std::vector<double> &frequencies,
             RopeDescription &rope) {
  if (keys.type == "default")
    return Status();
  const ConfigObject &parameters = *keys.parameters;
  if (kind.isLong && keys.type == "longrope")
    return scaleLong(keys, frequencies, rope);
  if (kind.isLong)
    return parameters.mismatch("rope_type", "default or longrope, the types of this family");
  if (kind.mayBeProportional && keys.type == "proportional")
    return scaleProportional(keys, frequencies);
  if (keys.type == "llama3")
    return scaleLlama3(keys, frequencies);
  if (keys.type == "divided")
    return divide(keys, frequencies);
  if (keys.type == "yarn") {
    if (keys.theta <= 1)
      return keys.holder("rope_theta").mismatch("rope_theta", "more than 1 with YaRN");
    MOERT_ASSIGN_OR_RETURN(const Yarn yarn, readYarn(keys));
    if (kind.thetaKey.empty() || parameters.has("attention_factor")) {
      MOERT_ASSIGN_OR_RETURN(rope.attentionFactor, yarnAttentionFactor(parameters, yarn.factor));
    }
    scaleYarn(yarn, keys.theta, frequencies);
    return Status();
  }
  if (keys.type != "linear")
    return parameters.mismatch("rope_type", strCat("default, linear, llama3, yarn",
                                                   kind.hasAlpha ? ", or dynamic with alpha" : ""));
  MOERT_ASSIGN_OR_RETURN(const double factor, parameters.real("factor", 1, kMostFactor));
  for (double &frequency : frequencies)
    frequency /= factor;
  return Status();
}

Result<RopeDescription> describeRope(RopeKeys keys, const RopeKind &kind) {
  if (kind.hasAlpha)
    MOERT_RETURN_IF_ERROR(scaleTheta(kind.dim, keys));
  std::vector<double> frequencies;
  for (uint32_t i = 0; i < kind.dim; i += 2)
    frequencies.push_back(deterministicPow(keys.theta, -(static_cast<double>(i) / kind.dim)));
  RopeDescription rope;
  rope.style = kind.style;
  MOERT_RETURN_IF_ERROR(scale(keys, kind, frequencies, rope));
  rope.inverseFrequencies.assign(frequencies.begin(), frequencies.end());
  return rope;
}

} // namespace

Result<double> readPartialRotaryFactor(const ConfigObject &config, std::optional<double> fallback) {
  MOERT_ASSIGN_OR_RETURN(const RopeKeys keys, readKeys(config));
  return readPart(keys, fallback);
}

Result<double> readScoreFactor(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const RopeKeys keys, readKeys(config));
  if (keys.type == "default" || !keys.parameters->has("mscale_all_dim"))
    return 1.0;
  MOERT_ASSIGN_OR_RETURN(const double scale,
                         keys.parameters->real("mscale_all_dim", 0, kMostYarnScale));
  if (scale == 0)
    return 1.0;
  MOERT_ASSIGN_OR_RETURN(const double factor, keys.parameters->real("factor", 1, kMostFactor));
  const double magnitude = yarnMagnitude(factor, scale);
  return magnitude * magnitude;
}

Result<RopeDescription> readRope(const ConfigObject &config, const RopeKind &kind) {
  MOERT_ASSIGN_OR_RETURN(RopeKeys keys, readKeys(config));
  MOERT_ASSIGN_OR_RETURN(const double part, readPart(keys, std::nullopt));
  if (part != 1 && !kind.isPartial)
    return keys.holder("partial_rotary_factor").mismatch("partial_rotary_factor", "1");
  if (!kind.thetaKey.empty()) {
    MOERT_ASSIGN_OR_RETURN(keys.theta, config.real(kind.thetaKey, kLeastTheta, kMostTheta));
    keys.isPerLayer = true;
    if (kind.thetaKey == "rope_theta")
      keys.type = "default";
  }
  return describeRope(std::move(keys), kind);
}

Result<RopeDescription> readLayerRope(const ConfigObject &config, std::string_view layerType,
                                      const RopeKind &kind) {
  if (config.has("rope_scaling"))
    return config.mismatch("rope_scaling", "rope_parameters alone, one object per type of layer");
  MOERT_ASSIGN_OR_RETURN(const ConfigObject types, config.object("rope_parameters"));
  MOERT_ASSIGN_OR_RETURN(const ConfigObject object, types.object(layerType));
  MOERT_ASSIGN_OR_RETURN(ConfigObject parameters, object.withTable(ropeTable()));
  RopeKeys keys{config, std::move(parameters)};
  keys.isPerLayer = true;
  if (!keys.parameters->contains("rope_theta") && !config.contains("rope_theta"))
    return keys.parameters->mismatch("rope_theta", "a number; the class has no default for it");
  MOERT_RETURN_IF_ERROR(readTypeAndTheta(keys));
  MOERT_ASSIGN_OR_RETURN(const double part, readPart(keys, std::nullopt));
  RopeKind rotated = kind;
  if (kind.isPartial)
    rotated.dim = static_cast<uint32_t>(kind.dim * part);
  if (rotated.dim == 0 || rotated.dim % 2 != 0 ||
      (part != 1 && !kind.isPartial && keys.type != "proportional"))
    return keys.holder("partial_rotary_factor")
        .mismatch("partial_rotary_factor",
                  kind.isPartial ? "a factor with an even part of a head" : "1");
  return describeRope(std::move(keys), rotated);
}

} // namespace moec
