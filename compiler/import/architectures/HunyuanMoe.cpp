// Hunyuan-A13B: queries and keys are normalized per head after the rotary embedding, which has a
// theta scaled by alpha; a softmax router, renormalized; a shared network without a gate.
// Reference: transformers, models/hunyuan_v1_moe/modular_hunyuan_v1_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// A number of all layers, or a list with one for each.
Result<std::vector<uint32_t>> readPerLayer(const ConfigObject &config, std::string_view key,
                                           uint32_t least, uint32_t most, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(std::vector<uint32_t> values, config.integerOrList(key, least, most));
  if (values.size() == 1)
    values.resize(layers, values[0]);
  if (values.size() != layers)
    return config.mismatch(key, strCat("a number, or one for each of ", layers, " layers"));
  return values;
}

struct HunyuanConfig {
  uint32_t experts = 0;
  uint32_t width = 0;
  std::vector<uint32_t> topK, shared; // Per layer.
};

Result<HunyuanConfig> readHunyuan(const ConfigObject &config, uint32_t layers) {
  HunyuanConfig hunyuan;
  MOERT_RETURN_IF_ERROR(
      refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias", "use_cla", "use_mla"}));
  MOERT_ASSIGN_OR_RETURN(hunyuan.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(hunyuan.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(hunyuan.topK,
                         readPerLayer(config, "moe_topk", 1, hunyuan.experts, layers));
  MOERT_ASSIGN_OR_RETURN(
      hunyuan.shared, readPerLayer(config, "num_shared_expert", 1,
                                   std::min(kMaxSharedExperts, kMaxWidth / hunyuan.width), layers));
  return hunyuan;
}

} // namespace

Result<ModelDescription> describeHunyuanMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const HunyuanConfig hunyuan,
                         readHunyuan(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    addHeadNorms(decoder, attention + "query_layernorm", attention + "key_layernorm",
                 NormExtent::kHead, layer.attention);
    layer.attention.normsAfterRope = true;
    MoeDescription &moe = layer.moe.emplace();
    const RoutedConfig routed = {hunyuan.experts, hunyuan.topK[number], hunyuan.width, true};
    moe.router = softmaxRouter(decoder, routed, module + "gate.wg.");
    const GluKind kind = {{}, decoder.hiddenSize, hunyuan.width, decoder.activation};
    MOERT_ASSIGN_OR_RETURN(moe.experts,
                           describeExperts(input, module + "experts.", kind, hunyuan.experts));
    moe.shared.emplace().network = gluNetwork(
        module + "shared_mlp.",
        {{}, decoder.hiddenSize, hunyuan.width * hunyuan.shared[number], decoder.activation});
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
