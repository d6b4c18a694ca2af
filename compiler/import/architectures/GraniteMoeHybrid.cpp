// Granite 4 (H): Mamba-2 mixers in most layers and attention, usually without positions, in the
// others; Granite-MoE's multipliers and fused experts, and a shared network with gate and up in one
// tensor. Reference: transformers, models/granitemoehybrid/modular_granitemoehybrid.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Granite.h"
#include "compiler/import/architectures/Mamba2.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of GraniteMoeHybridConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32000"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"embedding_multiplier", "real", "1.0"},
    {"logits_scaling", "real", "1.0"},
    {"residual_multiplier", "real", "1.0"},
    {"attention_multiplier", "real", "1.0"},
    {"num_local_experts", "int", "8"},
    {"num_experts_per_tok", "int", "2"},
    {"shared_intermediate_size", "int", "1024"},
    {"position_embedding_type", "text?", "null"},
    {"layer_types", "list?", "null", KeyEffect::kUsed, "layers_block_type"},
    {"mamba_n_heads", "int", "128"},
    {"mamba_n_groups", "int", "1"},
    {"mamba_d_state", "int", "256"},
    {"mamba_d_head", "any", R"("auto")"},
    {"mamba_d_conv", "int", "4"},
    {"mamba_expand", "int", "2"},
    {"mamba_chunk_size", "any", "256", KeyEffect::kNone},
    {"mamba_conv_bias", "flag", "true"},
    {"mamba_proj_bias", "flag", "false"},
    {"time_step_limit", "list?", "null", KeyEffect::kDefaultOnly},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kGraniteMoeHybridKeys = kRows;

namespace {

constexpr Mamba2Keys kNames = {"mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_conv",
                               "mamba_conv_bias"};
constexpr uint32_t kMaxExpand = 64;

Result<Mamba2Config> readMamba(const ConfigObject &config, uint32_t hidden) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t heads, config.integer("mamba_n_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(const uint32_t expand, config.integer("mamba_expand", 1, kMaxExpand));
  const uint64_t width = uint64_t{expand} * hidden;
  if (width % heads != 0 || width / heads > kMaxHeadDim)
    return config.mismatch("mamba_n_heads", strCat("a divisor of mamba_expand * hidden_size, ",
                                                   width, ", for heads of at most ", kMaxHeadDim));
  const auto headDim = static_cast<uint32_t>(width / heads);
  const Result<std::string> text = config.string("mamba_d_head");
  if (!text.isOk() || *text != "auto") {
    const Result<uint32_t> given = config.integer("mamba_d_head", headDim, headDim);
    if (!given.isOk())
      return config.mismatch(
          "mamba_d_head",
          strCat("\"auto\" or ", headDim, ", mamba_expand * hidden_size / mamba_n_heads"));
  }
  MOERT_ASSIGN_OR_RETURN(Mamba2Config mamba, readMamba2(config, kNames, headDim));
  MOERT_ASSIGN_OR_RETURN(mamba.hasProjectionBias, config.boolean("mamba_proj_bias"));
  return mamba;
}

/// Which layers have a Mamba mixer.
Result<std::vector<bool>> readMixers(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<std::string> types,
      readLayerTypes(config, layers, {"mamba", "attention", "linear_attention", "full_attention"}));
  std::vector<bool> isMamba(layers, true);
  for (size_t layer = 0; layer < types.size(); ++layer)
    isMamba[layer] = types[layer] == "mamba" || types[layer] == "linear_attention";
  return isMamba;
}

Result<bool> readRotates(const ConfigObject &config) {
  if (!config.has("position_embedding_type"))
    return false;
  MOERT_ASSIGN_OR_RETURN(const std::string type, config.string("position_embedding_type"));
  if (type != "rope" && type != "nope")
    return config.mismatch("position_embedding_type", "\"rope\" or \"nope\"");
  return type == "rope";
}

SharedExpertDescription sharedNetwork(const DecoderConfig &decoder, uint32_t width,
                                      const std::string &module) {
  SharedExpertDescription shared;
  GluDescription &network = shared.network;
  network.activation = decoder.activation;
  network.gate = network.up = linearLayer(module + "input_linear.", width, decoder.hiddenSize);
  network.up.weight.firstRow = width;
  network.down = linearLayer(module + "output_linear.", decoder.hiddenSize, width);
  return shared;
}

} // namespace

Result<ModelDescription> describeGraniteMoeHybrid(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config));
  MOERT_ASSIGN_OR_RETURN(const GraniteConfig granite, readGranite(config));
  MOERT_ASSIGN_OR_RETURN(const Mamba2Config mamba, readMamba(config, decoder.hiddenSize));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isMamba, readMixers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const bool rotates, readRotates(config));
  MOERT_ASSIGN_OR_RETURN(const uint32_t sharedWidth,
                         config.integer("shared_intermediate_size", 1, kMaxWidth));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    layer.attention.scale = granite.attention;
    if (!rotates)
      layer.attention.rope.reset();
    if (isMamba[number])
      describeMamba2(mamba, decoder, prefix + "mamba.", layer);
    layer.moe = graniteExperts(granite, decoder, prefix + "block_sparse_moe.");
    layer.moe->shared = sharedNetwork(decoder, sharedWidth, prefix + "shared_mlp.");
    return Status();
  };
  return describeGranite(input, granite, decoder, fillLayer);
}

} // namespace moec
