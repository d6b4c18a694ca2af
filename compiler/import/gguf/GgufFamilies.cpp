#include "compiler/import/gguf/GgufFamilies.h"

#include <array>

namespace moec {

namespace {

constexpr auto kMinusOne = RowView::Change::kMinusOne;
constexpr auto kLogNegative = RowView::Change::kLogNegative;

constexpr std::array kCommonKeys = {
    GgufKey{"context_length", "max_position_embeddings"},
    GgufKey{"embedding_length", "hidden_size"},
    GgufKey{"feed_forward_length", "intermediate_size", false},
    GgufKey{"attention.head_count", "num_attention_heads"},
    GgufKey{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    GgufKey{"expert_count", "num_experts"},
    GgufKey{"expert_used_count", "num_experts_per_tok"},
    GgufKey{"expert_feed_forward_length", "moe_intermediate_size", false},
    GgufKey{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false},
};

constexpr std::array kOuterTensors = {
    GgufTensorName{"token_embd.weight", "model.embed_tokens.weight"},
    GgufTensorName{"output_norm.weight", "model.norm.weight"},
    GgufTensorName{"output.weight", "lm_head.weight"},
    // A buffer, whose values are a part of the config.
    GgufTensorName{"rope_freqs.weight", "model.rotary_emb.inv_freq"},
};

constexpr std::array kCommonTensors = {
    GgufTensorName{"attn_norm.weight", "input_layernorm.weight"},
    GgufTensorName{"ffn_norm.weight", "post_attention_layernorm.weight"},
    GgufTensorName{"attn_q.weight", "self_attn.q_proj.weight"},
    GgufTensorName{"attn_q.bias", "self_attn.q_proj.bias"},
    GgufTensorName{"attn_k.weight", "self_attn.k_proj.weight"},
    GgufTensorName{"attn_k.bias", "self_attn.k_proj.bias"},
    GgufTensorName{"attn_v.weight", "self_attn.v_proj.weight"},
    GgufTensorName{"attn_v.bias", "self_attn.v_proj.bias"},
    GgufTensorName{"attn_output.weight", "self_attn.o_proj.weight"},
    GgufTensorName{"attn_output.bias", "self_attn.o_proj.bias"},
    GgufTensorName{"attn_q_norm.weight", "self_attn.q_norm.weight"},
    GgufTensorName{"attn_k_norm.weight", "self_attn.k_norm.weight"},
    GgufTensorName{"ffn_gate.weight", "mlp.gate_proj.weight"},
    GgufTensorName{"ffn_up.weight", "mlp.up_proj.weight"},
    GgufTensorName{"ffn_down.weight", "mlp.down_proj.weight"},
    GgufTensorName{"ffn_gate_inp.weight", "mlp.gate.weight"},
    GgufTensorName{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    GgufTensorName{"ffn_gate_exps.weight", "mlp.experts.gate_up_proj", LineOrder::kStacked,
                   "ffn_up_exps.weight"},
    GgufTensorName{"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    GgufTensorName{"ffn_down_exps.weight", "mlp.experts.down_proj"},
    GgufTensorName{"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    GgufTensorName{"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    GgufTensorName{"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    // Layers that predict tokens further ahead, which are not read.
    GgufTensorName{"nextn.eh_proj.weight", "eh_proj.weight"},
    GgufTensorName{"nextn.enorm.weight", "enorm.weight"},
    GgufTensorName{"nextn.hnorm.weight", "hnorm.weight"},
    GgufTensorName{"nextn.embed_tokens.weight", "embed_tokens.weight"},
    GgufTensorName{"nextn.shared_head_head.weight", "shared_head.head.weight"},
    GgufTensorName{"nextn.shared_head_norm.weight", "shared_head.norm.weight"},
};

constexpr std::array kMixtralTensors = {
    GgufTensorName{"attn_q.weight", "self_attn.q_proj.weight", LineOrder::kRopePairs},
    GgufTensorName{"attn_k.weight", "self_attn.k_proj.weight", LineOrder::kRopePairs},
    GgufTensorName{"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
    GgufTensorName{"ffn_gate_exps.weight", "block_sparse_moe.experts.gate_up_proj",
                   LineOrder::kStacked, "ffn_up_exps.weight"},
    GgufTensorName{"ffn_down_exps.weight", "block_sparse_moe.experts.down_proj"},
};

constexpr std::array kGraniteTensors = {
    kMixtralTensors[0],
    kMixtralTensors[1],
    GgufTensorName{"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"},
    GgufTensorName{"ffn_gate_exps.weight", "block_sparse_moe.input_linear.weight",
                   LineOrder::kStacked, "ffn_up_exps.weight"},
    GgufTensorName{"ffn_down_exps.weight", "block_sparse_moe.output_linear.weight"},
};

constexpr std::array kGraniteKeys = {
    GgufKey{"attention.scale", "attention_multiplier"},
    GgufKey{"embedding_scale", "embedding_multiplier"},
    GgufKey{"residual_scale", "residual_multiplier"},
    GgufKey{"logit_scale", "logits_scaling"},
};

constexpr std::array kDeepSeekKeys = {
    GgufKey{"leading_dense_block_count", "first_k_dense_replace"},
    GgufKey{"attention.q_lora_rank", "q_lora_rank"},
    GgufKey{"attention.kv_lora_rank", "kv_lora_rank"},
    GgufKey{"expert_shared_count", "n_shared_experts"},
    GgufKey{"expert_weights_scale", "routed_scaling_factor"},
    GgufKey{"expert_weights_norm", "norm_topk_prob"},
    GgufKey{"expert_group_count", "n_group"},
    GgufKey{"expert_group_used_count", "topk_group"},
    GgufKey{"expert_count", "n_routed_experts"},
    GgufKey{"rope.dimension_count", "qk_rope_head_dim"},
};

constexpr std::array kDeepSeekTensors = {
    GgufTensorName{"attn_q_a.weight", "self_attn.q_a_proj.weight"},
    GgufTensorName{"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    GgufTensorName{"attn_q_b.weight", "self_attn.q_b_proj.weight"},
    GgufTensorName{"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
    GgufTensorName{"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    GgufTensorName{"attn_kv_b.weight", "self_attn.kv_b_proj.weight"},
    GgufTensorName{"attn_k_b.weight", "self_attn.kv_b_proj.weight", LineOrder::kLatent,
                   "attn_v_b.weight"},
    GgufTensorName{"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    GgufTensorName{"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
};

/// GLM-4.5 and dots.llm1.
constexpr std::array kSharedExpertsKeys = {
    GgufKey{"leading_dense_block_count", "first_k_dense_replace"},
    GgufKey{"expert_count", "n_routed_experts"},
    GgufKey{"expert_group_count", "n_group"},
    GgufKey{"expert_group_used_count", "topk_group"},
    GgufKey{"expert_shared_count", "n_shared_experts"},
    GgufKey{"expert_weights_norm", "norm_topk_prob"},
    GgufKey{"expert_weights_scale", "routed_scaling_factor"},
};

constexpr std::array kDots1Tensors = {
    GgufTensorName{"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    GgufTensorName{"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    GgufTensorName{"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
};

constexpr std::array kGlm4Tensors = {
    kDots1Tensors[0],
    kDots1Tensors[1],
    kDots1Tensors[2],
    GgufTensorName{"post_attention_norm.weight", "post_attention_layernorm.weight"},
};

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

constexpr std::array kErnieTensors = {
    kDots1Tensors[0],
    kDots1Tensors[1],
    kDots1Tensors[2],
    GgufTensorName{"exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias"},
};

constexpr std::array kMiniMaxKeys = {
    GgufKey{"expert_count", "num_local_experts"},
    GgufKey{"expert_feed_forward_length", "intermediate_size"},
    GgufKey{"rope.dimension_count", "rotary_dim"},
};

constexpr std::array kMiniMaxTensors = {
    GgufTensorName{"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
    GgufTensorName{"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"},
    GgufTensorName{"ffn_gate_exps.weight", "block_sparse_moe.experts.gate_up_proj",
                   LineOrder::kStacked, "ffn_up_exps.weight"},
    GgufTensorName{"ffn_down_exps.weight", "block_sparse_moe.experts.down_proj"},
};

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

constexpr std::array kQwen3NextTensors = {
    norm("output_norm.weight", "model.norm.weight"),
    norm("attn_norm.weight", "input_layernorm.weight"),
    norm("post_attention_norm.weight", "post_attention_layernorm.weight"),
    norm("attn_q_norm.weight", "self_attn.q_norm.weight"),
    norm("attn_k_norm.weight", "self_attn.k_norm.weight"),
    GgufTensorName{"attn_qkv.weight", "linear_attn.in_proj_qkvz.weight", LineOrder::kKeyHeads,
                   "attn_gate.weight"},
    GgufTensorName{"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
    GgufTensorName{"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    GgufTensorName{"ssm_a", "linear_attn.A_log", LineOrder::kSame, "", false, kLogNegative},
    GgufTensorName{"ssm_dt.bias", "linear_attn.dt_bias"},
    GgufTensorName{"ssm_norm.weight", "linear_attn.norm.weight"},
    GgufTensorName{"ssm_out.weight", "linear_attn.out_proj.weight"},
};

constexpr std::array kQwen35Tensors = {
    kQwen3NextTensors[0],
    kQwen3NextTensors[1],
    kQwen3NextTensors[2],
    kQwen3NextTensors[3],
    kQwen3NextTensors[4],
    GgufTensorName{"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", LineOrder::kTiledHeads},
    GgufTensorName{"attn_gate.weight", "linear_attn.in_proj_z.weight", LineOrder::kTiledHeads},
    GgufTensorName{"ssm_beta.weight", "linear_attn.in_proj_b.weight", LineOrder::kTiledHeads},
    GgufTensorName{"ssm_alpha.weight", "linear_attn.in_proj_a.weight", LineOrder::kTiledHeads},
    GgufTensorName{"ssm_conv1d.weight", "linear_attn.conv1d.weight", LineOrder::kTiledHeads},
    GgufTensorName{"ssm_a", "linear_attn.A_log", LineOrder::kTiledColumns, "", false, kLogNegative},
    GgufTensorName{"ssm_dt.bias", "linear_attn.dt_bias", LineOrder::kTiledColumns},
    GgufTensorName{"ssm_norm.weight", "linear_attn.norm.weight"},
    GgufTensorName{"ssm_out.weight", "linear_attn.out_proj.weight", LineOrder::kTiledColumns},
};

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
    GgufFamily{"dots1", "dots1", kSharedExpertsKeys, kDots1Tensors,
               R"({"n_group": 1, "topk_group": 1})"},
    GgufFamily{"ernie4_5-moe", "ernie4_5_moe", kErnieKeys, kErnieTensors},
    GgufFamily{"gemma4", "gemma4_text", kGemma4Keys, kGemma4Tensors,
               R"({"enable_moe_block": true, "attention_k_eq_v": true,
                   "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 0,
                   "num_kv_shared_layers": 0})"},
    GgufFamily{"glm4moe", "glm4_moe", kSharedExpertsKeys, kGlm4Tensors,
               R"({"n_group": 1, "topk_group": 1})", kGlm4Flags},
    GgufFamily{"gpt-oss", "gpt_oss", kGptOssKeys, kGptOssTensors},
    GgufFamily{"granitemoe", "granitemoe", kGraniteKeys, kGraniteTensors},
    GgufFamily{"lfm2moe", "lfm2_moe", kLfm2Keys, kLfm2Tensors, R"({"num_dense_layers": 0})"},
    GgufFamily{"llama", "mixtral", {}, kMixtralTensors},
    GgufFamily{"llama4", "llama4_text", kLlama4Keys, kLlama4Tensors},
    GgufFamily{"minimax-m2", "minimax_m2", kMiniMaxKeys, kMiniMaxTensors},
    GgufFamily{"olmoe", "olmoe", {}, {}},
    GgufFamily{"qwen2moe", "qwen2_moe", {}, {}},
    GgufFamily{"qwen35moe", "qwen3_5_moe_text", kGatedKeys, kQwen35Tensors,
               R"({"full_attention_interval": 4})"},
    GgufFamily{"qwen3moe", "qwen3_moe", {}, {}, R"({"norm_topk_prob": true})"},
    GgufFamily{"qwen3next", "qwen3_next", kGatedKeys, kQwen3NextTensors,
               R"({"full_attention_interval": 4})"},
};

} // namespace

std::span<const GgufFamily> ggufFamilies() {
  return kFamilies;
}

std::span<const GgufKey> commonGgufKeys() {
  return kCommonKeys;
}

std::span<const GgufTensorName> commonGgufTensors() {
  return kCommonTensors;
}

std::span<const GgufTensorName> outerGgufTensors() {
  return kOuterTensors;
}

} // namespace moec
