// DeepSeek-MoE (16B, the first version): plain multi-head attention, softmax then top-k. Reference:
// the model's remote code, and mlx-lm, mlx_lm/models/deepseek.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

/// The keys of DeepseekConfig in the model's remote code, configuration_deepseek.py.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "102400"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"moe_intermediate_size", "int", "1407"},
    {"num_hidden_layers", "int", "30"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "32"},
    {"head_dim", "int?", "null"},
    {"n_shared_experts", "int?", "null"},
    {"n_routed_experts", "int", "null"},
    {"num_experts_per_tok", "int", "null"},
    {"moe_layer_freq", "int", "1"},
    {"first_k_dense_replace", "int", "0"},
    {"norm_topk_prob", "flag", "false"},
    {"scoring_func", "text", R"("softmax")", KeyEffect::kDefaultOnly},
    {"routed_scaling_factor", "real", "1.0", KeyEffect::kDefaultOnly}, // Other readers have it.
    {"aux_loss_alpha", "any", "0.001", KeyEffect::kNone},
    {"seq_aux", "any", "true", KeyEffect::kNone},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "100000"},
    {"eos_token_id", "any?", "100001"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
};

const ConfigKeys kDeepSeekKeys = kRows;

Result<ModelDescription> describeDeepSeek(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSoftmaxThenTopK));
  MOERT_ASSIGN_OR_RETURN(const uint32_t frequency,
                         config.integer("moe_layer_freq", 1, kMaxLayerNumber));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  for (uint32_t layer = 0; layer < decoder.layerCount; ++layer)
    if (layer % frequency != 0)
      moe.isRouted[layer] = false;
  // The remote code renormalizes "if self.top_k > 1 and self.norm_topk_prob".
  moe.routed.renormalize = moe.routed.renormalize && moe.routed.topK > 1;
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
