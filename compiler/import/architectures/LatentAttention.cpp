#include "compiler/import/architectures/LatentAttention.h"

#include <cmath>

namespace moec {

using moert::Status;
using moert::strCat;

static Status readHeads(const ConfigObject &config, DecoderConfig &decoder) {
  MOERT_ASSIGN_OR_RETURN(decoder.heads, config.integer("num_attention_heads", 1, kMaxHeads));
  decoder.kvHeads = decoder.heads;
  const char *const key = "num_key_value_heads";
  if (!config.has(key))
    return {};
  MOERT_ASSIGN_OR_RETURN(decoder.kvHeads, config.integer(key, 1, kMaxHeads));
  if (decoder.kvHeads != decoder.heads)
    return config.mismatch(key, strCat("num_attention_heads, ", decoder.heads,
                                       ": heads share no keys but the latent"));
  return {};
}

Status readLatentAttention(const ConfigObject &config, DecoderConfig &decoder,
                           LatentAttentionConfig &attention) {
  MOERT_ASSIGN_OR_RETURN(decoder, readDecoderWithoutHeads(config));
  MOERT_RETURN_IF_ERROR(readHeads(config, decoder));
  if (config.has("q_lora_rank")) {
    MOERT_ASSIGN_OR_RETURN(attention.queryRank, config.integer("q_lora_rank", 1, kMaxWidth));
  }
  MOERT_ASSIGN_OR_RETURN(attention.rank, config.integer("kv_lora_rank", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(attention.restDim, config.integer("qk_nope_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(attention.sharedDim,
                         config.integer("qk_rope_head_dim", attention.hasShared ? 2 : 0,
                                        attention.hasShared ? kMaxHeadDim : 0));
  MOERT_ASSIGN_OR_RETURN(attention.valueDim, config.integer("v_head_dim", 1, kMaxHeadDim));
  if (attention.sharedDim % 2 != 0)
    return config.mismatch("qk_rope_head_dim", "an even number");
  decoder.headDim = attention.restDim + attention.sharedDim;
  decoder.rope.dim = attention.sharedDim;
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const double factor, readScoreFactor(config));
  attention.scale = static_cast<float>(factor / std::sqrt(static_cast<double>(decoder.headDim)));
  return {};
}

void describeLatentAttention(const DecoderConfig &decoder, const LatentAttentionConfig &config,
                             const std::string &module, LayerDescription &layer) {
  layer.attention = {};
  LatentAttentionDescription &attention = layer.latentAttention.emplace();
  const uint32_t hidden = decoder.hiddenSize, heads = decoder.heads;
  attention.heads = heads;
  attention.scale = config.scale;
  if (config.hasShared)
    attention.rope = 0;
  const auto latentNorm = [&](std::string tensor, uint32_t width) {
    NormDescription norm = rmsNorm(decoder, std::move(tensor), width);
    norm.epsilon = config.latentEpsilon.value_or(norm.epsilon);
    return norm;
  };
  const uint32_t queries = heads * decoder.headDim;
  if (config.queryRank == 0) {
    attention.query = linearLayer(module + "q_proj.", queries, hidden);
  } else {
    attention.queryDown = linearLayer(module + "q_a_proj.", config.queryRank, hidden);
    attention.queryNorm = latentNorm(module + "q_a_layernorm.weight", config.queryRank);
    attention.query = linearLayer(module + "q_b_proj.", queries, config.queryRank);
  }
  // The latent's rows, then the shared key's.
  attention.latent = linearLayer(module + "kv_a_proj_with_mqa.", config.rank, hidden);
  attention.key = linearLayer(module + "kv_a_proj_with_mqa.", config.sharedDim, hidden);
  attention.key.weight.firstRow = config.rank;
  attention.latentNorm = latentNorm(module + "kv_a_layernorm.weight", config.rank);
  // Per head the rows of its key, then those of its value, each of the latent.
  const std::string up = module + "kv_b_proj.weight";
  attention.keyUp = matrixSource(up, heads * config.rank, config.restDim);
  attention.keyUp.transposed = true;
  attention.valueUp = matrixSource(up, heads * config.valueDim, config.rank);
  attention.valueUp.firstRow = config.restDim;
  for (WeightSource *source : {&attention.keyUp, &attention.valueUp}) {
    source->blocks = heads;
    source->blockStep = config.restDim + config.valueDim;
  }
  attention.output = linearLayer(module + "o_proj.", hidden, heads * config.valueDim);
}

} // namespace moec
