// Accepted configs and their meaning. BrokenCheckpointTest.cpp has the refused ones.
#include "compiler/import/Architecture.h"

#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using moec::ModelDescription;

namespace {

ModelDescription describe(const TestCheckpoint &checkpoint) {
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  auto result = moec::importCheckpoint(directory.path());
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value().description;
}

/// Without tensors, whatever the number of layers.
ModelDescription describeConfig(const nlohmann::json &json) {
  const auto config = moec::Config::parse("config.json", json.dump());
  REQUIRE(config.isOk());
  auto result =
      moec::describeModel({config->root(), std::nullopt, [](std::string_view) { return false; }});
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

std::vector<uint32_t> windows(const ModelDescription &model) {
  std::vector<uint32_t> result;
  for (const moec::LayerDescription &layer : model.layers)
    result.push_back(layer.attention.window);
  return result;
}

} // namespace

TEST_CASE("supported families are listed in order") {
  const auto families = moec::supportedFamilies();
  CHECK(families.size() >= 2);
  CHECK(std::is_sorted(families.begin(), families.end(),
                       [](const auto &a, const auto &b) { return a.modelType < b.modelType; }));
}

TEST_CASE("a config without `architectures` is identified by its model_type") {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.config.erase("architectures");
  CHECK(describe(checkpoint).modelType == "mixtral");
}

TEST_CASE("keys with a class default may be missing") {
  nlohmann::json config = tinyQwen2Moe().config;
  for (const char *key :
       {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size", "use_sliding_window", "hidden_act", "torch_dtype"})
    config.erase(key);
  const ModelDescription model = describeConfig(config);
  const moec::MoeDescription &moe = model.layers[0].moe.value();
  CHECK(moe.experts.size() == 60);
  CHECK(moe.router.topK == 4);
  CHECK(moe.experts[0].gate.weight.rows == 1408);
  CHECK(moe.shared->network.gate.weight.rows == 5632);
  CHECK_FALSE(moe.router.renormalize);
  CHECK(model.layers[0].attention.query.bias.has_value());
}

TEST_CASE("norm_topk_prob renormalizes") {
  TestCheckpoint checkpoint = tinyQwen2Moe();
  checkpoint.config["norm_topk_prob"] = true;
  CHECK(describe(checkpoint).layers[0].moe->router.renormalize);
}

TEST_CASE("qkv_bias false removes the biases") {
  TestCheckpoint checkpoint = tinyQwen2Moe();
  checkpoint.config["qkv_bias"] = false;
  for (const char *name : {"q_proj.bias", "k_proj.bias", "v_proj.bias"})
    checkpoint.remove(std::string("model.layers.0.self_attn.") + name);
  CHECK_FALSE(describe(checkpoint).layers[0].attention.query.bias.has_value());
}

TEST_CASE("num_key_value_heads null means one per head") {
  nlohmann::json config = tinyMixtral().config;
  config["num_key_value_heads"] = nullptr;
  CHECK(describeConfig(config).layers[0].attention.kvHeads == 2);
}

TEST_CASE("the scale of the scores is headDim^-0.5") {
  nlohmann::json config = tinyMixtral().config;
  config["head_dim"] = 10;
  CHECK(describeConfig(config).layers[0].attention.scale ==
        static_cast<float>(1 / std::sqrt(10.0)));
}

TEST_CASE("a config as transformers 5 writes it is read") {
  TestCheckpoint checkpoint = tinyQwen2Moe();
  nlohmann::json &config = checkpoint.config;
  config.erase("rope_theta");
  config.erase("torch_dtype");
  config.erase("num_experts");
  config["rope_parameters"] = {{"rope_theta", 1e4}, {"rope_type", "default"}};
  config["dtype"] = "bfloat16";
  config["num_local_experts"] = 2;
  config["layer_types"] = {"full_attention"};
  const ModelDescription model = describe(checkpoint);
  CHECK(model.layers[0].moe->experts.size() == 2);
  CHECK(model.ropes[0].inverseFrequencies == describe(tinyQwen2Moe()).ropes[0].inverseFrequencies);
}

TEST_CASE("Qwen2-MoE with windows slides in every other layer below max_window_layers") {
  nlohmann::json config = tinyQwen2Moe().config;
  config["num_hidden_layers"] = 6;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 4;
  CHECK(windows(describeConfig(config)) == std::vector<uint32_t>{32, 0, 32, 0, 0, 0});
}

TEST_CASE("layer_types select Qwen2-MoE's sliding layers") {
  nlohmann::json config = tinyQwen2Moe().config;
  config["num_hidden_layers"] = 3;
  config["use_sliding_window"] = true;
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  CHECK(windows(describeConfig(config)) == std::vector<uint32_t>{0, 32, 0});
}

TEST_CASE("end tokens come from generation_config.json, then config.json:") {
  TestCheckpoint checkpoint = tinyMixtral();
  std::vector<int32_t> expected;
  SUBCASE("one") {
    checkpoint.generationConfig = {{"eos_token_id", 5}};
    expected = {5, 2};
  }
  SUBCASE("a list") {
    checkpoint.generationConfig["eos_token_id"] = {7, 2, 3};
    expected = {7, 2, 3};
  }
  SUBCASE("null leaves config.json's") {
    checkpoint.generationConfig["eos_token_id"] = nullptr;
    expected = {2};
  }
  SUBCASE("missing leaves config.json's") {
    checkpoint.generationConfig = nlohmann::json::object();
    expected = {2};
  }
  SUBCASE("none anywhere") {
    checkpoint.config["eos_token_id"] = nullptr;
    expected = {};
  }
  CHECK(describe(checkpoint).eosTokens == expected);
}

TEST_CASE("the begin token comes from config.json, generation_config.json or the class") {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.generationConfig = {{"bos_token_id", 9}};
  CHECK(describe(checkpoint).bosToken == 1);
  checkpoint.config.erase("bos_token_id");
  CHECK(describe(checkpoint).bosToken == 9);
  checkpoint.generationConfig = nullptr;
  CHECK(describe(checkpoint).bosToken == 1);
  checkpoint.config["bos_token_id"] = nullptr;
  CHECK_FALSE(describe(checkpoint).bosToken.has_value());
}
