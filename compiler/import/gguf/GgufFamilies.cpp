#include "compiler/import/gguf/GgufFamilies.h"

#include <algorithm>
#include <array>

namespace moec {

namespace {

constexpr auto kMinusOne = RowView::Change::kMinusOne;
constexpr auto kLogNegative = RowView::Change::kLogNegative;

template <typename Row, size_t... kSizes>
constexpr auto joined(const std::array<Row, kSizes> &...parts) {
  std::array<Row, (kSizes + ...)> all;
  auto at = all.begin();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return all;
}

constexpr std::array kRotatedPairs = {
    GgufTensorName{"attn_q.weight", "self_attn.q_proj.weight", LineOrder::kRopePairs},
    GgufTensorName{"attn_k.weight", "self_attn.k_proj.weight", LineOrder::kRopePairs},
};

constexpr std::array kMixtralExperts = {
    GgufTensorName{"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
    GgufTensorName{"ffn_gate_exps.weight", "block_sparse_moe.experts.gate_up_proj",
                   LineOrder::kStacked, "ffn_up_exps.weight"},
    GgufTensorName{"ffn_down_exps.weight", "block_sparse_moe.experts.down_proj"},
};

constexpr auto kMixtralTensors = joined(kRotatedPairs, kMixtralExperts);

constexpr auto kGraniteTensors =
    joined(kRotatedPairs,
           std::array{
               GgufTensorName{"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"},
               GgufTensorName{"ffn_gate_exps.weight", "block_sparse_moe.input_linear.weight",
                              LineOrder::kStacked, "ffn_up_exps.weight"},
               GgufTensorName{"ffn_down_exps.weight", "block_sparse_moe.output_linear.weight"},
           });

constexpr std::array kGraniteKeys = {
    GgufKey{"attention.scale", "attention_multiplier"},
    GgufKey{"embedding_scale", "embedding_multiplier"},
    GgufKey{"residual_scale", "residual_multiplier"},
    GgufKey{"logit_scale", "logits_scaling"},
};

/// A vector of a Mamba-2 mixer.
constexpr GgufTensorName vector(std::string_view tensor, std::string_view published,
                                RowView::Change change = RowView::Change::kNone) {
  return {tensor, published, LineOrder::kVector, "", false, change};
}

constexpr auto kGraniteHybridTensors = joined(
    kGraniteTensors, std::array{
                         GgufTensorName{"ssm_in.weight", "mamba.in_proj.weight"},
                         GgufTensorName{"ssm_conv1d.weight", "mamba.conv1d.weight"},
                         GgufTensorName{"ssm_conv1d.bias", "mamba.conv1d.bias"},
                         GgufTensorName{"ssm_dt.bias", "mamba.dt_bias"},
                         GgufTensorName{"ssm_out.weight", "mamba.out_proj.weight"},
                         vector("ssm_a", "mamba.A_log", kLogNegative),
                         vector("ssm_d", "mamba.D"),
                         vector("ssm_norm.weight", "mamba.norm.weight"),
                         GgufTensorName{"ffn_gate_shexp.weight", "shared_mlp.input_linear.weight",
                                        LineOrder::kStacked, "ffn_up_shexp.weight"},
                         GgufTensorName{"ffn_down_shexp.weight", "shared_mlp.output_linear.weight"},
                     });

constexpr auto kGraniteHybridKeys = joined(
    kGraniteKeys, std::array{
                      GgufKey{"expert_count", "num_local_experts"},
                      GgufKey{"expert_shared_feed_forward_length", "shared_intermediate_size"},
                      GgufKey{"ssm.conv_kernel", "mamba_d_conv"},
                      GgufKey{"ssm.state_size", "mamba_d_state"},
                      GgufKey{"ssm.group_count", "mamba_n_groups"},
                      GgufKey{"ssm.time_step_rank", "mamba_n_heads"},
                  });

constexpr std::array kGraniteHybridFlags = {GgufFlag{"ssm_conv1d.bias", "mamba_conv_bias"}};

constexpr std::array kNemotronKeys = {
    GgufKey{"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
    GgufKey{"expert_count", "n_routed_experts"},
    GgufKey{"expert_group_count", "n_group"},
    GgufKey{"expert_group_used_count", "topk_group"},
    GgufKey{"expert_shared_count", "n_shared_experts"},
    GgufKey{"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
    GgufKey{"expert_weights_norm", "norm_topk_prob"},
    GgufKey{"expert_weights_scale", "routed_scaling_factor"},
    GgufKey{"moe_latent_size", "moe_latent_size", false},
    GgufKey{"ssm.conv_kernel", "conv_kernel"},
    GgufKey{"ssm.state_size", "ssm_state_size"},
    GgufKey{"ssm.group_count", "n_groups"},
    GgufKey{"ssm.time_step_rank", "mamba_num_heads"},
};

constexpr std::array kNemotronTensors = {
    GgufTensorName{"ssm_in.weight", "mixer.in_proj.weight"},
    GgufTensorName{"ssm_conv1d.weight", "mixer.conv1d.weight"},
    GgufTensorName{"ssm_conv1d.bias", "mixer.conv1d.bias"},
    GgufTensorName{"ssm_dt.bias", "mixer.dt_bias"},
    GgufTensorName{"ssm_out.weight", "mixer.out_proj.weight"},
    vector("ssm_a", "mixer.A_log", kLogNegative),
    vector("ssm_d", "mixer.D"),
    vector("ssm_norm.weight", "mixer.norm.weight"),
    GgufTensorName{"token_embd.weight", "model.embeddings.weight"},
    GgufTensorName{"output_norm.weight", "model.norm_f.weight"},
    GgufTensorName{"attn_norm.weight", "norm.weight"},
    GgufTensorName{"attn_q.weight", "mixer.q_proj.weight"},
    GgufTensorName{"attn_k.weight", "mixer.k_proj.weight"},
    GgufTensorName{"attn_v.weight", "mixer.v_proj.weight"},
    GgufTensorName{"attn_output.weight", "mixer.o_proj.weight"},
    GgufTensorName{"ffn_gate_inp.weight", "mixer.gate.weight"},
    GgufTensorName{"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"},
    GgufTensorName{"ffn_up_exps.weight", "mixer.experts.up_proj"},
    GgufTensorName{"ffn_down_exps.weight", "mixer.experts.down_proj"},
    GgufTensorName{"ffn_up_shexp.weight", "mixer.shared_experts.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "mixer.shared_experts.down_proj.weight"},
};

constexpr std::array kNemotronFlags = {GgufFlag{"ssm_conv1d.bias", "use_conv_bias"}};

/// Of DeepSeek and the families with its router.
constexpr std::array kSharedExpertsKeys = {
    GgufKey{"leading_dense_block_count", "first_k_dense_replace"},
    GgufKey{"expert_count", "n_routed_experts"},
    GgufKey{"expert_group_count", "n_group"},
    GgufKey{"expert_group_used_count", "topk_group"},
    GgufKey{"expert_shared_count", "n_shared_experts"},
    GgufKey{"expert_weights_norm", "norm_topk_prob"},
    GgufKey{"expert_weights_scale", "routed_scaling_factor"},
};

constexpr auto kDeepSeekKeys =
    joined(kSharedExpertsKeys, std::array{
                                   GgufKey{"attention.q_lora_rank", "q_lora_rank"},
                                   GgufKey{"attention.kv_lora_rank", "kv_lora_rank"},
                                   GgufKey{"rope.dimension_count", "qk_rope_head_dim"},
                               });

constexpr std::array kLatentTensors = {
    GgufTensorName{"attn_q_a.weight", "self_attn.q_a_proj.weight"},
    GgufTensorName{"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    GgufTensorName{"attn_q_b.weight", "self_attn.q_b_proj.weight"},
    GgufTensorName{"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    GgufTensorName{"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    GgufTensorName{"attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
    GgufTensorName{"attn_k_b.weight", "self_attn.kv_b_proj.weight", LineOrder::kLatent,
                   "attn_v_b.weight"},
};

constexpr std::array kSharedExpertsTensors = {
    GgufTensorName{"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    GgufTensorName{"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
};

constexpr auto kDeepSeekTensors = joined(kLatentTensors, kSharedExpertsTensors);

constexpr auto kGlm4Tensors = joined(
    kSharedExpertsTensors,
    std::array{GgufTensorName{"post_attention_norm.weight", "post_attention_layernorm.weight"}});

constexpr std::array kGlm4Flags = {
    GgufFlag{"attn_q.bias", "attention_bias"},
    GgufFlag{"attn_q_norm.weight", "use_qk_norm"},
};

constexpr std::array kErnieKeys = {
    GgufKey{"expert_count", "moe_num_experts"},
    GgufKey{"expert_used_count", "moe_k"},
    GgufKey{"expert_shared_count", "moe_num_shared_experts"},
    GgufKey{"interleave_moe_layer_step", "moe_layer_interval"},
    GgufKey{"leading_dense_block_count", "moe_layer_start_index"},
};

constexpr auto kErnieTensors = joined(
    kSharedExpertsTensors,
    std::array{GgufTensorName{"exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias"}});

constexpr std::array kMiniMaxKeys = {
    GgufKey{"expert_count", "num_local_experts"},
    GgufKey{"expert_feed_forward_length", "intermediate_size"},
    GgufKey{"rope.dimension_count", "rotary_dim"},
};

constexpr auto kMiniMaxTensors = joined(
    kMixtralExperts,
    std::array{GgufTensorName{"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"}});

constexpr std::array kLlama4Keys = {
    GgufKey{"expert_feed_forward_length", "intermediate_size"},
    GgufKey{"feed_forward_length", "intermediate_size_mlp"},
    GgufKey{"interleave_moe_layer_step", "interleave_moe_layer_step"},
};

constexpr std::array kLlama4Tensors = {
    GgufTensorName{"ffn_gate.weight", "feed_forward.gate_proj.weight"},
    GgufTensorName{"ffn_up.weight", "feed_forward.up_proj.weight"},
    GgufTensorName{"ffn_down.weight", "feed_forward.down_proj.weight"},
    GgufTensorName{"ffn_gate_inp.weight", "feed_forward.router.weight"},
    GgufTensorName{"ffn_gate_exps.weight", "feed_forward.experts.gate_up_proj", LineOrder::kStacked,
                   "ffn_up_exps.weight", true},
    GgufTensorName{"ffn_down_exps.weight", "feed_forward.experts.down_proj", LineOrder::kSame, "",
                   true},
    GgufTensorName{"ffn_gate_shexp.weight", "feed_forward.shared_expert.gate_proj.weight"},
    GgufTensorName{"ffn_up_shexp.weight", "feed_forward.shared_expert.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "feed_forward.shared_expert.down_proj.weight"},
};

constexpr auto kGlmDsaKeys =
    joined(kSharedExpertsKeys, std::array{
                                   GgufKey{"attention.q_lora_rank", "q_lora_rank"},
                                   GgufKey{"attention.kv_lora_rank", "kv_lora_rank"},
                                   GgufKey{"attention.indexer.head_count", "index_n_heads"},
                                   GgufKey{"attention.indexer.key_length", "index_head_dim"},
                                   GgufKey{"attention.indexer.top_k", "index_topk"},
                                   GgufKey{"rope.dimension_count", "qk_rope_head_dim"},
                               });

constexpr auto kGlmDsaTensors =
    joined(kDeepSeekTensors,
           std::array{
               GgufTensorName{"indexer.attn_k.weight", "self_attn.indexer.wk.weight"},
               GgufTensorName{"indexer.attn_q_b.weight", "self_attn.indexer.wq_b.weight"},
               GgufTensorName{"indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"},
               GgufTensorName{"indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"},
               GgufTensorName{"indexer.proj.weight", "self_attn.indexer.weights_proj.weight"},
           });

constexpr std::array kKimiLinearKeys = {
    GgufKey{"leading_dense_block_count", "first_k_dense_replace"},
    GgufKey{"attention.head_count", "linear_num_heads"},
    GgufKey{"attention.kv_lora_rank", "kv_lora_rank"},
    GgufKey{"expert_shared_count", "n_shared_experts"},
    GgufKey{"expert_weights_scale", "routed_scaling_factor"},
    GgufKey{"kda.head_dim", "linear_head_dim"},
    GgufKey{"rope.dimension_count", "qk_rope_head_dim"},
    GgufKey{"ssm.conv_kernel", "linear_conv_kernel_dim"},
};

constexpr auto kKimiLinearTensors = joined(
    kLatentTensors, kMixtralExperts,
    std::array{
        GgufTensorName{"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"},
        GgufTensorName{"ffn_gate_shexp.weight", "block_sparse_moe.shared_experts.gate_proj.weight"},
        GgufTensorName{"ffn_up_shexp.weight", "block_sparse_moe.shared_experts.up_proj.weight"},
        GgufTensorName{"ffn_down_shexp.weight", "block_sparse_moe.shared_experts.down_proj.weight"},
        GgufTensorName{"ssm_beta.weight", "self_attn.b_proj.weight"},
        GgufTensorName{"ssm_conv1d_q.weight", "self_attn.q_conv1d.weight", LineOrder::kTaps},
        GgufTensorName{"ssm_conv1d_k.weight", "self_attn.k_conv1d.weight", LineOrder::kTaps},
        GgufTensorName{"ssm_conv1d_v.weight", "self_attn.v_conv1d.weight", LineOrder::kTaps},
        GgufTensorName{"ssm_dt.bias", "self_attn.dt_bias"},
        GgufTensorName{"ssm_f_a.weight", "self_attn.f_a_proj.weight"},
        GgufTensorName{"ssm_f_b.weight", "self_attn.f_b_proj.weight"},
        GgufTensorName{"ssm_g_a.weight", "self_attn.g_a_proj.weight"},
        GgufTensorName{"ssm_g_b.weight", "self_attn.g_b_proj.weight"},
        GgufTensorName{"ssm_norm.weight", "self_attn.o_norm.weight"},
        vector("ssm_a", "self_attn.A_log", kLogNegative),
    });

constexpr std::array kGptOssKeys = {
    GgufKey{"attention.sliding_window", "sliding_window"},
    GgufKey{"expert_feed_forward_length", "intermediate_size"},
};

constexpr std::array kGptOssTensors = {
    GgufTensorName{"post_attention_norm.weight", "post_attention_layernorm.weight"},
    GgufTensorName{"attn_sinks.weight", "self_attn.sinks"},
    GgufTensorName{"ffn_gate_inp.weight", "mlp.router.weight"},
    GgufTensorName{"ffn_gate_inp.bias", "mlp.router.bias"},
    GgufTensorName{"ffn_gate_exps.weight", "mlp.experts.gate_up_proj", LineOrder::kInterleaved,
                   "ffn_up_exps.weight", true},
    GgufTensorName{"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", LineOrder::kInterleaved,
                   "ffn_up_exps.bias"},
    GgufTensorName{"ffn_down_exps.weight", "mlp.experts.down_proj", LineOrder::kSame, "", true},
    GgufTensorName{"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};

constexpr std::array kLfm2Keys = {
    GgufKey{"shortconv.l_cache", "conv_L_cache"},
    GgufKey{"leading_dense_block_count", "num_dense_layers"},
    GgufKey{"attention.layer_norm_rms_epsilon", "norm_eps"},
};

constexpr std::array kLfm2Tensors = {
    GgufTensorName{"token_embd_norm.weight", "model.embedding_norm.weight"},
    GgufTensorName{"attn_norm.weight", "operator_norm.weight"},
    GgufTensorName{"ffn_norm.weight", "ffn_norm.weight"},
    GgufTensorName{"attn_q_norm.weight", "self_attn.q_layernorm.weight"},
    GgufTensorName{"attn_k_norm.weight", "self_attn.k_layernorm.weight"},
    GgufTensorName{"attn_output.weight", "self_attn.out_proj.weight"},
    GgufTensorName{"shortconv.conv.weight", "conv.conv.weight"},
    GgufTensorName{"shortconv.in_proj.weight", "conv.in_proj.weight"},
    GgufTensorName{"shortconv.out_proj.weight", "conv.out_proj.weight"},
    GgufTensorName{"ffn_gate.weight", "feed_forward.w1.weight"},
    GgufTensorName{"ffn_up.weight", "feed_forward.w3.weight"},
    GgufTensorName{"ffn_down.weight", "feed_forward.w2.weight"},
    GgufTensorName{"ffn_gate_inp.weight", "feed_forward.gate.weight"},
    GgufTensorName{"exp_probs_b.bias", "feed_forward.expert_bias"},
    GgufTensorName{"ffn_gate_exps.weight", "feed_forward.experts.gate_up_proj", LineOrder::kStacked,
                   "ffn_up_exps.weight"},
    GgufTensorName{"ffn_down_exps.weight", "feed_forward.experts.down_proj"},
};

constexpr std::array kGatedKeys = {
    GgufKey{"ssm.conv_kernel", "linear_conv_kernel_dim"},
    GgufKey{"ssm.state_size", "linear_key_head_dim"},
    GgufKey{"ssm.group_count", "linear_num_key_heads"},
    GgufKey{"ssm.time_step_rank", "linear_num_value_heads"},
    GgufKey{"full_attention_interval", "full_attention_interval"},
};

/// A norm that is stored as weight + 1.
constexpr GgufTensorName norm(std::string_view tensor, std::string_view published) {
  return {tensor, published, LineOrder::kSame, "", false, kMinusOne};
}

constexpr std::array kQwenNorms = {
    norm("output_norm.weight", "model.norm.weight"),
    norm("attn_norm.weight", "input_layernorm.weight"),
    norm("post_attention_norm.weight", "post_attention_layernorm.weight"),
    norm("attn_q_norm.weight", "self_attn.q_norm.weight"),
    norm("attn_k_norm.weight", "self_attn.k_norm.weight"),
};

constexpr auto kQwen3NextTensors = joined(
    kQwenNorms,
    std::array{
        GgufTensorName{"attn_qkv.weight", "linear_attn.in_proj_qkvz.weight", LineOrder::kKeyHeads,
                       "attn_gate.weight"},
        GgufTensorName{"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
        GgufTensorName{"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
        GgufTensorName{"ssm_a", "linear_attn.A_log", LineOrder::kSame, "", false, kLogNegative},
        GgufTensorName{"ssm_dt.bias", "linear_attn.dt_bias"},
        GgufTensorName{"ssm_norm.weight", "linear_attn.norm.weight"},
        GgufTensorName{"ssm_out.weight", "linear_attn.out_proj.weight"},
    });

constexpr auto kQwen35Tensors = joined(
    kQwenNorms,
    std::array{
        GgufTensorName{"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", LineOrder::kTiledHeads},
        GgufTensorName{"attn_gate.weight", "linear_attn.in_proj_z.weight", LineOrder::kTiledHeads},
        GgufTensorName{"ssm_beta.weight", "linear_attn.in_proj_b.weight", LineOrder::kTiledHeads},
        GgufTensorName{"ssm_alpha.weight", "linear_attn.in_proj_a.weight", LineOrder::kTiledHeads},
        GgufTensorName{"ssm_conv1d.weight", "linear_attn.conv1d.weight", LineOrder::kTiledHeads},
        GgufTensorName{"ssm_a", "linear_attn.A_log", LineOrder::kTiledColumns, "", false,
                       kLogNegative},
        GgufTensorName{"ssm_dt.bias", "linear_attn.dt_bias", LineOrder::kTiledColumns},
        GgufTensorName{"ssm_norm.weight", "linear_attn.norm.weight"},
        GgufTensorName{"ssm_out.weight", "linear_attn.out_proj.weight", LineOrder::kTiledColumns},
    });

constexpr std::array kGemma4Keys = {
    GgufKey{"attention.key_length", "global_head_dim"},
    GgufKey{"attention.key_length_swa", "head_dim"},
    GgufKey{"attention.sliding_window", "sliding_window"},
    GgufKey{"attention.shared_kv_layers", "num_kv_shared_layers"},
    GgufKey{"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    GgufKey{"expert_used_count", "top_k_experts"},
    GgufKey{"final_logit_softcapping", "final_logit_softcapping"},
};

constexpr std::array kGemma4Tensors = {
    GgufTensorName{"post_attention_norm.weight", "post_attention_layernorm.weight"},
    GgufTensorName{"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    GgufTensorName{"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
    GgufTensorName{"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
    GgufTensorName{"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"},
    GgufTensorName{"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    GgufTensorName{"layer_output_scale.weight", "layer_scalar"},
    GgufTensorName{"ffn_gate_inp.weight", "router.proj.weight"},
    GgufTensorName{"ffn_gate_inp.scale", "router.scale"},
    GgufTensorName{"ffn_gate_exps.weight", "experts.gate_up_proj", LineOrder::kStacked,
                   "ffn_up_exps.weight"},
    GgufTensorName{"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
    GgufTensorName{"ffn_down_exps.weight", "experts.down_proj"},
    GgufTensorName{"ffn_down_exps.scale", "router.per_expert_scale"},
};

constexpr std::array kFamilies = {
    GgufFamily{"deepseek2", "deepseek_v2", kDeepSeekKeys, kDeepSeekTensors,
               R"({"q_lora_rank": null, "norm_topk_prob": false, "n_group": 1, "topk_group": 1,
                   "n_shared_experts": 0, "routed_scaling_factor": 1.0,
                   "first_k_dense_replace": 0})"},
    GgufFamily{"dots1", "dots1", kSharedExpertsKeys, kSharedExpertsTensors,
               R"({"n_group": 1, "topk_group": 1})"},
    GgufFamily{"ernie4_5-moe", "ernie4_5_moe", kErnieKeys, kErnieTensors},
    GgufFamily{"gemma4", "gemma4_text", kGemma4Keys, kGemma4Tensors,
               R"({"enable_moe_block": true, "attention_k_eq_v": true,
                   "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 0,
                   "num_kv_shared_layers": 0})"},
    GgufFamily{"glm-dsa", "glm_moe_dsa", kGlmDsaKeys, kGlmDsaTensors},
    GgufFamily{"glm4moe", "glm4_moe", kSharedExpertsKeys, kGlm4Tensors,
               R"({"n_group": 1, "topk_group": 1})", kGlm4Flags},
    GgufFamily{"gpt-oss", "gpt_oss", kGptOssKeys, kGptOssTensors},
    GgufFamily{"granitehybrid", "granitemoehybrid", kGraniteHybridKeys, kGraniteHybridTensors, "{}",
               kGraniteHybridFlags, "mamba"},
    GgufFamily{"granitemoe", "granitemoe", kGraniteKeys, kGraniteTensors},
    GgufFamily{"kimi-linear",
               "kimi_linear",
               kKimiLinearKeys,
               kKimiLinearTensors,
               R"({"q_lora_rank": null, "n_group": 1, "topk_group": 1, "norm_topk_prob": true})",
               {},
               "linear_attention"},
    GgufFamily{
        "lfm2moe", "lfm2_moe", kLfm2Keys, kLfm2Tensors, R"({"num_dense_layers": 0})", {}, "conv"},
    GgufFamily{"llama", "mixtral", {}, kMixtralTensors},
    GgufFamily{"llama4", "llama4_text", kLlama4Keys, kLlama4Tensors},
    GgufFamily{"minimax-m2", "minimax_m2", kMiniMaxKeys, kMiniMaxTensors},
    GgufFamily{"nemotron_h_moe", "nemotron_h", kNemotronKeys, kNemotronTensors,
               R"({"n_group": 1, "topk_group": 1})", kNemotronFlags, "mamba", "backbone."},
    GgufFamily{"olmoe", "olmoe", {}, {}},
    GgufFamily{"qwen2moe", "qwen2_moe", {}, {}},
    GgufFamily{"qwen35moe", "qwen3_5_moe_text", kGatedKeys, kQwen35Tensors,
               R"({"full_attention_interval": 4})"},
    GgufFamily{"qwen3moe", "qwen3_moe", {}, {}, R"({"norm_topk_prob": true})"},
    // Read as Qwen3-MoE: in text alone the positions are the same.
    GgufFamily{"qwen3vlmoe", "qwen3_moe", {}, {}, R"({"norm_topk_prob": true})"},
    GgufFamily{"qwen3next", "qwen3_next", kGatedKeys, kQwen3NextTensors,
               R"({"full_attention_interval": 4})"},
};

} // namespace

std::span<const GgufFamily> ggufFamilies() {
  return kFamilies;
}

} // namespace moec
