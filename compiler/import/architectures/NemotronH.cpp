// Nemotron-H and Nemotron-3: each block is one of a Mamba-2 mixer, attention without positions,
// routed experts and a dense network. Networks are down(relu(up x)^2), without a gate. The layers
// of multi-token prediction (mtp.*) are not read. Reference: transformers,
// models/nemotron_h/modular_nemotron_h.py, which bounds the steps of a prompt, not those of later
// tokens, from below by time_step_min; here no step is bounded.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Mamba2.h"

#include <array>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

/// The keys of NemotronHConfig. The reference has two names more for the blocks, and ignores
/// num_hidden_layers.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "131072"},
    {"hidden_size", "int", "4096"},
    {"num_hidden_layers", "int", "4"},
    {"layers_block_type", "list?", "null", KeyEffect::kUsed, "layer_types"},
    {"hybrid_override_pattern", "text", R"("ME*-")"},
    {"tie_word_embeddings", "flag", "false"},
    {"num_logits_to_keep", "any", "1", kNone},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int", "8"},
    {"head_dim", "int", "128"},
    {"max_position_embeddings", "int", "4096"},
    {"sliding_window", "int?", "null", kDefaultOnly},
    {"intermediate_size", "int", "21504"},
    {"mlp_hidden_act", "text", R"("relu2")", kDefaultOnly},
    {"use_mamba_kernels", "any", "true", kNone},
    {"ssm_state_size", "int", "128"},
    {"mamba_num_heads", "int", "128"},
    {"mamba_head_dim", "int", "64"},
    {"mamba_hidden_act", "text", R"("silu")", kDefaultOnly},
    {"n_groups", "int", "8", KeyEffect::kUsed, "mamba_n_groups"},
    {"conv_kernel", "int", "4", KeyEffect::kUsed, "mamba_d_conv"},
    {"expand", "any", "2", kNone, "mamba_expand"},
    {"time_step_min", "any", "0.001", kNone, "mamba_dt_min"},
    {"time_step_max", "any", "0.1", kNone, "mamba_dt_max"},
    {"time_step_limit", "any", "null", kNone, "mamba_dt_limit"},
    {"time_step_floor", "any", "0.0001", kNone, "mamba_dt_init_floor"},
    {"use_conv_bias", "flag", "true", KeyEffect::kUsed, "mamba_conv_bias"},
    {"chunk_size", "any", "128", kNone, "mamba_chunk_size"},
    {"mamba_proj_bias", "flag", "false", kDefaultOnly},
    {"mamba_ssm_cache_dtype", "any", R"("float32")", kNone},
    {"n_routed_experts", "int", "8", KeyEffect::kUsed, "num_local_experts"},
    {"n_shared_experts", "int", "1", kDefaultOnly},
    {"moe_intermediate_size", "int", "7688"},
    {"moe_shared_expert_intermediate_size", "int", "7688"},
    {"moe_latent_size", "int?", "null", kDefaultOnly},
    {"moe_shared_expert_overlap", "any", "true", kNone},
    {"num_experts_per_tok", "int", "2"},
    {"routed_scaling_factor", "real", "1.0"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"norm_topk_prob", "flag", "true"},
    {"num_nextn_predict_layers", "any", "0", kNone},
    {"mtp_layers_block_type", "any", "null", kNone},
    {"use_bias", "flag", "false"},
    {"layer_norm_epsilon", "real", "1e-05"},
    {"residual_in_fp32", "any", "false", kNone},
    {"hidden_dropout", "any", "0.0", kNone},
    {"rescale_prenorm_residual", "any", "true", kNone},
};

const ConfigKeys kNemotronHKeys = kRows;

namespace {

constexpr Mamba2Keys kNames = {"mamba_num_heads", "n_groups", "ssm_state_size", "conv_kernel",
                               "use_conv_bias"};

enum class Block { kMamba, kAttention, kExperts, kDense };

struct BlockName {
  Block block;
  char letter;
  std::string_view type, otherType;
};
constexpr std::array<BlockName, 4> kBlocks = {
    {{Block::kMamba, 'M', "mamba", "linear_attention"},
     {Block::kAttention, '*', "attention", "full_attention"},
     {Block::kExperts, 'E', "moe", "moe"},
     {Block::kDense, '-', "mlp", "mlp"}}};

std::optional<Block> blockOf(const auto &isNamed) {
  for (const BlockName &name : kBlocks)
    if (isNamed(name))
      return name.block;
  return std::nullopt;
}

Result<std::vector<Block>> readBlocks(const ConfigObject &config) {
  std::vector<Block> blocks;
  const bool isList = config.has("layers_block_type");
  const std::string_view key = isList ? "layers_block_type" : "hybrid_override_pattern";
  const auto add = [&](const auto &isNamed) {
    const std::optional<Block> block = blockOf(isNamed);
    blocks.push_back(block.value_or(Block::kDense));
    return block.has_value();
  };
  bool areKnown = true;
  if (isList) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.strings(key));
    for (const std::string &type : types)
      areKnown &=
          add([&](const BlockName &name) { return type == name.type || type == name.otherType; });
  } else {
    MOERT_ASSIGN_OR_RETURN(const std::string letters, config.string(key));
    for (const char letter : letters)
      areKnown &= add([&](const BlockName &name) { return letter == name.letter; });
  }
  if (!areKnown || blocks.empty() || blocks.size() > kMaxLayers)
    return config.mismatch(key, strCat("1 to ", kMaxLayers, " blocks, each ",
                                       isList ? "mamba, attention, moe or mlp"
                                              : "M (Mamba-2), * (attention), E (experts) or - "
                                                "(dense)"));
  return blocks;
}

Result<DeepSeekMoeConfig> readNetworks(const ConfigObject &config,
                                       const std::vector<Block> &blocks) {
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.sharedWidth,
                         config.integer("moe_shared_expert_intermediate_size", 1, kMaxWidth));
  for (const Block block : blocks)
    moe.isRouted.push_back(block == Block::kExperts);
  return moe;
}

void nameAttention(const std::string &module, AttentionDescription &attention) {
  attention.rope.reset();
  attention.query.weight.tensor = module + "q_proj.weight";
  attention.key.weight.tensor = module + "k_proj.weight";
  attention.value.weight.tensor = module + "v_proj.weight";
  attention.output.weight.tensor = module + "o_proj.weight";
}

} // namespace

Result<ModelDescription> describeNemotronH(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config, "layer_norm_epsilon"));
  MOERT_ASSIGN_OR_RETURN(const std::vector<Block> blocks, readBlocks(config));
  MOERT_ASSIGN_OR_RETURN(const uint32_t headDim, config.integer("mamba_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(Mamba2Config mamba, readMamba2(config, kNames, headDim));
  MOERT_ASSIGN_OR_RETURN(mamba.hasProjectionBias, config.boolean("use_bias"));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe, readNetworks(config, blocks));
  decoder.prefix = "backbone.";
  decoder.embedding = "embeddings";
  decoder.activation = {.kind = moert::Activation::kSquaredRelu};
  decoder.layerCount = static_cast<uint32_t>(blocks.size());
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "mixer.";
    const Block block = blocks[number];
    layer.attentionNorm->weight.tensor = layer.networkNorm->weight.tensor = prefix + "norm.weight";
    layer.hasMixer = block == Block::kMamba || block == Block::kAttention;
    (layer.hasMixer ? layer.networkNorm : layer.attentionNorm).reset();
    if (block == Block::kMamba)
      describeMamba2(mamba, decoder, module, layer);
    else if (block == Block::kAttention)
      nameAttention(module, layer.attention);
    else
      return describeDeepSeekNetwork(input, moe, decoder, number, module, layer);
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.finalNorm.weight.tensor = "backbone.norm_f.weight";
  model.otherParts.push_back("mtp.");
  return model;
}

} // namespace moec
