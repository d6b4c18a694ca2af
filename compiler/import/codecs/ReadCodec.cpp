// Chooses the codec of a checkpoint from its config.
#include "compiler/import/OptionalFile.h"
#include "compiler/import/codecs/Codec.h"

#include <algorithm>
#include <array>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

struct Method {
  std::string_view name; // The value of quant_method.
  Result<std::unique_ptr<WeightCodec>> (*make)(const ConfigObject &quantization);
};

/// Ascending by name.
constexpr std::array kMethods = {
    Method{"auto-round", makeAutoRoundCodec},
    Method{"awq", makeAwqCodec},
    Method{"compressed-tensors", makeCompressedTensorsCodec},
    Method{"fp8", makeFp8Codec},
    Method{"gptq", makeGptqCodec},
    Method{"intel/auto-round", makeAutoRoundCodec}, // As its first releases wrote it.
    Method{"modelopt", makeModelOptCodec},
    Method{"mxfp4", makeMxfp4Codec},
};

std::string methodsText() {
  std::string text;
  for (const Method &method : kMethods)
    text += strCat(text.empty() ? "" : ", ", method.name);
  return text;
}

/// Multimodal checkpoints keep it beside the text model's parameters; compressed-tensors once named
/// it compression_config.
Result<std::optional<ConfigObject>> findQuantization(const ConfigObject &config) {
  for (const std::string_view key : {"quantization_config", "compression_config"})
    if (config.has(key)) {
      MOERT_ASSIGN_OR_RETURN(const ConfigObject found, config.object(key));
      return std::optional(found);
    }
  if (!config.has("text_config"))
    return std::optional<ConfigObject>();
  MOERT_ASSIGN_OR_RETURN(const ConfigObject text, config.object("text_config"));
  if (!text.has("quantization_config"))
    return std::optional<ConfigObject>();
  MOERT_ASSIGN_OR_RETURN(const ConfigObject found, text.object("quantization_config"));
  return std::optional(found);
}

/// MLX writes its parameters under a key of its own, and again in quantization_config without a
/// method's name.
Status refuseMlx(const ConfigObject &config) {
  for (const std::string_view key : {"quantization", "quantization_config"}) {
    const Result<ConfigObject> found = config.object(key);
    if (found.isOk() && !found->contains("quant_method") && found->has("group_size") &&
        found->has("bits"))
      return config.mismatch(
          key, strCat("none of the format of MLX, whose weights (tensors .weight, .scales and "
                      ".biases) are not read. Use the checkpoint that it was converted from, in "
                      "16 bits or quantized with one of the methods ",
                      methodsText()));
  }
  return Status();
}

bool isSwin(const ConfigObject &config) {
  const Result<std::string> type = config.string("model_type");
  return type.isOk() && *type == "swin_moe";
}

} // namespace

Result<std::unique_ptr<WeightCodec>> readCodec(const ConfigObject &config) {
  MOERT_RETURN_IF_ERROR(refuseMlx(config));
  MOERT_ASSIGN_OR_RETURN(const std::optional<ConfigObject> quantization, findQuantization(config));
  if (!quantization)
    return isSwin(config) ? makeSwinCodec(config) : std::unique_ptr<WeightCodec>();
  MOERT_ASSIGN_OR_RETURN(const std::string name, quantization->string("quant_method"));
  const auto *method = std::find_if(kMethods.begin(), kMethods.end(),
                                    [&](const Method &each) { return each.name == name; });
  if (method == kMethods.end())
    return quantization->mismatch("quant_method", strCat("one of ", methodsText()));
  return method->make(*quantization);
}

Result<std::unique_ptr<WeightCodec>> readCodec(const ConfigObject &config,
                                               const std::string &directory) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<WeightCodec> codec, readCodec(config));
  const std::string path = directory + "/hf_quant_config.json";
  MOERT_ASSIGN_OR_RETURN(const bool isThere, hasReadableFile(path));
  if (codec || !isThere)
    return codec;
  MOERT_ASSIGN_OR_RETURN(const Config file, Config::read(path));
  MOERT_ASSIGN_OR_RETURN(const ConfigObject quantization, file.root().object("quantization"));
  // Without it, only the cache of keys and values is quantized, which is a matter of running.
  return quantization.has("quant_algo") ? makeModelOptCodec(quantization) : std::move(codec);
}

} // namespace moec
