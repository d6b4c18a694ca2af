// What the configs of the families with recurrent layers mean, each with its refused values.
#include "compiler/import/Architecture.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using moec::LayerDescription;
using moec::ModelDescription;
using moec::WeightSource;

namespace {

/// Four layers of width 32, of which the last has attention: 2 heads of 8, a quarter of each
/// rotated. Delta nets of 2 key heads of 8 and 4 heads of 6.
nlohmann::json qwen3NextConfig() {
  return {{"model_type", "qwen3_next"},
          {"architectures", {"Qwen3NextForCausalLM"}},
          {"hidden_size", 32},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 8},
          {"vocab_size", 16},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"eos_token_id", 2},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 4},
          {"linear_key_head_dim", 8},
          {"linear_value_head_dim", 6},
          {"linear_conv_kernel_dim", 4},
          {"num_experts", 4},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 3},
          {"shared_expert_intermediate_size", 5}};
}

nlohmann::json qwen35Config() {
  nlohmann::json text = qwen3NextConfig();
  text.erase("architectures");
  text.erase("rope_theta");
  text["model_type"] = "qwen3_5_moe_text";
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", 1e7},
                             {"partial_rotary_factor", 0.5},
                             {"mrope_interleaved", true},
                             {"mrope_section", {2, 1, 1}}};
  return {{"model_type", "qwen3_5_moe"},
          {"architectures", {"Qwen3_5MoeForConditionalGeneration"}},
          {"tie_word_embeddings", false},
          {"vision_config", {{"model_type", "qwen3_5_moe"}}},
          {"text_config", text}};
}

nlohmann::json lfm2Config() {
  return {{"model_type", "lfm2_moe"},   {"architectures", {"Lfm2MoeForCausalLM"}},
          {"hidden_size", 16},          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},   {"num_key_value_heads", 2},
          {"vocab_size", 16},           {"max_position_embeddings", 64},
          {"norm_eps", 1e-5},           {"rope_theta", 1e6},
          {"eos_token_id", 2},          {"layer_types", {"conv", "conv", "full_attention"}},
          {"conv_L_cache", 3},          {"conv_bias", false},
          {"num_dense_layers", 1},      {"intermediate_size", 6},
          {"moe_intermediate_size", 3}, {"num_experts", 4},
          {"num_experts_per_tok", 2},   {"routed_scaling_factor", 1.5},
          {"tie_embedding", true}};
}

/// With a checkpoint that holds one tensor, or none.
moert::Result<ModelDescription> tryDescribe(const nlohmann::json &json,
                                            std::string_view held = "") {
  const auto config = moec::Config::parse("config.json", json.dump());
  REQUIRE(config.isOk());
  return moec::describeModel(
      {config->root(), std::nullopt, [&](std::string_view tensor) { return tensor == held; }});
}

ModelDescription describe(const nlohmann::json &json, std::string_view held = "") {
  auto result = tryDescribe(json, held);
  REQUIRE_MESSAGE(result.isOk(), result.status().message());
  return std::move(result).value();
}

/// One wrong value, and what the message has to contain.
struct BrokenValue {
  const char *key;
  nlohmann::json value;
  const char *expected;
};

/// Each of the values refused alone, where `holder` names the object that has the key ("" or
/// "text_config").
void checkRefused(const nlohmann::json &whole, const std::vector<BrokenValue> &values,
                  const std::string &holder = "") {
  for (const BrokenValue &broken : values) {
    CAPTURE(broken.key);
    nlohmann::json config = whole;
    (holder.empty() ? config : config[holder])[broken.key] = broken.value;
    const auto result = tryDescribe(config);
    REQUIRE_FALSE(result.isOk());
    const std::string &message = result.status().message();
    CHECK_MESSAGE(message.find(broken.key) != std::string::npos, message);
    CHECK_MESSAGE(message.find(broken.expected) != std::string::npos, message);
  }
}

void checkPart(const WeightSource &part, const char *tensor, uint32_t rows, uint32_t firstRow,
               uint32_t blocks = 1, uint32_t blockStep = 0) {
  CHECK(part.tensor == tensor);
  CHECK(part.rows == rows);
  CHECK(part.firstRow == firstRow);
  CHECK(part.blocks == blocks);
  CHECK(part.blockStep == blockStep);
}

} // namespace

TEST_CASE("Qwen3-Next's fused projections are divided key head by key head") {
  const ModelDescription model = describe(qwen3NextConfig());
  REQUIRE(model.layers.size() == 4);
  const moec::DeltaNetDescription &net = model.layers[2].deltaNet.value();
  CHECK(net.keyHeads == 2);
  CHECK(net.heads == 4);
  CHECK(net.lengthEpsilon == 1e-6f);
  // Per key head 8 + 8 + 12 + 12 rows.
  const char *const qkvz = "model.layers.2.linear_attn.in_proj_qkvz.weight";
  checkPart(net.query.linear.weight, qkvz, 16, 0, 2, 40);
  checkPart(net.key.linear.weight, qkvz, 16, 8, 2, 40);
  checkPart(net.value.linear.weight, qkvz, 24, 16, 2, 40);
  checkPart(net.gate.weight, qkvz, 24, 28, 2, 40);
  const char *const ba = "model.layers.2.linear_attn.in_proj_ba.weight";
  checkPart(net.write.weight, ba, 4, 0, 2, 4);
  checkPart(net.decay.weight, ba, 4, 2, 2, 4);
  const char *const taps = "model.layers.2.linear_attn.conv1d.weight";
  checkPart(net.query.taps, taps, 16, 0);
  checkPart(net.key.taps, taps, 16, 16);
  checkPart(net.value.taps, taps, 24, 32);
  CHECK(net.value.taps.cols == 4);
  CHECK(net.logRate.tensor == "model.layers.2.linear_attn.A_log");
  CHECK(net.decayBias.tensor == "model.layers.2.linear_attn.dt_bias");
  CHECK(net.outputNorm.weight.cols == 6);
  CHECK(net.output.weight.tensor == "model.layers.2.linear_attn.out_proj.weight");
}

TEST_CASE("Qwen3-Next's attention has a gate, and all norms but the delta nets' add one") {
  const ModelDescription model = describe(qwen3NextConfig());
  CHECK(model.otherParts == std::vector<std::string>{"mtp."});
  CHECK(model.layers[2].deltaNet.has_value());
  const LayerDescription &layer = model.layers[3];
  CHECK_FALSE(layer.deltaNet.has_value());
  const char *const query = "model.layers.3.self_attn.q_proj.weight";
  checkPart(layer.attention.query.weight, query, 16, 0, 2, 16);
  checkPart(layer.attention.gate->weight, query, 16, 8, 2, 16);
  CHECK(model.ropes[0].inverseFrequencies.size() == 1);
  for (const auto *norm : {&layer.attentionNorm, &layer.networkNorm, &layer.attention.queryNorm,
                           &layer.attention.keyNorm})
    CHECK((*norm)->weight.addsOne);
  CHECK(model.finalNorm.weight.addsOne);
  CHECK_FALSE(model.layers[0].deltaNet->outputNorm.weight.addsOne);
  CHECK(layer.moe->router.renormalize);
  CHECK(layer.moe->shared->gate->weight.tensor == "model.layers.3.mlp.shared_expert_gate.weight");
}

TEST_CASE("Qwen3-Next's layers follow the interval or the list, and some may be dense") {
  nlohmann::json config = qwen3NextConfig();
  config["full_attention_interval"] = 2;
  config["norm_topk_prob"] = false;
  config["mlp_only_layers"] = {1};
  config["intermediate_size"] = 7;
  ModelDescription model = describe(config);
  CHECK(model.layers[0].deltaNet.has_value());
  CHECK_FALSE(model.layers[1].deltaNet.has_value());
  CHECK(model.layers[1].dense->gate.weight.rows == 7);
  CHECK_FALSE(model.layers[0].moe->router.renormalize);
  config["layer_types"] = {"full_attention", "full_attention", "linear_attention",
                           "full_attention"};
  model = describe(config);
  CHECK_FALSE(model.layers[0].deltaNet.has_value());
  CHECK(model.layers[2].deltaNet.has_value());
}

TEST_CASE("configs of Qwen3-Next that no model has are refused") {
  checkRefused(qwen3NextConfig(),
               {{"linear_num_value_heads", 3, "a multiple of linear_num_key_heads, 2"},
                {"linear_num_key_heads", 0, "an integer from 1"},
                {"linear_conv_kernel_dim", 1, "an integer from 2 to 64"},
                {"linear_key_head_dim", 7, "at least 16 elements together"},
                {"linear_value_head_dim", 3, "at least 16 elements together"},
                {"layer_types", {"linear_attention"}, "one entry for each of 4 layers"},
                {"layer_types", {"a", "a", "a", "a"}, "linear_attention or full_attention"},
                {"full_attention_interval", 0, "an integer from 1"},
                {"partial_rotary_factor", 0.1, "an even number"},
                {"use_sliding_window", true, "false"},
                {"attention_bias", true, "false"},
                {"shared_expert_intermediate_size", nullptr, "an integer from 1"},
                {"num_experts_per_tok", 5, "an integer from 1 to 4"}});
  nlohmann::json large = qwen3NextConfig();
  large.update({{"linear_key_head_dim", 16384}, {"linear_value_head_dim", 16384}});
  CHECK(tryDescribe(large).status().message().find("have at most 67108864 elements together") !=
        std::string::npos);
}

TEST_CASE("Qwen3.5-MoE has projections of its own and keeps the text's config apart") {
  const nlohmann::json config = qwen35Config();
  const ModelDescription model = describe(config, "model.language_model.embed_tokens.weight");
  CHECK(model.modelType == "qwen3_5_moe");
  CHECK(model.otherParts == std::vector<std::string>{"model.visual.", "mtp."});
  CHECK(model.embedding.tensor == "model.language_model.embed_tokens.weight");
  CHECK(model.finalNorm.weight.tensor == "model.language_model.norm.weight");
  CHECK(model.head.weight.tensor == "lm_head.weight");
  CHECK(model.ropes[0].inverseFrequencies.size() == 2);
  const moec::DeltaNetDescription &net = model.layers[0].deltaNet.value();
  const std::string module = "model.language_model.layers.0.linear_attn.";
  checkPart(net.query.linear.weight, (module + "in_proj_qkv.weight").c_str(), 16, 0);
  checkPart(net.key.linear.weight, (module + "in_proj_qkv.weight").c_str(), 16, 16);
  checkPart(net.value.linear.weight, (module + "in_proj_qkv.weight").c_str(), 24, 32);
  checkPart(net.gate.weight, (module + "in_proj_z.weight").c_str(), 24, 0);
  checkPart(net.write.weight, (module + "in_proj_b.weight").c_str(), 4, 0);
  checkPart(net.decay.weight, (module + "in_proj_a.weight").c_str(), 4, 0);
  CHECK(model.layers[0].moe->router.renormalize);
  CHECK(model.layers[3].attention.gate.has_value());
}

TEST_CASE("Qwen3.5-MoE without a vision tower has a flat config and other names") {
  nlohmann::json config = qwen35Config()["text_config"];
  config["architectures"] = {"Qwen3_5MoeForCausalLM"};
  const ModelDescription model = describe(config, "model.layers.1.mlp.experts.gate_up_proj");
  CHECK(model.modelType == "qwen3_5_moe_text");
  CHECK(model.embedding.tensor == "model.embed_tokens.weight");
  CHECK(model.layers[1].moe->experts[2].up.weight.index == 2);
  CHECK(model.layers[1].moe->experts[2].up.weight.firstRow == 3);
}

TEST_CASE("configs of Qwen3.5-MoE that no model has are refused") {
  checkRefused(qwen35Config(),
               {{"attn_output_gate", false, "true"},
                {"model_type", "qwen3_5_text", "qwen3_5_moe_text"},
                {"linear_num_value_heads", 3, "a multiple"},
                {"num_experts", 0, "an integer from 1"},
                {"hidden_act", "gelu", "silu"},
                {"attention_bias", true, "false"}},
               "text_config");
  checkRefused(qwen35Config(), {{"text_config", 1, "an object"},
                                {"tie_word_embeddings", 1, "true or false"},
                                {"architectures", {"Qwen3_5ForCausalLM"}, "Qwen3_5MoeFor"}});
}

TEST_CASE("LFM2-MoE has short convolutions between two gates") {
  const ModelDescription model = describe(lfm2Config());
  const moec::ShortConvolutionDescription &mixer = model.layers[1].shortConvolution.value();
  const char *const in = "model.layers.1.conv.in_proj.weight";
  checkPart(mixer.before.weight, in, 16, 0);
  checkPart(mixer.after.weight, in, 16, 16);
  checkPart(mixer.value.weight, in, 16, 32);
  checkPart(mixer.taps, "model.layers.1.conv.conv.weight", 16, 0);
  CHECK(mixer.taps.cols == 3);
  CHECK(model.layers[1].attentionNorm->weight.tensor == "model.layers.1.operator_norm.weight");
  CHECK(model.layers[1].networkNorm->weight.tensor == "model.layers.1.ffn_norm.weight");
  CHECK(model.layers[2].attention.output.weight.tensor ==
        "model.layers.2.self_attn.out_proj.weight");
  CHECK(model.layers[2].attention.keyNorm->weight.cols == 4);
  CHECK(model.finalNorm.weight.tensor == "model.embedding_norm.weight");
  CHECK(model.finalNorm.epsilon == 1e-5f);
  CHECK(model.tiedHead);
  CHECK(model.layers[0].dense->up.weight.tensor == "model.layers.0.feed_forward.w3.weight");
  const moec::MoeDescription &moe = model.layers[1].moe.value();
  CHECK(moe.router.scoring == moec::RouterScoring::kSigmoid);
  CHECK(moe.router.choiceBias->tensor == "model.layers.1.feed_forward.expert_bias");
  CHECK(moe.router.weightScale == 1.5f);
  CHECK(moe.router.renormalize);
  nlohmann::json without = lfm2Config();
  without["use_expert_bias"] = false;
  CHECK_FALSE(describe(without).layers[1].moe->router.choiceBias.has_value());
}

TEST_CASE("configs of LFM2-MoE that no model has are refused") {
  checkRefused(lfm2Config(), {{"conv_bias", true, "false"},
                              {"conv_L_cache", 1, "an integer from 2 to 64"},
                              {"layer_types", {"conv"}, "one entry for each of 3 layers"},
                              {"layer_types", {"conv", "conv", "mamba"}, "conv or full_attention"},
                              {"num_dense_layers", 4, "an integer from 0 to 3"},
                              {"norm_eps", nullptr, "a number"},
                              {"hidden_size", 8, "at least 16"},
                              {"num_experts_per_tok", 5, "an integer from 1 to 4"}});
}
