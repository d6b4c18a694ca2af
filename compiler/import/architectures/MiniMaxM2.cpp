// MiniMax-M2: norms over the whole projections, a part of each head rotates, a sigmoid router with
// a bias for the choice, Mixtral's names. Reference: transformers,
// models/minimax_m2/modular_minimax_m2.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

Result<RoutedConfig> readMiniMax(const ConfigObject &config) {
  RoutedConfig routed;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  if (config.has("sliding_window"))
    return config.mismatch("sliding_window", "null, as in all published models of this family");
  return routed;
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
  MOERT_ASSIGN_OR_RETURN(const RoutedConfig routed, readMiniMax(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "block_sparse_moe.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kAllHeads,
                 layer.attention);
    MOERT_ASSIGN_OR_RETURN(layer.moe,
                           routedNetwork(input, decoder, routed, module, {"w1", "w3", "w2"}));
    layer.moe->router.scoring = RouterScoring::kSigmoid;
    layer.moe->router.choiceBias = vectorSource(module + "e_score_correction_bias", routed.experts);
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
