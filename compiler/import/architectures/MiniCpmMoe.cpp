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

/// The keys of MiniCPMConfig in the models' remote code, configuration_minicpm.py.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32000"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "null"},
    {"head_dim", "int?", "null"},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "true"},
    {"scale_emb", "real", "1"},
    {"dim_model_base", "int", "1"},
    {"scale_depth", "real", "1"},
    {"num_experts", "int", "0"},
    {"num_experts_per_tok", "int", "2"},
};

const ConfigKeys kMiniCpmMoeKeys = kRows;

namespace {

struct MiniCpmConfig {
  RoutedConfig routed;
  float embedding = 1, residual = 1, logits = 1;
};

Result<MiniCpmConfig> readMiniCpm(const ConfigObject &config, const DecoderConfig &decoder) {
  MiniCpmConfig mini;
  RoutedConfig &routed = mini.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
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
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
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
