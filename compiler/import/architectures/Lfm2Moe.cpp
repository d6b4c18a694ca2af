// LFM2-MoE: short convolutions with two gates in most layers, attention in the others, the first
// layers dense, a sigmoid router with a bias for the choice. Reference: transformers,
// models/lfm2_moe/modular_lfm2_moe.py. Its router divides by the sum + 1e-6, here by the sum: a
// relative difference below 1e-5, as the sum over the chosen experts is above 0.1 in practice.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Lfm2MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "65536"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "7168"},
    {"moe_intermediate_size", "int", "1792"},
    {"num_hidden_layers", "int", "32"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "true", KeyEffect::kUsed, "tie_embedding"},
    {"max_position_embeddings", "int", "128000"},
    {"norm_eps", "real", "1e-05"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "8"},
    {"conv_bias", "flag", "false", KeyEffect::kDefaultOnly},
    {"conv_L_cache", "int", "3"},
    {"num_dense_layers", "int", "2"},
    {"num_experts_per_tok", "int", "4"},
    {"num_experts", "int", "32"},
    {"use_expert_bias", "flag", "true"},
    {"routed_scaling_factor", "real", "1.0"},
    {"norm_topk_prob", "flag", "true"},
    {"layer_types", "list?", "null"},
    {"rope_theta", "real", "1000000.0"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kLfm2MoeKeys = kRows;

namespace {

constexpr GluNames kNames = {"w1", "w3", "w2"};

struct Lfm2MoeConfig {
  std::vector<bool> isConvolution; // Per layer.
  uint32_t taps = 0;
  RoutedConfig routed;
  uint32_t denseLayers = 0, denseWidth = 0;
  bool hasBias = true;
  float weightScale = 1;
};

Status readMixers(const ConfigObject &config, uint32_t layers, Lfm2MoeConfig &lfm) {
  MOERT_ASSIGN_OR_RETURN(lfm.taps, config.integer("conv_L_cache", 2, kMaxTaps));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"conv", "full_attention"}));
  if (types.empty())
    return config.mismatch("layer_types", "a list of conv and full_attention");
  for (const std::string &type : types)
    lfm.isConvolution.push_back(type == "conv");
  return Status();
}

Result<Lfm2MoeConfig> readLfm2Moe(const ConfigObject &config, uint32_t layers) {
  Lfm2MoeConfig lfm;
  MOERT_RETURN_IF_ERROR(readMixers(config, layers, lfm));
  RoutedConfig &routed = lfm.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
  MOERT_ASSIGN_OR_RETURN(lfm.hasBias, config.boolean("use_expert_bias"));
  MOERT_ASSIGN_OR_RETURN(lfm.weightScale, readMultiplier(config, "routed_scaling_factor"));
  MOERT_ASSIGN_OR_RETURN(lfm.denseLayers, config.integer("num_dense_layers", 0, layers));
  if (lfm.denseLayers != 0) {
    MOERT_ASSIGN_OR_RETURN(lfm.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  return lfm;
}

void describeConvolution(const Lfm2MoeConfig &lfm, uint32_t hidden, const std::string &module,
                         LayerDescription &layer) {
  layer.attention = {};
  ShortConvolutionDescription &mixer = layer.shortConvolution.emplace();
  mixer.before = mixer.after = mixer.value = linearLayer(module + "in_proj.", hidden, hidden);
  mixer.after.weight.firstRow = hidden;
  mixer.value.weight.firstRow = 2 * hidden;
  mixer.taps = matrixSource(module + "conv.weight", hidden, lfm.taps);
  mixer.output = linearLayer(module + "out_proj.", hidden, hidden);
}

Status describeNetwork(const ArchitectureInput &input, const DecoderConfig &decoder,
                       const Lfm2MoeConfig &lfm, const std::string &module,
                       LayerDescription &layer) {
  MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, lfm.routed, module, kNames));
  RouterDescription &router = layer.moe->router;
  router.scoring = RouterScoring::kSigmoid;
  router.weightScale = lfm.weightScale;
  if (lfm.hasBias)
    router.choiceBias = vectorSource(module + "expert_bias", lfm.routed.experts);
  return Status();
}

} // namespace

Result<ModelDescription> describeLfm2Moe(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config, "norm_eps"));
  if (decoder.hiddenSize < kLeastConvolved)
    return config.mismatch("hidden_size", strCat("at least ", kLeastConvolved));
  MOERT_ASSIGN_OR_RETURN(const Lfm2MoeConfig lfm, readLfm2Moe(config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    layer.attentionNorm->weight.tensor = prefix + "operator_norm.weight";
    layer.networkNorm->weight.tensor = prefix + "ffn_norm.weight";
    const std::string attention = prefix + "self_attn.", network = prefix + "feed_forward.";
    if (lfm.isConvolution[number]) {
      describeConvolution(lfm, decoder.hiddenSize, prefix + "conv.", layer);
    } else {
      addHeadNorms(decoder, attention + "q_layernorm", attention + "k_layernorm", NormExtent::kHead,
                   layer.attention);
      layer.attention.output.weight.tensor = attention + "out_proj.weight";
    }
    if (number >= lfm.denseLayers)
      return describeNetwork(input, decoder, lfm, network, layer);
    layer.dense =
        gluNetwork(network, {kNames, decoder.hiddenSize, lfm.denseWidth, decoder.activation});
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.finalNorm.weight.tensor = "model.embedding_norm.weight";
  return model;
}

} // namespace moec
