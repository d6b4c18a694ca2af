#include "compiler/import/gguf/GgufFamilies.h"

#include <array>
#include <cstdint>

namespace moec {

namespace {

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

constexpr double kSigmoid = 2; // llama.cpp's number of the gating function; 1 is softmax.

/// Keys that llama.cpp reads. Source: its src/llama-model.cpp and src/models.
constexpr std::array kFixedKeys = {
    GgufFixedKey{"", "attention.causal", 1, 1},
    GgufFixedKey{"", "attention.temperature_scale", 0, 0},
    GgufFixedKey{"", "expert_group_count", 0, 1},
    GgufFixedKey{"", "rope.scaling.attn_factor", 1, 1},
    GgufFixedKey{"dots1", "expert_gating_func", kSigmoid, kSigmoid},
    GgufFixedKey{"glm-dsa", "expert_gating_func", kSigmoid, kSigmoid},
    GgufFixedKey{"glm4moe", "expert_gating_func", kSigmoid, kSigmoid},
    GgufFixedKey{"kimi-linear", "expert_gating_func", kSigmoid, kSigmoid},
    GgufFixedKey{"lfm2moe", "expert_gating_func", kSigmoid, kSigmoid},
    // A window of 0 is that of a file without chunks, all of whose layers rotate.
    GgufFixedKey{"llama4", "attention.sliding_window", 1, UINT32_MAX},
    GgufFixedKey{"minimax-m2", "expert_gating_func", kSigmoid, kSigmoid},
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

} // namespace

std::span<const GgufKey> commonGgufKeys() {
  return kCommonKeys;
}

std::span<const GgufFixedKey> fixedGgufKeys() {
  return kFixedKeys;
}

std::span<const GgufTensorName> commonGgufTensors() {
  return kCommonTensors;
}

std::span<const GgufTensorName> outerGgufTensors() {
  return kOuterTensors;
}

} // namespace moec
