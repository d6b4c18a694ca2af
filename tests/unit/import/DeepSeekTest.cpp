// What the configs of families with DeepSeek's keys mean: DeepSeek itself, dots.llm1 and GLM.
// FamiliesTest.cpp has most of the others.
#include "tests/unit/import/FamilyConfig.h"

#include <cmath>
#include <string>
#include <vector>

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

nlohmann::json deepSeekConfig(const char *modelType, const char *className) {
  nlohmann::json config = decoderConfig(modelType, className);
  config["num_hidden_layers"] = 3;
  config["n_routed_experts"] = 8;
  config["n_shared_experts"] = 2;
  config["moe_intermediate_size"] = 3;
  config["first_k_dense_replace"] = 1;
  config["norm_topk_prob"] = true;
  config["routed_scaling_factor"] = 2.5;
  config["n_group"] = 4;
  config["topk_group"] = 2;
  return config;
}

nlohmann::json dotsConfig() {
  return deepSeekConfig("dots1", "Dots1ForCausalLM");
}

nlohmann::json glmConfig() {
  nlohmann::json config = deepSeekConfig("glm4_moe", "Glm4MoeForCausalLM");
  config["head_dim"] = 8;
  config["partial_rotary_factor"] = 0.5;
  config["attention_bias"] = true;
  config["use_qk_norm"] = true;
  return config;
}

/// Latent attention: queries of 6 + 4 elements per head, values of 5, a latent of 3.
nlohmann::json latentConfig(const char *modelType, const char *className) {
  nlohmann::json config = decoderConfig(modelType, className);
  config.update({{"num_attention_heads", 3},
                 {"num_key_value_heads", 3},
                 {"q_lora_rank", nullptr},
                 {"kv_lora_rank", 3},
                 {"qk_nope_head_dim", 6},
                 {"qk_rope_head_dim", 4},
                 {"v_head_dim", 5},
                 {"n_routed_experts", 8},
                 {"n_shared_experts", 2},
                 {"moe_intermediate_size", 3},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"first_k_dense_replace", 1},
                 {"routed_scaling_factor", 2.5}});
  return config;
}

nlohmann::json deepSeekV2Config() {
  nlohmann::json config = latentConfig("deepseek_v2", "DeepseekV2ForCausalLM");
  config["topk_method"] = "group_limited_greedy";
  return config;
}

} // namespace

TEST_CASE("DeepSeek-MoE has dense layers first, and shared experts as one ungated network") {
  nlohmann::json config = deepSeekConfig("deepseek", "DeepseekForCausalLM");
  config["scoring_func"] = "softmax";
  config.erase("routed_scaling_factor");
  const ModelDescription model = describe(config);
  REQUIRE(model.layers[0].dense.has_value());
  CHECK(model.layers[0].dense->gate.weight.rows == 6);
  for (size_t l : {1u, 2u}) {
    const moec::MoeDescription &moe = model.layers[l].moe.value();
    CHECK(moe.experts.size() == 8);
    CHECK(moe.router.scoring == moec::RouterScoring::kSoftmaxThenTopK);
    CHECK_FALSE(moe.router.choiceBias.has_value());
    REQUIRE(moe.shared.has_value());
    CHECK(moe.shared->network.down.weight.cols == 6);
    CHECK_FALSE(moe.shared->gate.has_value());
  }
  checkRefused(config, {{"scoring_func", "sigmoid", "softmax"},
                        {"n_routed_experts", 0, "an integer from 1"},
                        {"n_shared_experts", -1, "an integer"},
                        {"num_experts_per_tok", 9, "an integer from 1 to 8"},
                        {"moe_layer_freq", 0, "an integer from 1"}});
}

TEST_CASE("dots.llm1 chooses by sigmoid and bias within groups, and normalizes heads") {
  const ModelDescription model = describe(dotsConfig());
  const LayerDescription &layer = model.layers[2];
  CHECK(layer.attention.queryNorm->weight.cols == 4);
  const moec::RouterDescription &router = layer.moe->router;
  CHECK(router.scoring == moec::RouterScoring::kSigmoid);
  CHECK(router.choiceBias->tensor == "model.layers.2.mlp.gate.e_score_correction_bias");
  CHECK(router.groups == 4);
  CHECK(router.keptGroups == 2);
  CHECK(router.groupScore == moert::GroupScore::kTwoLargest);
  CHECK(router.weightScale == 2.5f);
  CHECK(router.renormalize);
  checkRefused(dotsConfig(), {{"n_group", 3, "a divisor of 8"},
                              {"n_group", 65, "an integer from 1 to 64"},
                              {"topk_group", 5, "an integer from 1 to 4"},
                              {"max_window_layers", -1, "an integer from 0"},
                              {"routed_scaling_factor", 0, "a number"}});
}

TEST_CASE("GLM-4.5 rotates the first part of each head and has biases") {
  const ModelDescription model = describe(glmConfig());
  CHECK(model.ropes[0].inverseFrequencies.size() == 2);
  CHECK(model.layers[1].attention.query.bias.has_value());
  CHECK(model.layers[1].attention.value.bias.has_value());
  CHECK_FALSE(model.layers[1].attention.output.bias.has_value());
  CHECK(model.layers[1].attention.keyNorm.has_value());
  nlohmann::json v5 = glmConfig();
  v5.erase("partial_rotary_factor");
  v5.erase("rope_theta");
  v5["rope_parameters"] = {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.25}};
  CHECK(describe(v5).ropes[0].inverseFrequencies.size() == 1);
  checkRefused(glmConfig(), {{"partial_rotary_factor", 0.1, "an even number"},
                             {"partial_rotary_factor", 1.5, "a number"},
                             {"use_qk_norm", "yes", "true or false"},
                             {"mlp_bias", true, "false"},
                             {"topk_group", 0, "an integer from 1"}});
}

TEST_CASE("a family that rotates whole heads refuses partial_rotary_factor") {
  nlohmann::json config = qwen3Config();
  config["partial_rotary_factor"] = 0.5;
  CHECK(tryDescribe(config).status().code() == moert::StatusCode::kInvalidInput);
}

TEST_CASE("DeepSeek-V2 has latent attention with one matrix for both uses of the latent") {
  const ModelDescription model = describe(deepSeekV2Config());
  CHECK(model.ropes[0].style == moec::RopeStyle::kInterleaved);
  CHECK(model.ropes[0].inverseFrequencies.size() == 2);
  const moec::LatentAttentionDescription &attention = model.layers[1].latentAttention.value();
  CHECK(attention.heads == 3);
  CHECK(attention.scale == static_cast<float>(1 / std::sqrt(10.0)));
  CHECK_FALSE(attention.queryDown.has_value());
  CHECK(attention.query.weight.tensor == "model.layers.1.self_attn.q_proj.weight");
  CHECK(attention.query.weight.rows == 30);
  CHECK(attention.latent.weight.rows == 3);
  CHECK(attention.key.weight.rows == 4);
  CHECK(attention.key.weight.firstRow == 3);
  CHECK(attention.key.weight.tensor == attention.latent.weight.tensor);
  CHECK(attention.latentNorm.epsilon == 1e-6f);
  CHECK(attention.keyUp.transposed);
  CHECK(attention.keyUp.rows == 9);
  CHECK(attention.keyUp.cols == 6);
  CHECK(attention.valueUp.rows == 15);
  CHECK(attention.valueUp.firstRow == 6);
  for (const moec::WeightSource *source : {&attention.keyUp, &attention.valueUp}) {
    CHECK(source->tensor == "model.layers.1.self_attn.kv_b_proj.weight");
    CHECK(source->blocks == 3);
    CHECK(source->blockStep == 11);
  }
  CHECK(attention.output.weight.cols == 15);
}

TEST_CASE("DeepSeek-V2 chooses by softmax, within groups by their largest") {
  nlohmann::json config = deepSeekV2Config();
  const moec::RouterDescription router = describe(config).layers[1].moe->router;
  CHECK(router.scoring == moec::RouterScoring::kSoftmaxThenTopK);
  CHECK_FALSE(router.choiceBias.has_value());
  CHECK_FALSE(router.renormalize);
  CHECK(router.groups == 4);
  CHECK(router.keptGroups == 2);
  CHECK(router.groupScore == moert::GroupScore::kLargest);
  CHECK(router.weightScale == 2.5f);
  config["topk_method"] = "greedy";
  CHECK(describe(config).layers[1].moe->router.groups == 1);
  checkRefused(deepSeekV2Config(), {{"topk_method", "noaux_tc", "group_limited_greedy"},
                                    {"n_group", nullptr, "an integer from 1"},
                                    {"scoring_func", "sigmoid", "softmax"},
                                    {"norm_topk_prob", true, "false"},
                                    {"num_key_value_heads", 1, "num_attention_heads, 3"},
                                    {"qk_rope_head_dim", 3, "an even number"},
                                    {"v_head_dim", 0, "an integer from 1"},
                                    {"kv_lora_rank", nullptr, "an integer from 1"},
                                    {"attention_bias", true, "false"}});
  config = deepSeekV2Config();
  config.erase("q_lora_rank");
  CHECK(describe(config).layers[1].latentAttention->queryDown->weight.rows == 1536);
}

TEST_CASE(
    "YaRN multiplies DeepSeek's attention scores by the square of what mscale_all_dim gives") {
  nlohmann::json config = deepSeekV2Config();
  config["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 40},
                            {"mscale", 0.707},
                            {"mscale_all_dim", 0.707},
                            {"beta_fast", 32},
                            {"beta_slow", 1},
                            {"original_max_position_embeddings", 32}};
  const ModelDescription model = describe(config);
  const double magnitude = 0.1 * 0.707 * std::log(40.0) + 1;
  CHECK(model.layers[1].latentAttention->scale ==
        doctest::Approx(magnitude * magnitude / std::sqrt(10.0)).epsilon(1e-6));
  CHECK(model.ropes[0].attentionFactor == 1);
  config["rope_scaling"].erase("mscale_all_dim");
  CHECK(describe(config).layers[1].latentAttention->scale ==
        static_cast<float>(1 / std::sqrt(10.0)));
}

TEST_CASE("DeepSeek-V3 projects queries down and chooses by sigmoid and bias within groups") {
  nlohmann::json config = latentConfig("deepseek_v3", "DeepseekV3ForCausalLM");
  config["q_lora_rank"] = 7;
  const ModelDescription model = describe(config);
  const LayerDescription &layer = model.layers[1];
  const moec::LatentAttentionDescription &attention = layer.latentAttention.value();
  CHECK(attention.queryDown->weight.rows == 7);
  CHECK(attention.queryNorm->weight.tensor == "model.layers.1.self_attn.q_a_layernorm.weight");
  CHECK(attention.queryNorm->epsilon == 1e-6f);
  CHECK(attention.query.weight.tensor == "model.layers.1.self_attn.q_b_proj.weight");
  CHECK(attention.query.weight.cols == 7);
  CHECK(model.layers[0].dense.has_value());
  const moec::RouterDescription &router = layer.moe->router;
  CHECK(router.scoring == moec::RouterScoring::kSigmoid);
  CHECK(router.choiceBias->tensor == "model.layers.1.mlp.gate.e_score_correction_bias");
  CHECK(router.renormalize);
  CHECK(router.groups == 4);
  CHECK(router.groupScore == moert::GroupScore::kTwoLargest);
  checkRefused(config, {{"scoring_func", "softmax", "sigmoid"},
                        {"topk_method", "greedy", "noaux_tc"},
                        {"routed_scaling_factor", nullptr, "a number"},
                        {"first_k_dense_replace", nullptr, "an integer from 0"},
                        {"topk_group", 5, "an integer from 1 to 4"},
                        {"q_lora_rank", 0, "an integer from 1"},
                        {"rope_interleave", 1, "true or false"}});
  config["rope_interleave"] = false;
  CHECK(describe(config).ropes[0].style == moec::RopeStyle::kHalf);
}

TEST_CASE("GLM-4.7-Flash names its dense layers by number or by type") {
  nlohmann::json config = latentConfig("glm4_moe_lite", "Glm4MoeLiteForCausalLM");
  config.update({{"num_hidden_layers", 3}, {"rms_norm_eps", 1e-5}, {"partial_rotary_factor", 1.0}});
  const ModelDescription model = describe(config);
  CHECK(model.layers[0].dense.has_value());
  CHECK(model.layers[1].moe.has_value());
  CHECK(model.layers[1].latentAttention->latentNorm.epsilon == 1e-6f);
  CHECK(model.layers[1].attentionNorm->epsilon == 1e-5f);
  nlohmann::json types = config;
  types.erase("first_k_dense_replace");
  types["mlp_layer_types"] = {"dense", "dense", "sparse"};
  CHECK(describe(types).layers[1].dense.has_value());
  CHECK(describe(types).layers[2].moe.has_value());
  types["mlp_layer_types"] = {"sparse", "dense", "sparse"};
  CHECK(describe(types).layers[0].moe.has_value());
  CHECK(describe(types).layers[1].dense.has_value());
  checkRefused(types, {{"mlp_layer_types", {"dense", "sparse"}, "one entry for each of 3 layers"},
                       {"mlp_layer_types", {"dense", "moe", "sparse"}, "dense or sparse"},
                       {"first_k_dense_replace", 1, "the dense layers of mlp_layer_types"},
                       {"partial_rotary_factor", 0.5, "1"},
                       {"n_group", 3, "a divisor of 8"},
                       {"scoring_func", "softmax", "sigmoid"}});
}

namespace {

nlohmann::json sparseConfig(const char *modelType, const char *className) {
  nlohmann::json config = latentConfig(modelType, className);
  config.update({{"num_hidden_layers", 4},
                 {"q_lora_rank", 7},
                 {"index_n_heads", 2},
                 {"index_head_dim", 6},
                 {"index_topk", 9}});
  return config;
}

} // namespace

TEST_CASE("GLM-5 chooses the tokens to attend to in some layers, which others share") {
  nlohmann::json config = sparseConfig("glm_moe_dsa", "GlmMoeDsaForCausalLM");
  config.update({{"index_topk_freq", 2}, {"index_skip_topk_offset", 1}});
  const auto indexed = [](const nlohmann::json &of) {
    std::string found;
    for (const LayerDescription &layer : describe(of).layers) {
      CHECK(layer.latentAttention->indexer.has_value() != layer.latentAttention->sharesChoice);
      found += layer.latentAttention->indexer ? 'F' : 'S';
    }
    return found;
  };
  CHECK(indexed(config) == "FSFS");
  const ModelDescription model = describe(config);
  const moec::IndexerDescription &indexer = *model.layers[2].latentAttention->indexer;
  CHECK(indexer.most == 9);
  CHECK(indexer.heads == 2);
  CHECK(indexer.query.weight.tensor == "model.layers.2.self_attn.indexer.wq_b.weight");
  CHECK(indexer.query.weight.rows == 12);
  CHECK(indexer.query.weight.cols == 7);
  CHECK(indexer.keyNorm->kind == moec::NormKind::kLayer);
  CHECK(indexer.rope == 0);
  CHECK(model.ropes.size() == 1);
  config["index_topk_pattern"] = "FSSF";
  CHECK(indexed(config) == "FSSF");
  nlohmann::json types = config;
  types["indexer_types"] = {"full", "full", "full", "shared"};
  CHECK(indexed(types) == "FFFS");
  config.erase("index_topk_pattern");
  config["index_topk_freq"] = 1;
  CHECK(indexed(config) == "FFFF");
  checkRefused(config, {{"index_topk", 0, "an integer from 1"},
                        {"index_n_heads", 0, "an integer from 1"},
                        {"index_head_dim", 3, "at least qk_rope_head_dim, 4"},
                        {"index_topk_pattern", "FSF", "F or S for each of 4 layers"},
                        {"index_topk_pattern", "FSXF", "F or S for each of 4 layers"},
                        {"index_topk_pattern", "SFFF", "a first layer with an indexer"},
                        {"indexer_types", {"full", "none", "full", "full"}, "full or shared"},
                        {"indexer_types", {"full"}, "one entry for each of 4 layers"},
                        {"indexer_types", {"shared", "full", "full", "full"}, "a first layer"},
                        {"indexer_rope_interleave", false, "true"},
                        {"num_experts", 4, "n_routed_experts, 8"},
                        {"q_lora_rank", nullptr, "an integer"}});
}

TEST_CASE("DeepSeek-V3.2's indexers rotate the halves of a head, its attention neighbours") {
  nlohmann::json config = sparseConfig("deepseek_v32", "DeepseekV32ForCausalLM");
  const ModelDescription model = describe(config);
  REQUIRE(model.ropes.size() == 2);
  CHECK(model.ropes[0].style == moec::RopeStyle::kInterleaved);
  CHECK(model.ropes[1].style == moec::RopeStyle::kHalf);
  CHECK(model.ropes[0].inverseFrequencies == model.ropes[1].inverseFrequencies);
  for (const LayerDescription &layer : model.layers)
    CHECK(layer.latentAttention->indexer->rope == 1);
  CHECK(model.layers[0].dense.has_value());
  config["mlp_layer_types"] = {"sparse", "dense", "sparse", "sparse"};
  config.erase("first_k_dense_replace");
  CHECK(describe(config).layers[0].moe.has_value());
  checkRefused(config, {{"first_k_dense_replace", 1, "the dense layers of mlp_layer_types"},
                        {"index_head_dim", 2, "at least qk_rope_head_dim, 4"},
                        {"scoring_func", "softmax", "sigmoid"}});
}
