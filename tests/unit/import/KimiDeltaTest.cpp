// What the configs of the families with Kimi delta attention mean, each with its refused values.
#include "tests/unit/import/FamilyConfig.h"

#include <cmath>

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

/// Keys of both: 2 heads of latent attention with queries of 6 + 4 elements.
nlohmann::json hybridConfig(const char *modelType, const char *className) {
  nlohmann::json config = decoderConfig(modelType, className);
  config.update({{"num_hidden_layers", 3},
                 {"num_key_value_heads", 2},
                 {"q_lora_rank", nullptr},
                 {"kv_lora_rank", 3},
                 {"qk_nope_head_dim", 6},
                 {"qk_rope_head_dim", 4},
                 {"v_head_dim", 5},
                 {"num_experts", 8},
                 {"num_shared_experts", 2},
                 {"moe_intermediate_size", 3},
                 {"first_k_dense_replace", 1},
                 {"routed_scaling_factor", 2.5}});
  return config;
}

nlohmann::json kimiConfig() {
  nlohmann::json config = hybridConfig("kimi_linear", "KimiLinearForCausalLM");
  config.erase("num_experts_per_tok");
  config.update({{"num_experts_per_token", 2},
                 {"moe_renormalize", true},
                 {"num_expert_group", 1},
                 {"topk_group", 1},
                 {"linear_attn_config",
                  {{"full_attn_layers", {2}},
                   {"kda_layers", {1, 3}},
                   {"num_heads", 3},
                   {"head_dim", 8},
                   {"short_conv_kernel_size", 4}}}});
  return config;
}

nlohmann::json bailingConfig() {
  nlohmann::json config = hybridConfig("bailing_hybrid", "BailingHybridForCausalLM");
  config.update({{"head_dim", 8},
                 {"layer_group_size", 3},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"kda_lower_bound", -4.0}});
  return config;
}

} // namespace

TEST_CASE("Kimi Linear's layers are delta attention but for the listed ones") {
  const ModelDescription model = describe(kimiConfig());
  REQUIRE(model.layers.size() == 3);
  const moec::DeltaNetDescription &net = model.layers[2].deltaNet.value();
  CHECK(net.keyHeads == 3);
  CHECK(net.heads == 3);
  CHECK(net.query.linear.weight.tensor == "model.layers.2.self_attn.q_proj.weight");
  CHECK(net.value.taps.tensor == "model.layers.2.self_attn.v_conv1d.weight");
  CHECK(net.decayDown->weight.tensor == "model.layers.2.self_attn.f_a_proj.weight");
  CHECK(net.decayDown->weight.rows == 8);
  CHECK(net.decay.weight.rows == 24);
  CHECK(net.gateDown->weight.tensor == "model.layers.2.self_attn.g_a_proj.weight");
  CHECK(net.logRate.cols == 3);
  CHECK(net.decayBias.cols == 24);
  CHECK_FALSE(net.decayBound);
  CHECK(net.gatesBySigmoid);
  const LayerDescription &full = model.layers[1];
  REQUIRE(full.latentAttention);
  CHECK_FALSE(full.latentAttention->rope);
  CHECK_FALSE(full.latentAttention->gate);
  CHECK(full.latentAttention->scale == static_cast<float>(1 / std::sqrt(10.0)));
  REQUIRE(full.moe);
  CHECK(full.moe->experts[3].up.weight.tensor ==
        "model.layers.1.block_sparse_moe.experts.3.w3.weight");
  CHECK(full.moe->shared->network.up.weight.rows == 6);
  CHECK(model.layers[0].dense->up.weight.tensor == "model.layers.0.mlp.up_proj.weight");
}

TEST_CASE("Kimi Linear's keys without linear_attn_config are those of its class") {
  nlohmann::json config = kimiConfig();
  config.erase("linear_attn_config");
  config.update({{"linear_num_heads", 2}, {"linear_head_dim", 8}, {"num_hidden_layers", 6}});
  const ModelDescription model = describe(config);
  for (size_t layer = 0; layer < 6; ++layer)
    CHECK(model.layers[layer].deltaNet.has_value() == (layer != 4));
  CHECK(model.layers[0].deltaNet->key.taps.cols == 4);
  config["layer_types"] = {"full_attention",   "linear_attention", "linear_attention",
                           "linear_attention", "linear_attention", "linear_attention"};
  CHECK(describe(config).layers[0].latentAttention);
}

TEST_CASE("Kimi Linear refuses what it cannot compute") {
  const nlohmann::json valid = kimiConfig();
  checkRefused(valid, {{"mla_use_nope", false, "true"},
                       {"moe_router_activation_func", "softmax", "sigmoid"},
                       {"use_grouped_topk", false, "true"},
                       {"moe_layer_freq", 2, "1"},
                       {"num_key_value_heads", 1, "num_attention_heads"}});
  const std::vector<BrokenValue> broken = {
      {"kda_layers", {1}, "each layer from 1 to 3 once"},
      {"full_attn_layers", {2, 3}, "each layer from 1 to 3 once"},
      {"full_attn_layers", {4}, "from 1 to 3"},
      {"short_conv_kernel_size", 1, "from 2 to 64"},
      {"head_dim", 5, "at least 16 elements together"},
      {"head_dim", 8192, "at most 67108864 elements together"}};
  for (const BrokenValue &each : broken) {
    CAPTURE(each.key);
    nlohmann::json config = valid;
    config["linear_attn_config"][each.key] = each.value;
    const std::string message(tryDescribe(config).status().message());
    CAPTURE(message);
    CHECK(message.find("linear_attn_config") != std::string::npos);
    CHECK(message.find(each.expected) != std::string::npos);
  }
}

TEST_CASE("Ling's delta attention has bounded decays, its latent attention a gate per head") {
  const ModelDescription model = describe(bailingConfig());
  CHECK(model.embedding.tensor == "model.word_embeddings.weight");
  const moec::DeltaNetDescription &net = model.layers[1].deltaNet.value();
  CHECK(net.heads == 2);
  CHECK_FALSE(net.decayDown);
  CHECK(net.decay.weight.tensor == "model.layers.1.attention.f_proj.weight");
  CHECK(net.decay.weight.rows == 16);
  CHECK(net.decayBound == -4.0f);
  CHECK(net.output.weight.tensor == "model.layers.1.attention.dense.weight");
  const LayerDescription &full = model.layers[2];
  REQUIRE(full.latentAttention);
  CHECK(full.latentAttention->rope == 0u);
  CHECK(full.latentAttention->gate->weight.rows == 2);
  CHECK(full.latentAttention->output.weight.tensor == "model.layers.2.attention.dense.weight");
  CHECK(full.moe->router.choiceBias->tensor == "model.layers.2.mlp.gate.expert_bias");
  CHECK(full.moe->router.keptGroups == 2);
  nlohmann::json config = bailingConfig();
  config["kda_safe_gate"] = false;
  CHECK_FALSE(describe(config).layers[0].deltaNet->decayBound);
}

TEST_CASE("Ling refuses what it cannot compute") {
  checkRefused(bailingConfig(), {{"kda_lower_bound", 0.0, "-1000"},
                                 {"moe_router_enable_expert_bias", false, "true"},
                                 {"score_function", "softmax", "sigmoid"},
                                 {"layer_group_size", 0, "from 1"},
                                 {"head_dim", 4, "at least 16 elements together"},
                                 {"topk_group", 5, "from 1 to 4"},
                                 {"short_conv_kernel_size", 65, "from 2 to 64"}});
}
