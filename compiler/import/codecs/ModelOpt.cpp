// Checkpoints of NVIDIA's ModelOpt: NVFP4 or FP8, in all layers or, with MIXED_PRECISION, as
// quantized_layers says. Its FP8 has a scale per tensor (FP8), per row (FP8_PER_CHANNEL_PER_TOKEN,
// a vector) or per 128 x 128 (FP8_PB_WO, stored [blocks, 1, blocks, 1]). W4A16_NVFP4 differs from
// NVFP4 in the activations only. Sources: ModelOpt, torch/export; vLLM,
// model_executor/layers/quantization/modelopt.py.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

#include <cctype>

namespace moec {

using moert::Result;

namespace {

constexpr uint64_t kFp8Block = 128;

/// One of the algorithms for a single format, in any case of letters.
Result<std::unique_ptr<WeightCodec>> makePart(const ConfigObject &holder, std::string algorithm) {
  for (char &letter : algorithm)
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (algorithm == "FP8" || algorithm == "FP8_PER_CHANNEL_PER_TOKEN")
    return makeFp8Codec(ScaleBlock{});
  if (algorithm == "FP8_PB_WO")
    return makeFp8Codec(ScaleBlock{kFp8Block, kFp8Block});
  if (algorithm != "NVFP4" && algorithm != "W4A16_NVFP4")
    return holder.mismatch("quant_algo", "\"NVFP4\", \"W4A16_NVFP4\", \"FP8\", "
                                         "\"FP8_PER_CHANNEL_PER_TOKEN\", \"FP8_PB_WO\" or, for all "
                                         "layers together, \"MIXED_PRECISION\" of these");
  MOERT_RETURN_IF_ERROR(
      holder.integer("group_size", kNvfp4Group, kNvfp4Group, kNvfp4Group).status());
  return makeNvfp4Codec(Nvfp4Names::kModelOpt);
}

} // namespace

Result<std::unique_ptr<WeightCodec>> makeModelOptCodec(const ConfigObject &quantization) {
  MOERT_ASSIGN_OR_RETURN(const std::string algorithm, quantization.string("quant_algo"));
  if (algorithm != "MIXED_PRECISION")
    return makePart(quantization, algorithm);
  MOERT_ASSIGN_OR_RETURN(const ConfigObject layers, quantization.object("quantized_layers"));
  std::vector<std::unique_ptr<WeightCodec>> parts;
  for (const std::string &name : layers.keys()) {
    MOERT_ASSIGN_OR_RETURN(const ConfigObject layer, layers.object(name));
    MOERT_ASSIGN_OR_RETURN(const std::string own, layer.string("quant_algo"));
    MOERT_ASSIGN_OR_RETURN(parts.emplace_back(), makePart(layer, own));
  }
  if (parts.empty())
    return quantization.mismatch("quantized_layers", "at least one layer");
  return makeMixedCodec(std::move(parts));
}

} // namespace moec
