// What the configs of the families mean, each with its refused values; DeepSeekTest.cpp has those
// with DeepSeek's keys. GoldenImportTest.cpp has whole checkpoints; BrokenConfigTest.cpp has the
// keys that all families share.
#include "tests/unit/import/FamilyConfig.h"

#include <cmath>
#include <string>
#include <vector>

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

nlohmann::json olmoeConfig() {
  nlohmann::json config = decoderConfig("olmoe", "OlmoeForCausalLM");
  config["num_experts"] = 4;
  return config;
}

nlohmann::json flexOlmoConfig() {
  nlohmann::json config = decoderConfig("flex_olmo", "FlexOlmoForCausalLM");
  config["num_experts"] = 4;
  config["num_experts_per_tok"] = 3;
  return config;
}

nlohmann::json graniteConfig() {
  nlohmann::json config = decoderConfig("granitemoe", "GraniteMoeForCausalLM");
  config["num_local_experts"] = 4;
  config["embedding_multiplier"] = 12;
  config["attention_multiplier"] = 0.015625;
  config["residual_multiplier"] = 0.22;
  config["logits_scaling"] = 6.0;
  config["tie_word_embeddings"] = true;
  return config;
}

nlohmann::json miniCpmConfig() {
  nlohmann::json config = decoderConfig("minicpm", "MiniCPMForCausalLM");
  config["num_experts"] = 4;
  config["scale_emb"] = 12;
  config["scale_depth"] = 1.4;
  config["dim_model_base"] = 2;
  config.erase("rope_theta");
  return config;
}

} // namespace

TEST_CASE("Qwen3-MoE has norms per head, no biases and no shared expert") {
  const ModelDescription model = describe(qwen3Config());
  for (const LayerDescription &layer : model.layers) {
    REQUIRE(layer.attention.queryNorm.has_value());
    CHECK(layer.attention.queryNorm->weight.cols == 6);
    CHECK(layer.attention.keyNorm->weight.cols == 6);
    CHECK_FALSE(layer.attention.query.bias.has_value());
    REQUIRE(layer.moe.has_value());
    CHECK(layer.moe->router.renormalize);
    CHECK(layer.moe->experts[3].down.weight.tensor ==
          (&layer == &model.layers[0] ? "model.layers.0.mlp.experts.3.down_proj.weight"
                                      : "model.layers.1.mlp.experts.3.down_proj.weight"));
    CHECK_FALSE(layer.moe->shared.has_value());
  }
}

TEST_CASE("Qwen3-MoE's window is that of all layers, and only if it is in use") {
  nlohmann::json config = qwen3Config();
  config["sliding_window"] = 5;
  CHECK(describe(config).layers[0].attention.window == 0);
  config["use_sliding_window"] = true;
  for (const LayerDescription &layer : describe(config).layers)
    CHECK(layer.attention.window == 5);
  config["sliding_window"] = nullptr;
  CHECK(describe(config).layers[0].attention.window == 0);
}

TEST_CASE("Qwen3-MoE's mlp_only_layers are dense") {
  nlohmann::json config = qwen3Config();
  config["mlp_only_layers"] = {0};
  const ModelDescription model = describe(config);
  REQUIRE(model.layers[0].dense.has_value());
  CHECK(model.layers[0].dense->gate.weight.rows == 6);
  CHECK(model.layers[1].moe.has_value());
}

TEST_CASE("Qwen3-MoE with wrong values is refused") {
  checkRefused(qwen3Config(), {{"num_experts", 0, "an integer from 1"},
                               {"num_experts_per_tok", 5, "an integer from 1 to 4"},
                               {"moe_intermediate_size", "3", "an integer"},
                               {"mlp_bias", true, "false"},
                               {"norm_topk_prob", 1, "true or false"},
                               {"mlp_only_layers", {-1}, ""}});
}

TEST_CASE("OLMoE's norms are of the whole projections, and clip_qkv clamps") {
  const ModelDescription model = describe(olmoeConfig());
  const moec::AttentionDescription &attention = model.layers[1].attention;
  CHECK(attention.queryNorm->weight.cols == 8);
  CHECK(attention.keyNorm->weight.cols == 4);
  CHECK_FALSE(attention.clip.has_value());
  CHECK(model.layers[1].moe->experts[0].gate.weight.rows == 6);
  CHECK_FALSE(model.layers[1].moe->router.renormalize);
  nlohmann::json clipped = olmoeConfig();
  clipped["clip_qkv"] = 1.5;
  CHECK(describe(clipped).layers[0].attention.clip == 1.5f);
}

TEST_CASE("OLMoE with wrong values is refused") {
  checkRefused(olmoeConfig(), {{"num_experts", 65537, "an integer from 1 to 65536"},
                               {"num_experts_per_tok", 0, "an integer from 1 to 4"},
                               {"intermediate_size", -1, "an integer from 1"},
                               {"clip_qkv", -1, "a number"},
                               {"mlp_bias", true, "false"}});
}

TEST_CASE("FlexOlmo has norms after attention and network only") {
  const ModelDescription model = describe(flexOlmoConfig());
  for (const LayerDescription &layer : model.layers) {
    CHECK_FALSE(layer.attentionNorm.has_value());
    CHECK_FALSE(layer.networkNorm.has_value());
    CHECK(layer.moe->router.topK == 3);
    CHECK_FALSE(layer.moe->router.renormalize);
  }
  CHECK(model.layers[1].attentionOutputNorm->weight.tensor ==
        "model.layers.1.post_attention_layernorm.weight");
  CHECK(model.layers[1].networkOutputNorm->weight.tensor ==
        "model.layers.1.post_feedforward_layernorm.weight");
}

TEST_CASE("FlexOlmo with wrong values is refused") {
  checkRefused(flexOlmoConfig(), {{"num_experts", 65537, "an integer from 1 to 65536"},
                                  {"num_experts_per_tok", 5, "an integer from 1 to 4"},
                                  {"intermediate_size", 0, "an integer from 1"},
                                  {"lm_head_bias", true, "false"},
                                  {"hidden_act", "gelu", "silu"}});
}

TEST_CASE("Granite-MoE's multipliers scale embedding, scores, branches and logits") {
  const ModelDescription model = describe(graniteConfig());
  CHECK(model.embeddingScale == 12);
  CHECK(model.residualScale == 0.22f);
  CHECK(model.logitsScale == static_cast<float>(1 / 6.0));
  CHECK(model.tiedHead);
  for (const LayerDescription &layer : model.layers) {
    CHECK(layer.attention.scale == 0.015625f);
    CHECK(layer.moe->router.renormalize);
  }
}

TEST_CASE("Granite-MoE's experts are fused, gate before up") {
  const ModelDescription model = describe(graniteConfig());
  const moec::GluDescription &expert = model.layers[1].moe->experts[2];
  const std::string module = "model.layers.1.block_sparse_moe.";
  CHECK(expert.gate.weight.tensor == module + "input_linear.weight");
  CHECK(expert.gate.weight.index == 2u);
  CHECK(expert.gate.weight.firstRow == 0);
  CHECK(expert.up.weight.tensor == module + "input_linear.weight");
  CHECK(expert.up.weight.firstRow == 6);
  CHECK(expert.down.weight.tensor == module + "output_linear.weight");
  CHECK(model.layers[1].moe->router.linear.weight.tensor == module + "router.layer.weight");
}

TEST_CASE("Granite-MoE with wrong values is refused") {
  checkRefused(graniteConfig(), {{"num_local_experts", 0, "an integer from 1"},
                                 {"num_experts_per_tok", 9, "an integer from 1 to 4"},
                                 {"logits_scaling", 0, "a number"},
                                 {"residual_multiplier", "0.22", "a number"},
                                 {"embedding_multiplier", 1e9, "a number"}});
}

TEST_CASE("MiniCPM-MoE's factors follow from depth and width, and its head is tied by default") {
  const ModelDescription model = describe(miniCpmConfig());
  CHECK(model.embeddingScale == 12);
  CHECK(model.residualScale == static_cast<float>(1.4 / std::sqrt(2.0)));
  CHECK(model.logitsScale == 0.25f);
  CHECK(model.tiedHead);
  CHECK(model.ropes[0].inverseFrequencies[1] == 0.01f); // theta 10000, head of 4.
  CHECK(model.layers[0].moe->router.renormalize);
  CHECK(model.layers[0].moe->experts[1].up.weight.tensor ==
        "model.layers.0.mlp.experts.1.w3.weight");
}

TEST_CASE("MiniCPM-MoE with wrong values, and its dense models, are refused") {
  checkRefused(miniCpmConfig(), {{"num_experts", 0, "an integer from 1"},
                                 {"num_experts_per_tok", 5, "an integer from 1 to 4"},
                                 {"scale_depth", nullptr, "a number"},
                                 {"dim_model_base", 0, "an integer from 1"},
                                 {"scale_emb", 0, "a number"}});
  nlohmann::json dense = miniCpmConfig();
  dense.erase("num_experts");
  CHECK(tryDescribe(dense).status().code() == moert::StatusCode::kInvalidInput);
  nlohmann::json single = miniCpmConfig();
  single["num_experts"] = 1;
  single.erase("num_experts_per_tok"); // The default is 2.
  CHECK(tryDescribe(single).status().message().find("at most num_experts") != std::string::npos);
}

TEST_CASE("ERNIE-4.5 rotates neighbours and chooses by softmax and bias") {
  nlohmann::json config = decoderConfig("ernie4_5_moe", "Ernie4_5_MoeForCausalLM");
  config.erase("num_experts_per_tok");
  config["moe_num_experts"] = 8;
  config["moe_k"] = 2;
  config["moe_intermediate_size"] = 3;
  config["moe_num_shared_experts"] = 2;
  config["moe_layer_start_index"] = 1;
  const ModelDescription model = describe(config);
  CHECK(model.ropes[0].style == moec::RopeStyle::kInterleaved);
  CHECK(model.layers[0].dense.has_value());
  const moec::MoeDescription &moe = model.layers[1].moe.value();
  CHECK(moe.router.choiceBias->tensor == "model.layers.1.mlp.moe_statics.e_score_correction_bias");
  CHECK(moe.router.scoring == moec::RouterScoring::kSoftmaxThenTopK);
  CHECK(moe.router.renormalize);
  CHECK(moe.shared->network.gate.weight.rows == 6);
  checkRefused(config, {{"moe_norm_min", 0.5, "1e-12"},
                        {"moe_k", 9, "an integer from 1 to 8"},
                        {"moe_layer_interval", 0, "an integer from 1"},
                        {"moe_layer_end_index", -2, "a number"},
                        {"moe_num_shared_experts", 5000, "an integer"}});
}

TEST_CASE("MiniMax-M2 normalizes whole projections and rotates rotary_dim elements") {
  nlohmann::json config = decoderConfig("minimax_m2", "MiniMaxM2ForCausalLM");
  config["num_local_experts"] = 8;
  config["head_dim"] = 4;
  config["rotary_dim"] = 2;
  const ModelDescription model = describe(config);
  CHECK(model.ropes[0].inverseFrequencies.size() == 1);
  CHECK(model.layers[0].attention.queryNorm->weight.cols == 8);
  CHECK(model.layers[0].moe->router.choiceBias->tensor ==
        "model.layers.0.block_sparse_moe.e_score_correction_bias");
  CHECK(model.layers[0].moe->router.groups == 1);
  checkRefused(config, {{"rotary_dim", 3, "an even number"},
                        {"rotary_dim", 6, "an integer from 2 to 4"},
                        {"num_local_experts", 0, "an integer from 1"},
                        {"num_experts_per_tok", 9, "an integer from 1 to 8"},
                        {"sliding_window", 5, "null"}});
}

static nlohmann::json hunyuanConfig() {
  nlohmann::json config = decoderConfig("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM");
  config.erase("num_experts_per_tok");
  config["num_experts"] = 4;
  config["moe_topk"] = {3, 2};
  config["moe_intermediate_size"] = {6, 6};
  config["num_shared_expert"] = {1, 1};
  config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 100.0}};
  return config;
}

TEST_CASE("Hunyuan normalizes heads after a rotation whose theta alpha multiplies") {
  const ModelDescription model = describe(hunyuanConfig());
  // A head of 4 rotates with theta^-(2/4): theta is 1e4 * 100^(4/2) = 1e8.
  CHECK(model.ropes[0].inverseFrequencies[1] == 1e-4f);
  const moec::AttentionDescription &attention = model.layers[1].attention;
  CHECK(attention.normsAfterRope);
  CHECK(attention.queryNorm->weight.tensor == "model.layers.1.self_attn.query_layernorm.weight");
  CHECK(attention.keyNorm->weight.tensor == "model.layers.1.self_attn.key_layernorm.weight");
  CHECK(attention.keyNorm->weight.cols == 4);
  CHECK_FALSE(attention.output.bias.has_value());
  nlohmann::json biased = hunyuanConfig();
  biased["attention_bias"] = true;
  CHECK(describe(biased).layers[1].attention.output.bias->tensor ==
        "model.layers.1.self_attn.o_proj.bias");
}

TEST_CASE("Hunyuan chooses moe_topk experts in each layer, beside a shared network") {
  const ModelDescription model = describe(hunyuanConfig());
  CHECK(model.layers[0].moe->router.topK == 3);
  const moec::MoeDescription &moe = model.layers[1].moe.value();
  CHECK(moe.router.topK == 2);
  CHECK(moe.router.renormalize);
  CHECK(moe.router.linear.weight.tensor == "model.layers.1.mlp.gate.wg.weight");
  CHECK(moe.experts[3].up.weight.rows == 6);
  CHECK(moe.shared->network.up.weight.tensor == "model.layers.1.mlp.shared_mlp.up_proj.weight");
  CHECK_FALSE(moe.shared->gate.has_value());
  nlohmann::json single = hunyuanConfig();
  single["moe_topk"] = 4;
  for (const LayerDescription &layer : describe(single).layers)
    CHECK(layer.moe->router.topK == 4);
}

TEST_CASE("Hunyuan with wrong values is refused") {
  checkRefused(hunyuanConfig(), {{"num_experts", {4, 4}, "an integer from 1"},
                                 {"moe_topk", 5, "an integer from 1 to 4"},
                                 {"moe_topk", {2, 5}, "an integer from 1 to 4"},
                                 {"moe_topk", {2}, "one for each of 2 layers"},
                                 {"moe_topk", nullptr, "an integer from 1 to 4"},
                                 {"moe_intermediate_size", {6, 7}, "6 for every layer"},
                                 {"num_shared_expert", 2, "expected 1"},
                                 {"attention_head_dim", 8, "the same as head_dim"},
                                 {"moe_layer_num_skipped", 1, "expected 0"},
                                 {"routed_scaling_factor", 2.5, "expected 1.0"},
                                 {"use_qk_norm", false, "true"},
                                 {"use_mixed_mlp_moe", false, "true"},
                                 {"norm_topk_prob", false, "true"},
                                 {"use_cla", true, "false"},
                                 {"use_mla", true, "false"}});
  for (const auto &[name, value] :
       {std::pair{"num_local_experts", 5}, {"num_experts_per_tok", 2}}) {
    nlohmann::json config = hunyuanConfig();
    config[name] = value;
    CHECK(tryDescribe(config).status().message().find(std::string("the same as ") + name) !=
          std::string::npos);
  }
  nlohmann::json dynamic = hunyuanConfig();
  dynamic["rope_scaling"].erase("alpha");
  CHECK(tryDescribe(dynamic).status().message().find("dynamic with alpha") != std::string::npos);
}

//===-- Phi-3.5-MoE -------------------------------------------------------------------------===//

static nlohmann::json phiMoeConfig() {
  nlohmann::json config = decoderConfig("phimoe", "PhiMoEForCausalLM");
  config["num_local_experts"] = 4;
  config["attention_bias"] = true;
  config["lm_head_bias"] = true;
  config["router_jitter_noise"] = 0.25;
  config["sliding_window"] = 64;
  config["rope_scaling"] = {{"type", "longrope"},        {"short_factor", {1.0, 2.0}},
                            {"long_factor", {4.0, 8.0}}, {"short_mscale", 1.25},
                            {"long_mscale", 1.5},        {"original_max_position_embeddings", 32}};
  return config;
}

TEST_CASE("PhiMoE has layer norms, biases, Sparsemixer and two rotations") {
  const ModelDescription model = describe(phiMoeConfig());
  const LayerDescription &layer = model.layers[1];
  for (const moec::NormDescription *norm :
       {&*layer.attentionNorm, &*layer.networkNorm, &model.finalNorm}) {
    CHECK(norm->kind == moec::NormKind::kLayer);
    CHECK(norm->bias->cols == 8);
  }
  CHECK(layer.attention.output.bias->tensor == "model.layers.1.self_attn.o_proj.bias");
  CHECK(layer.attention.window == 0); // As long as the longest sequence.
  CHECK(model.head.bias->tensor == "lm_head.bias");
  CHECK(layer.moe->router.scoring == moec::RouterScoring::kSparsemixer);
  CHECK(layer.moe->router.tolerance == 0.25f);
  CHECK_FALSE(layer.moe->router.renormalize);
  CHECK(layer.moe->experts[3].up.weight.tensor ==
        "model.layers.1.block_sparse_moe.experts.3.w3.weight");
  const moec::RopeDescription &rope = model.ropes[0];
  CHECK(rope.originalPositions == 32);
  CHECK(rope.inverseFrequencies == std::vector<float>{1, 0.005f});
  CHECK(rope.longInverseFrequencies == std::vector<float>{0.25f, 0.00125f});
  CHECK(rope.attentionFactor == 1.25f);
  CHECK(rope.longAttentionFactor == 1.5f);
}

TEST_CASE("PhiMoE without the flags of biases has none, and a short window is one") {
  nlohmann::json config = phiMoeConfig();
  config.erase("attention_bias");
  config.erase("lm_head_bias");
  config["sliding_window"] = 16;
  const ModelDescription model = describe(config);
  CHECK_FALSE(model.layers[0].attention.query.bias.has_value());
  CHECK_FALSE(model.head.bias.has_value());
  CHECK(model.layers[0].attention.window == 16);
}

TEST_CASE("PhiMoE with wrong values is refused") {
  checkRefused(phiMoeConfig(), {{"num_local_experts", 1, "an integer from 2"},
                                {"num_experts_per_tok", 1, "2: Sparsemixer chooses two experts"},
                                {"router_jitter_noise", -0.5, "a number from 0"},
                                {"attention_bias", 1, "true or false"},
                                {"lm_head_bias", "true", "true or false"},
                                {"sliding_window", 0, "an integer from 1"}});
  const auto refusedRope = [](const char *key, const nlohmann::json &value) {
    nlohmann::json config = phiMoeConfig();
    config["rope_scaling"][key] = value;
    return std::string(tryDescribe(config).status().message());
  };
  const auto has = [](const std::string &text, const char *part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refusedRope("short_factor", {1.0}),
      "'rope_scaling.short_factor': found [1.0], expected a list of 2 numbers");
  has(refusedRope("long_factor", {1.0, 0}), "'rope_scaling.long_factor'");
  has(refusedRope("long_factor", 3), "a list of numbers");
  has(refusedRope("long_mscale", nullptr), "'rope_scaling.long_mscale'");
  has(refusedRope("original_max_position_embeddings", 0), "an integer from 1");
  nlohmann::json twoLengths = phiMoeConfig();
  twoLengths["original_max_position_embeddings"] = 16;
  has(std::string(tryDescribe(twoLengths).status().message()), "the same as outside of it, 16");
}

//===-- Llama-4 ------------------------------------------------------------------------------===//

static nlohmann::json llama4TextConfig() {
  nlohmann::json config = decoderConfig("llama4_text", "Llama4ForCausalLM");
  config["num_hidden_layers"] = 4;
  config["num_local_experts"] = 4;
  config["num_experts_per_tok"] = 1;
  config["intermediate_size_mlp"] = 10;
  config["interleave_moe_layer_step"] = 2;
  config["head_dim"] = 4;
  config["attention_chunk_size"] = 16;
  config["attn_temperature_tuning"] = 4;
  config["floor_scale"] = 32;
  return config;
}

TEST_CASE("Llama-4 rotates neighbours and attends in chunks, except in every fourth layer") {
  const ModelDescription model = describe(llama4TextConfig());
  CHECK(model.ropes[0].style == moec::RopeStyle::kInterleaved);
  for (size_t l = 0; l < 3; ++l) {
    const moec::AttentionDescription &attention = model.layers[l].attention;
    CHECK(attention.rope == 0);
    CHECK(attention.chunked);
    CHECK(attention.window == 16);
    CHECK(attention.plainNormEpsilon == 1e-6f);
    CHECK_FALSE(attention.queryScale.has_value());
  }
  const moec::AttentionDescription &last = model.layers[3].attention;
  CHECK_FALSE(last.rope.has_value());
  CHECK_FALSE(last.chunked);
  CHECK(last.window == 0);
  CHECK_FALSE(last.plainNormEpsilon.has_value());
  CHECK(last.queryScale->scale == 0.1f);
  CHECK(last.queryScale->period == 32);
}

TEST_CASE(
    "Llama-4's router scales the input of one expert, stored transposed, beside a shared one") {
  const ModelDescription model = describe(llama4TextConfig());
  CHECK(model.layers[0].dense->up.weight.rows == 10);
  CHECK(model.layers[2].dense->up.weight.tensor == "model.layers.2.feed_forward.up_proj.weight");
  const moec::MoeDescription &moe = model.layers[1].moe.value();
  CHECK(moe.scalesInputs);
  CHECK(moe.router.scoring == moec::RouterScoring::kTopKThenSigmoid);
  CHECK(moe.router.linear.weight.tensor == "model.layers.1.feed_forward.router.weight");
  CHECK(moe.shared->network.gate.weight.rows == 6);
  const moec::WeightSource &up = moe.experts[3].up.weight;
  CHECK(up.tensor == "model.layers.1.feed_forward.experts.gate_up_proj");
  CHECK(up.transposed);
  CHECK(up.index == 3);
  CHECK(up.firstRow == 6);
  CHECK(moe.experts[3].down.weight.transposed);
}

TEST_CASE("Llama-4's lists of layers and its flags decide") {
  nlohmann::json config = llama4TextConfig();
  config["no_rope_layers"] = {0, 1, 1, 1};
  config["moe_layers"] = {0, 3};
  config["attn_temperature_tuning"] = false;
  config["use_qk_norm"] = false;
  config["attention_chunk_size"] = nullptr;
  const ModelDescription model = describe(config);
  CHECK_FALSE(model.layers[0].attention.rope.has_value());
  CHECK_FALSE(model.layers[0].attention.queryScale.has_value());
  CHECK(model.layers[3].attention.rope == 0);
  CHECK_FALSE(model.layers[3].attention.plainNormEpsilon.has_value());
  CHECK_FALSE(model.layers[3].attention.chunked);
  CHECK(model.layers[0].moe.has_value());
  CHECK(model.layers[1].dense.has_value());
}

TEST_CASE("Llama-4's whole config names the text model's tensors after it") {
  nlohmann::json config = {{"model_type", "llama4"},
                           {"architectures", {"Llama4ForConditionalGeneration"}},
                           {"text_config", llama4TextConfig()},
                           {"vision_config", {{"hidden_size", 5}}}};
  config["text_config"].erase("architectures");
  const ModelDescription model = describe(config);
  CHECK(model.modelType == "llama4_text");
  CHECK(model.embedding.tensor == "language_model.model.embed_tokens.weight");
  CHECK(model.finalNorm.weight.tensor == "language_model.model.norm.weight");
  CHECK(model.head.weight.tensor == "language_model.lm_head.weight");
  CHECK(model.layers[1].attentionNorm->weight.tensor ==
        "language_model.model.layers.1.input_layernorm.weight");
  config["text_config"]["num_experts_per_tok"] = 2;
  const std::string message(tryDescribe(config).status().message());
  CHECK(message.find("key 'text_config.num_experts_per_tok'") != std::string::npos);
  config.erase("text_config");
  CHECK(tryDescribe(config).status().message().find("key 'text_config'") != std::string::npos);
}

TEST_CASE("Llama-4 with wrong values is refused") {
  checkRefused(llama4TextConfig(),
               {{"num_experts_per_tok", 2, "1: the router scales the input"},
                {"num_local_experts", 0, "an integer from 1"},
                {"no_rope_layers", {1, 0}, "a list of at least num_hidden_layers numbers, 4"},
                {"no_rope_layers", {1, 0, -1, 1}, "an integer from 0"},
                {"no_rope_layer_interval", 0, "an integer from 1"},
                {"layer_types", {"chunked_attention"}, "one entry for each of 4 layers"},
                {"moe_layers", {-4}, "an integer from 0"},
                {"interleave_moe_layer_step", 0, "an integer from 1"},
                {"attention_chunk_size", 0, "an integer from 1"},
                {"attn_temperature_tuning", "yes", "true or false"},
                {"floor_scale", 0, "an integer from 1"},
                {"intermediate_size_mlp", nullptr, "an integer from 1"},
                {"mlp_bias", true, "false"}});
}
