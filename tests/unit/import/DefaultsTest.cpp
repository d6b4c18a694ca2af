// Keys that a config lacks, or has null or in another place: what the families take for them.
#include "tests/unit/import/FamilyConfig.h"

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

/// The numbers that a shared expert's width follows from.
struct SharedKeys {
  const char *modelType, *className, *experts, *shared;
  uint32_t width; // One expert's, times the class's default count.
};

} // namespace

TEST_CASE("without a count of shared experts a model has as many as its class says") {
  for (const SharedKeys &keys :
       {SharedKeys{"deepseek_v2", "DeepseekV2ForCausalLM", "n_routed_experts", "n_shared_experts",
                   6},
        SharedKeys{"deepseek_v3", "DeepseekV3ForCausalLM", "n_routed_experts", "n_shared_experts",
                   3},
        SharedKeys{"glm4_moe", "Glm4MoeForCausalLM", "n_routed_experts", "n_shared_experts", 3},
        SharedKeys{"glm4_moe_lite", "Glm4MoeLiteForCausalLM", "n_routed_experts",
                   "n_shared_experts", 3},
        SharedKeys{"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", "moe_num_experts",
                   "moe_num_shared_experts", 6}}) {
    CAPTURE(keys.modelType);
    nlohmann::json config = decoderConfig(keys.modelType, keys.className);
    config[keys.experts] = 16;
    config["moe_intermediate_size"] = 3;
    config["num_key_value_heads"] = 2;
    config["first_k_dense_replace"] = 1;
    config[config.contains("moe_num_experts") ? "moe_k" : "num_experts_per_tok"] = 2;
    const ModelDescription model = describe(config);
    CHECK(model.layers[1].moe->shared->network.up.weight.rows == keys.width);
    config[keys.shared] = 0;
    CHECK_FALSE(describe(config).layers[1].moe->shared.has_value());
  }
}

TEST_CASE("GLM-4.5 rotates half of each head by default") {
  nlohmann::json config = decoderConfig("glm4_moe", "Glm4MoeForCausalLM");
  config["n_routed_experts"] = 4;
  config["moe_intermediate_size"] = 3;
  config["head_dim"] = 8;
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 2);
  CHECK(describe(config).layers[0].dense.has_value()); // first_k_dense_replace is 1.
  config["partial_rotary_factor"] = 1.0;
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 4);
  config["rope_parameters"] = {{"partial_rotary_factor", 0.25}};
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 1);
}

TEST_CASE("MiniMax-M2's rotary_dim yields to partial_rotary_factor, and that to the inner one") {
  nlohmann::json config = decoderConfig("minimax_m2", "MiniMaxM2ForCausalLM");
  config["num_local_experts"] = 4;
  config["head_dim"] = 8;
  config["rotary_dim"] = 2;
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 1);
  config["partial_rotary_factor"] = 0.5;
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 2);
  config["rope_scaling"] = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  CHECK(describe(config).ropes[0].inverseFrequencies.size() == 4);
}

TEST_CASE("ERNIE-4.5 is tied where no key says otherwise, and use_bias adds biases") {
  nlohmann::json config = decoderConfig("ernie4_5_moe", "Ernie4_5_MoeForCausalLM");
  config.erase("num_experts_per_tok");
  config.update({{"moe_num_experts", 8}, {"moe_k", 2}, {"moe_intermediate_size", 3}});
  const ModelDescription model = describe(config);
  CHECK(model.tiedHead);
  CHECK(model.layers[0].dense.has_value()); // moe_layer_start_index is 1.
  CHECK_FALSE(model.layers[1].moe->shared->network.up.bias.has_value());
  config["tie_word_embeddings"] = false;
  config["use_bias"] = true;
  const ModelDescription biased = describe(config);
  CHECK_FALSE(biased.tiedHead);
  CHECK(biased.head.bias->tensor == "lm_head.bias");
  CHECK(biased.layers[0].attention.output.bias->tensor == "model.layers.0.self_attn.o_proj.bias");
  CHECK(biased.layers[0].dense->down.bias->tensor == "model.layers.0.mlp.down_proj.bias");
  CHECK(biased.layers[1].moe->shared->network.gate.bias->tensor ==
        "model.layers.1.mlp.shared_experts.gate_proj.bias");
  CHECK_FALSE(biased.layers[1].moe->experts[0].gate.bias.has_value());
}

TEST_CASE("dots.llm1's window is that of sliding layers, of which the class has none by default") {
  nlohmann::json config = decoderConfig("dots1", "Dots1ForCausalLM");
  config["n_routed_experts"] = 8;
  config["moe_intermediate_size"] = 3;
  config["sliding_window"] = 16;
  for (const LayerDescription &layer : describe(config).layers)
    CHECK(layer.attention.window == 0);
  config["max_window_layers"] = 1;
  CHECK(describe(config).layers[0].attention.window == 0);
  CHECK(describe(config).layers[1].attention.window == 16);
  config["layer_types"] = {"sliding_attention", "full_attention"};
  CHECK(describe(config).layers[0].attention.window == 16);
  CHECK(describe(config).layers[1].attention.window == 0);
  config["sliding_window"] = nullptr;
  CHECK(tryDescribe(config).status().message().find("'sliding_window'") != std::string::npos);
}

TEST_CASE("DeepSeek-V2 without groups needs no topk_group, and dots.llm1 and GLM have one group") {
  nlohmann::json config = decoderConfig("deepseek_v2", "DeepseekV2ForCausalLM");
  config.update({{"n_routed_experts", 8},
                 {"moe_intermediate_size", 3},
                 {"num_key_value_heads", 2},
                 {"topk_method", "greedy"},
                 {"n_group", 1},
                 {"topk_group", nullptr}});
  CHECK(describe(config).layers[1].moe->router.groups == 1);
  for (const char *modelType : {"dots1", "glm4_moe"}) {
    nlohmann::json other = decoderConfig(
        modelType, modelType == std::string("dots1") ? "Dots1ForCausalLM" : "Glm4MoeForCausalLM");
    other["n_routed_experts"] = 8;
    other["n_group"] = 1;
    CHECK(describe(other).layers[1].moe->router.keptGroups == 1);
  }
}

TEST_CASE("DeepSeek-MoE renormalizes only more than one expert") {
  nlohmann::json config = decoderConfig("deepseek", "DeepseekForCausalLM");
  config.update({{"n_routed_experts", 8}, {"moe_intermediate_size", 3}, {"norm_topk_prob", true}});
  CHECK(describe(config).layers[0].moe->router.renormalize);
  config["num_experts_per_tok"] = 1;
  CHECK_FALSE(describe(config).layers[0].moe->router.renormalize);
}

TEST_CASE("Llama-4's layers without rotation follow their interval, and chunks their types") {
  nlohmann::json config = decoderConfig("llama4_text", "Llama4ForCausalLM");
  config.update({{"num_experts_per_tok", 1},
                 {"num_local_experts", 4},
                 {"head_dim", 4},
                 {"attention_chunk_size", 16},
                 {"no_rope_layer_interval", 2}});
  ModelDescription model = describe(config);
  CHECK(model.layers[0].attention.rope.has_value());
  CHECK_FALSE(model.layers[1].attention.rope.has_value());
  CHECK(model.layers[0].attention.chunked);
  CHECK_FALSE(model.layers[1].attention.chunked);
  config["layer_types"] = {"full_attention", "chunked_attention"};
  model = describe(config);
  CHECK_FALSE(model.layers[0].attention.chunked);
  CHECK(model.layers[1].attention.chunked);
  CHECK(model.layers[1].attention.window == 16);
  config["no_rope_layers"] = {0, 1, 1, 0}; // Longer than the model.
  CHECK_FALSE(describe(config).layers[0].attention.rope.has_value());
  CHECK(describe(config).layers[1].attention.rope.has_value());
  config["attention_chunk_size"] = nullptr;
  CHECK(tryDescribe(config).status().message().find("'attention_chunk_size'") != std::string::npos);
}

TEST_CASE("gpt-oss without a rope object has the YaRN of its class") {
  nlohmann::json config = decoderConfig("gpt_oss", "GptOssForCausalLM");
  config.erase("rope_theta");
  config.update({{"num_local_experts", 4}, {"head_dim", 64}});
  nlohmann::json whole = config;
  whole["rope_theta"] = 150000;
  whole["rope_scaling"] = {{"rope_type", "yarn"},
                           {"factor", 32.0},
                           {"truncate", false},
                           {"original_max_position_embeddings", 4096}};
  CHECK(describe(config).ropes[0].inverseFrequencies ==
        describe(whole).ropes[0].inverseFrequencies);
  config["rope_scaling"] = nullptr;
  CHECK(describe(config).ropes[0].attentionFactor == describe(whole).ropes[0].attentionFactor);
  config["rope_parameters"] = {{"rope_type", "default"}};
  CHECK(describe(config).ropes[0].attentionFactor == 1);
}

TEST_CASE("attention_bias adds biases to all four projections where the class has them") {
  for (const char *modelType : {"qwen3_moe", "olmoe", "flex_olmo", "granitemoe"}) {
    CAPTURE(modelType);
    nlohmann::json config = decoderConfig(modelType, "");
    config.erase("architectures");
    config[modelType == std::string("granitemoe") ? "num_local_experts" : "num_experts"] = 4;
    config["attention_bias"] = true;
    const moec::AttentionDescription attention = describe(config).layers[0].attention;
    for (const moec::LinearDescription *linear :
         {&attention.query, &attention.key, &attention.value, &attention.output})
      CHECK(linear->bias.has_value());
  }
}

TEST_CASE("DeepSeek-V3's score factor is that of mscale_all_dim in any type but the default") {
  nlohmann::json config = decoderConfig("deepseek_v3", "DeepseekV3ForCausalLM");
  config.update({{"num_key_value_heads", 2},
                 {"num_experts_per_tok", 8},
                 {"num_hidden_layers", 4},
                 {"head_dim", 64}});
  const float plain = describe(config).layers[1].latentAttention->scale;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 40}, {"mscale_all_dim", 1.0}};
  CHECK(describe(config).layers[1].latentAttention->scale > plain);
  config["rope_scaling"]["type"] = "default";
  CHECK(describe(config).layers[1].latentAttention->scale == plain);
  config["head_dim"] = 192; // Not that of the rotation.
  CHECK(tryDescribe(config).status().message().find("'head_dim': found 192") != std::string::npos);
}

TEST_CASE("an end token of the class that the vocabulary lacks is none") {
  nlohmann::json config = decoderConfig("olmoe", "OlmoeForCausalLM");
  config["num_experts"] = 4;
  config.erase("eos_token_id");
  CHECK(describe(config).eosTokens.empty());
  config["vocab_size"] = 50304;
  CHECK(describe(config).eosTokens == std::vector<int32_t>{50279});
}
