// MiniMax-M2: norms over the whole projections, a part of each head rotates, a sigmoid router with
// a bias for the choice, Mixtral's names. Reference: transformers,
// models/minimax_m2/modular_minimax_m2.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

struct MiniMaxConfig {
  uint32_t experts = 0;
  uint32_t topK = 0;
  uint32_t width = 0;
};

Result<MiniMaxConfig> readMiniMax(const ConfigObject &config) {
  MiniMaxConfig mini;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(mini.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(mini.topK, config.integer("num_experts_per_tok", 1, mini.experts));
  MOERT_ASSIGN_OR_RETURN(mini.width, config.integer("intermediate_size", 1, kMaxWidth));
  if (config.has("sliding_window"))
    return config.mismatch("sliding_window", "null, as in all published models of this family");
  return mini;
}

} // namespace

Result<ModelDescription> describeMiniMaxM2(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  if (input.config.has("rotary_dim")) {
    MOERT_ASSIGN_OR_RETURN(decoder.rope.dim,
                           input.config.integer("rotary_dim", 2, decoder.headDim));
    if (decoder.rope.dim % 2 != 0)
      return input.config.mismatch("rotary_dim", "an even number");
    decoder.rope.isPartial = true;
  } else {
    MOERT_RETURN_IF_ERROR(setPartialRotation(input.config, decoder));
  }
  MOERT_ASSIGN_OR_RETURN(const MiniMaxConfig mini, readMiniMax(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "block_sparse_moe.";
    layer.attention.queryNorm =
        rmsNorm(decoder, attention + "q_norm.weight", layer.attention.query.weight.rows);
    layer.attention.keyNorm =
        rmsNorm(decoder, attention + "k_norm.weight", layer.attention.key.weight.rows);
    MoeDescription &moe = layer.moe.emplace();
    moe.router.linear = linearLayer(module + "gate.", mini.experts, decoder.hiddenSize);
    moe.router.scoring = RouterScoring::kSigmoid;
    moe.router.choiceBias = vectorSource(module + "e_score_correction_bias", mini.experts);
    moe.router.topK = mini.topK;
    moe.router.renormalize = true;
    const GluKind kind = {{"w1", "w3", "w2"}, decoder.hiddenSize, mini.width, decoder.activation};
    MOERT_ASSIGN_OR_RETURN(moe.experts,
                           describeExperts(input, module + "experts.", kind, mini.experts));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
