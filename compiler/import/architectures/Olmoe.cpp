// OLMoE: norms over the whole projection of queries and of keys, then an optional clamp of queries,
// keys and values; router weights are not renormalized unless the config says so. Its
// intermediate_size is the width of an expert. Reference: transformers,
// models/olmoe/modeling_olmoe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

constexpr double kMostClip = 1e6;

struct OlmoeConfig {
  uint32_t experts = 0;
  uint32_t topK = 0;
  uint32_t width = 0;
  bool renormalize = false;
  std::optional<float> clip;
};

Result<OlmoeConfig> readOlmoe(const ConfigObject &config) {
  OlmoeConfig olmoe;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(olmoe.experts,
                         readAlias(config, "num_experts", "num_local_experts", 1, kMaxExperts, 64));
  MOERT_ASSIGN_OR_RETURN(olmoe.topK, config.integer("num_experts_per_tok", 1, olmoe.experts, 8));
  if (olmoe.topK > olmoe.experts)
    return config.mismatch("num_experts_per_tok", "at most num_experts");
  MOERT_ASSIGN_OR_RETURN(olmoe.width, config.integer("intermediate_size", 1, kMaxWidth, 2048));
  MOERT_ASSIGN_OR_RETURN(olmoe.renormalize, config.boolean("norm_topk_prob", false));
  if (config.has("clip_qkv")) {
    MOERT_ASSIGN_OR_RETURN(const double clip, config.real("clip_qkv", 1e-6, kMostClip));
    olmoe.clip = static_cast<float>(clip);
  }
  return olmoe;
}

} // namespace

Result<ModelDescription> describeOlmoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const OlmoeConfig olmoe, readOlmoe(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    layer.attention.queryNorm =
        rmsNorm(decoder, attention + "q_norm.weight", layer.attention.query.weight.rows);
    layer.attention.keyNorm =
        rmsNorm(decoder, attention + "k_norm.weight", layer.attention.key.weight.rows);
    layer.attention.clip = olmoe.clip;
    MoeDescription &moe = layer.moe.emplace();
    moe.router.linear = linearLayer(module + "gate.", olmoe.experts, decoder.hiddenSize);
    moe.router.topK = olmoe.topK;
    moe.router.renormalize = olmoe.renormalize;
    const GluKind kind = {{}, decoder.hiddenSize, olmoe.width, decoder.activation};
    MOERT_ASSIGN_OR_RETURN(moe.experts,
                           describeExperts(input, module + "experts.", kind, olmoe.experts));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
