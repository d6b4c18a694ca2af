// MiniCPM-MoE: a scaled embedding, residual branches scaled by scale_depth / sqrt(layers), logits
// scaled by dim_model_base / hidden_size; Mixtral's matrix names and renormalized router. The
// family's dense models have the same model_type and are refused. Reference: the model's remote
// code, and vLLM, model_executor/models/minicpm.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::Status;

namespace {

struct MiniCpmConfig {
  RoutedConfig routed;
  float embedding = 1, residual = 1, logits = 1;
};

Result<MiniCpmConfig> readMiniCpm(const ConfigObject &config, const DecoderConfig &decoder) {
  MiniCpmConfig mini;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = mini.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts", 2));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(mini.embedding, readMultiplier(config, "scale_emb"));
  MOERT_ASSIGN_OR_RETURN(const double depth,
                         config.real("scale_depth", kLeastMultiplier, kMostMultiplier));
  mini.residual = static_cast<float>(depth / std::sqrt(static_cast<double>(decoder.layerCount)));
  MOERT_ASSIGN_OR_RETURN(const uint32_t base, config.integer("dim_model_base", 1, kMaxWidth));
  mini.logits = static_cast<float>(static_cast<double>(base) / decoder.hiddenSize);
  return mini;
}

} // namespace

Result<ModelDescription> describeMiniCpmMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  // Defaults of the class, which its configs rely on.
  MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, input.config.boolean("tie_word_embeddings", true));
  decoder.rope.defaultTheta = 10000;
  MOERT_ASSIGN_OR_RETURN(const MiniCpmConfig mini, readMiniCpm(input.config, decoder));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    MOERT_ASSIGN_OR_RETURN(
        layer.moe, routedNetwork(input, decoder, mini.routed, prefix + "mlp.", {"w1", "w3", "w2"}));
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.embeddingScale = mini.embedding;
  model.residualScale = mini.residual;
  model.logitsScale = mini.logits;
  return model;
}

} // namespace moec
