// What the config of Gemma 4 means, nested and flat, with its refused values.
#include "compiler/import/Architecture.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/TensorCheck.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

using moec::LayerDescription;
using moec::ModelDescription;

namespace {

/// Two layers of width 8 with two heads: of 4 with a window, of 6 with one key in the full layer.
nlohmann::json textConfig() {
  return {{"model_type", "gemma4_text"},
          {"hidden_size", 8},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 2},
          {"head_dim", 4},
          {"global_head_dim", 6},
          {"num_global_key_value_heads", 1},
          {"attention_k_eq_v", true},
          {"layer_types", {"sliding_attention", "full_attention"}},
          {"sliding_window", 5},
          {"vocab_size", 16},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-6},
          {"intermediate_size", 6},
          {"enable_moe_block", true},
          {"num_experts", 4},
          {"top_k_experts", 2},
          {"moe_intermediate_size", 3},
          {"hidden_activation", "gelu_pytorch_tanh"},
          {"hidden_size_per_layer_input", 0},
          {"num_kv_shared_layers", 0},
          {"final_logit_softcapping", 30.0},
          {"eos_token_id", 1},
          {"bos_token_id", 2},
          {"rope_parameters",
           {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
            {"full_attention",
             {{"rope_type", "proportional"},
              {"rope_theta", 1000000.0},
              {"partial_rotary_factor", 0.5}}}}}};
}

nlohmann::json nested(const nlohmann::json &text) {
  return {{"model_type", "gemma4"},
          {"architectures", {"Gemma4ForConditionalGeneration"}},
          {"eos_token_id", {1, 10}},
          {"text_config", text},
          {"vision_config", {{"hidden_size", 4}}}};
}

moert::Result<ModelDescription> tryDescribe(const nlohmann::json &json) {
  const auto config = moec::Config::parse("config.json", json.dump());
  REQUIRE(config.isOk());
  return moec::describeModel(
      {config->root(), std::nullopt, [](std::string_view) { return false; }});
}

ModelDescription describe(const nlohmann::json &json) {
  auto result = tryDescribe(json);
  REQUIRE_MESSAGE(result.isOk(), result.status().message());
  return std::move(result).value();
}

void checkRefused(const nlohmann::json &config, const std::string &key,
                  const std::string &expected) {
  CAPTURE(key);
  const moert::Status status = tryDescribe(nested(config)).status();
  CHECK(status.code() == moert::StatusCode::kInvalidInput);
  const std::string message(status.message());
  CAPTURE(message);
  CHECK(message.find("config.json: key 'text_config." + key) != std::string::npos);
  CHECK(message.find(expected) != std::string::npos);
}

} // namespace

TEST_CASE("Gemma 4's layers with a window have heads, keys and a rotation of their own") {
  const ModelDescription model = describe(nested(textConfig()));
  const moec::AttentionDescription &window = model.layers[0].attention,
                                   &full = model.layers[1].attention;
  CHECK(window.window == 5);
  CHECK(window.headDim == 4);
  CHECK(window.kvHeads == 2);
  CHECK_FALSE(window.valuesAreKeys);
  CHECK(window.value.weight.rows == 8);
  CHECK(full.window == 0);
  CHECK(full.headDim == 6);
  CHECK(full.valueHeadDim == 6);
  CHECK(full.kvHeads == 1);
  CHECK(full.valuesAreKeys);
  CHECK(full.query.weight.rows == 12);
  CHECK(full.key.weight.rows == 6);
  CHECK(full.output.weight.cols == 12);
  CHECK(full.queryNorm->weight.cols == 6);
  for (const moec::AttentionDescription *attention : {&window, &full}) {
    CHECK(attention->scale == 1);
    CHECK(attention->valueNorm == 1e-6f);
  }
  REQUIRE(model.ropes.size() == 2);
  CHECK(model.ropes[window.rope.value()].inverseFrequencies == std::vector<float>{1, 0.01f});
  // 0.5 * 3 pairs of a full head rotate, rounded down.
  CHECK(model.ropes[full.rope.value()].inverseFrequencies == std::vector<float>{1, 0, 0});
}

TEST_CASE(
    "without attention_k_eq_v full layers have values of their own and as many keys as others") {
  nlohmann::json config = textConfig();
  config["attention_k_eq_v"] = false;
  const ModelDescription model = describe(nested(config));
  const moec::AttentionDescription &full = model.layers[1].attention;
  CHECK_FALSE(full.valuesAreKeys);
  CHECK(full.kvHeads == 2);
  CHECK(full.value.weight.rows == 12);
}

TEST_CASE("Gemma 4's dense network and experts are side by side, each between norms") {
  const ModelDescription model = describe(nested(textConfig()));
  const std::string prefix = "model.language_model.layers.1.";
  const LayerDescription &layer = model.layers[1];
  CHECK(layer.attentionOutputNorm->weight.tensor == prefix + "post_attention_layernorm.weight");
  CHECK_FALSE(layer.networkNorm.has_value());
  CHECK(layer.networkOutputNorm->weight.tensor == prefix + "post_feedforward_layernorm.weight");
  CHECK(layer.outputScale->tensor == prefix + "layer_scalar");
  const moec::MoeDescription &moe = layer.moe.value();
  CHECK(moe.inputNorm->weight.tensor == prefix + "pre_feedforward_layernorm_2.weight");
  CHECK(moe.outputNorm->weight.tensor == prefix + "post_feedforward_layernorm_2.weight");
  CHECK(moe.experts[3].up.weight.firstRow == 3);
  CHECK(moe.experts[3].down.weight.index == 3u);
  CHECK(moe.experts[3].activation.kind == moert::Activation::kGeluTanh);
  CHECK(moe.shared->inputNorm->weight.tensor == prefix + "pre_feedforward_layernorm.weight");
  CHECK(moe.shared->outputNorm->weight.tensor == prefix + "post_feedforward_layernorm_1.weight");
  CHECK(moe.shared->network.gate.weight.rows == 6);
  CHECK(moe.shared->network.activation.kind == moert::Activation::kGeluTanh);
  CHECK(moe.router.inputNorm->weight.tensor == prefix + "router.scale");
  CHECK(moe.router.inputScale == static_cast<float>(1 / std::sqrt(8.0)));
  CHECK(moe.router.weightFactors->tensor == prefix + "router.per_expert_scale");
  CHECK(moe.router.renormalize);
}

TEST_CASE("Gemma 4 scales the embedding, caps the logits and ends where the outer config says") {
  const ModelDescription model = describe(nested(textConfig()));
  CHECK(model.embeddingScale == static_cast<float>(std::sqrt(8.0)));
  CHECK(model.logitsSoftCap == 30.0f);
  CHECK(model.tiedHead);
  CHECK(model.eosTokens == std::vector<int32_t>{1, 10});
  CHECK(model.bosToken == 2);
  CHECK(model.embedding.tensor == "model.language_model.embed_tokens.weight");
  CHECK(model.finalNorm.weight.tensor == "model.language_model.norm.weight");
  CHECK(model.otherParts.front() == "model.vision_tower.");
  nlohmann::json config = textConfig();
  config["final_logit_softcapping"] = nullptr;
  CHECK_FALSE(describe(nested(config)).logitsSoftCap.has_value());
}

TEST_CASE("Gemma 4's text alone has a flat config and shorter names") {
  nlohmann::json config = textConfig();
  config["architectures"] = {"Gemma4ForCausalLM"};
  const ModelDescription model = describe(config);
  CHECK(model.embedding.tensor == "model.embed_tokens.weight");
  CHECK(model.layers[0].moe->router.linear.weight.tensor == "model.layers.0.router.proj.weight");
  CHECK(model.otherParts.empty());
  CHECK(model.eosTokens == std::vector<int32_t>{1});
}

TEST_CASE("Gemma 4's per_layer_config replaces the keys of full layers") {
  nlohmann::json config = textConfig();
  config.erase("global_head_dim");
  config.erase("num_global_key_value_heads");
  for (const char *number : {"1", "01", "000000001"}) {
    CAPTURE(number);
    config["per_layer_config"] = {{number, {{"head_dim", 6}, {"num_key_value_heads", 1}}}};
    for (const nlohmann::json &whole : {nested(config), config}) {
      const ModelDescription model = describe(whole);
      CHECK(model.layers[0].attention.headDim == 4);
      CHECK(model.layers[1].attention.headDim == 6);
      CHECK(model.layers[1].attention.kvHeads == 1);
      CHECK(model.ropes[1].inverseFrequencies.size() == 3);
    }
  }
  for (const nlohmann::json &none : {nlohmann::json::object(), nlohmann::json()}) {
    config["per_layer_config"] = none; // All layers are alike, whatever the other keys say.
    config["global_head_dim"] = 6;
    CHECK(describe(config).layers[1].attention.headDim == 4);
    CHECK(describe(config).layers[1].attention.kvHeads == 2);
  }
  const auto refused = [&](const nlohmann::json &entries, const char *expected) {
    config["per_layer_config"] = entries;
    const std::string message(tryDescribe(config).status().message());
    CHECK_MESSAGE(message.find("key 'per_layer_config") != std::string::npos, message);
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
  };
  refused({{"2", {{"head_dim", 6}}}}, "a layer's number below 2");
  refused({{"1", {{"head_dim", 6}}}, {"01", {{"head_dim", 6}}}}, "each once");
  refused({{"-1", {{"head_dim", 6}}}}, "a layer's number below 2");
  refused({{"1", {{"intermediate_size", 6}}}}, "only head_dim and num_key_value_heads");
  refused({{"1", {{"head_dim", 5}}}}, "an even width");
  refused({{"1", 6}}, "an object");
  config["num_hidden_layers"] = 3;
  config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  refused({{"1", {{"head_dim", 6}}}}, "the same heads for all layers of a type");
}

TEST_CASE("Gemma 4's keys that its class has defaults for may be missing") {
  nlohmann::json config = textConfig();
  for (const char *key : {"global_head_dim", "layer_types", "sliding_window", "rope_parameters",
                          "attention_k_eq_v", "num_global_key_value_heads"})
    config.erase(key);
  config["num_hidden_layers"] = 8;
  const ModelDescription model = describe(config);
  for (size_t layer = 0; layer < 8; ++layer)
    CHECK(model.layers[layer].attention.window == (layer == 5 || layer == 7 ? 0 : 512));
  CHECK(model.layers[5].attention.headDim == 512);
  CHECK_FALSE(model.layers[5].attention.valuesAreKeys);
  CHECK(model.ropes[0].inverseFrequencies[1] == 0.01f);
  const std::vector<float> &full = model.ropes[1].inverseFrequencies;
  CHECK(full[63] != 0); // A quarter of 256 pairs.
  CHECK(full[64] == 0);
}

TEST_CASE("other sizes of Gemma 4 and values that do not fit are refused") {
  struct BrokenValue {
    const char *key;
    nlohmann::json value;
    const char *expected;
  };
  const BrokenValue rows[] = {
      {"enable_moe_block", false, "true: models without routed experts"},
      {"enable_moe_block", nullptr, "true or false"},
      {"hidden_size_per_layer_input", 256, "expected 0"},
      {"num_kv_shared_layers", 1, "expected 0"},
      {"use_double_wide_mlp", true, "false"},
      {"attention_bias", true, "false"},
      {"use_bidirectional_attention", "all", "\"vision\" or null"},
      {"layer_types", {"full_attention"}, "one entry for each of 2 layers"},
      {"layer_types", {"sliding_attention", "linear_attention"}, "sliding_attention or full"},
      {"sliding_window", 0, "an integer from 1"},
      {"global_head_dim", 5, "an even width"},
      {"global_head_dim", nullptr, "an integer from 2"},
      {"num_global_key_value_heads", 3, "a divisor of num_attention_heads, 2"},
      {"hidden_activation", "silu", "gelu_pytorch_tanh"},
      {"top_k_experts", 5, "an integer from 1 to 4"},
      {"final_logit_softcapping", 0, "a number from"},
      {"model_type", "gemma3_text", "\"gemma4_text\""},
  };
  for (const BrokenValue &row : rows) {
    nlohmann::json config = textConfig();
    config[row.key] = row.value;
    checkRefused(config, row.key, row.expected);
  }
  nlohmann::json config = textConfig();
  config["rope_parameters"].erase("full_attention");
  checkRefused(config, "rope_parameters.full_attention", "expected");
  config = textConfig();
  config["rope_parameters"]["sliding_attention"]["partial_rotary_factor"] = 0.5;
  checkRefused(config, "rope_parameters.sliding_attention.partial_rotary_factor", "expected 1");
  config = textConfig();
  config["rope_parameters"]["full_attention"] = {{"rope_type", "longrope"}, {"rope_theta", 1e6}};
  checkRefused(config, "rope_parameters.full_attention.rope_type", "default, linear, llama3");
  config["rope_parameters"]["full_attention"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"rope_theta", 1e6}};
  describe(config);
  config["rope_parameters"]["full_attention"]["truncate"] = false;
  checkRefused(config, "rope_parameters.full_attention.truncate", "expected true");
  config = textConfig();
  for (const nlohmann::json &direction : {nlohmann::json(), nlohmann::json("vision")}) {
    config["use_bidirectional_attention"] = direction;
    describe(config);
  }
  CHECK(tryDescribe({{"model_type", "gemma4"}}).status().message().find("text_config") !=
        std::string::npos);
}

TEST_CASE("tensors of images are not counted as unused, others are") {
  std::vector<std::string> lines;
  const auto imported =
      moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/gemma4",
                             [&](std::string_view line) { lines.emplace_back(line); });
  REQUIRE_MESSAGE(imported.isOk(), imported.status().message());
  CHECK(lines.empty());
  ModelDescription model = imported->description;
  CHECK(moec::unusedTensors(imported->checkpoint, model).empty());
  model.otherParts = {"model.embed_vision."};
  CHECK(moec::unusedTensors(imported->checkpoint, model) ==
        std::vector<std::string_view>{"model.vision_tower.patch_embedder.input_proj.weight"});
}
