// GLM-4.7-Flash: DeepSeek-V3's attention and router. The layer after the last one, for multi-token
// prediction, is not read. Reference: transformers,
// models/glm4_moe_lite/modular_glm4_moe_lite.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The number of dense layers, which are the first: first_k_dense_replace in published files,
/// mlp_layer_types in those of transformers 5.
static Result<uint32_t> readDenseLayers(const ConfigObject &config, uint32_t layers) {
  const char *const countKey = "first_k_dense_replace", *const typesKey = "mlp_layer_types";
  MOERT_ASSIGN_OR_RETURN(const uint32_t count, config.integer(countKey, 0, kMaxLayerNumber, 1));
  if (!config.has(typesKey))
    return count;
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.strings(typesKey));
  const auto firstSparse = std::find(types.begin(), types.end(), "sparse");
  const auto dense = static_cast<uint32_t>(firstSparse - types.begin());
  const bool areKnown =
      std::all_of(types.begin(), firstSparse, [](const auto &type) { return type == "dense"; }) &&
      std::all_of(firstSparse, types.end(), [](const auto &type) { return type == "sparse"; });
  if (types.size() != layers || !areKnown)
    return config.mismatch(
        typesKey, strCat("\"dense\" and then \"sparse\", one for each of ", layers, " layers"));
  if (config.has(countKey) && count != dense)
    return config.mismatch(countKey, strCat("the dense layers of ", typesKey, ", ", dense));
  return dense;
}

Result<ModelDescription> describeGlm4MoeLite(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"mlp_bias", "lm_head_bias"}));
  MOERT_RETURN_IF_ERROR(requireKeys(config, {"routed_scaling_factor"}));
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_RETURN_IF_ERROR(checkSigmoidChoice(config));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, true));
  MOERT_ASSIGN_OR_RETURN(moe.firstRouted, readDenseLayers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
