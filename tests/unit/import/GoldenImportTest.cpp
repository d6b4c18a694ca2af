// Facts about every checked-in checkpoint: the meaning of its config, and the location of its
// weights.
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/TensorCheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using moec::ImportedModel;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

ImportedModel importCase(const std::string &name) {
  auto result = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/" + name);
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

} // namespace

TEST_CASE("a sharded Mixtral has a routed network with renormalized top-2 in every layer") {
  const ModelDescription model = importCase("golden/mixtral").description;
  CHECK(model.modelType == "mixtral");
  CHECK(model.vocabularySize == 384);
  CHECK(model.hiddenSize == 64);
  CHECK(model.maxPositions == 32768);
  CHECK(model.bosToken == 1);
  CHECK(model.eosTokens == std::vector<int32_t>{2});
  CHECK_FALSE(model.tiedHead);
  REQUIRE(model.layers.size() == 2);
  for (const LayerDescription &layer : model.layers) {
    CHECK_FALSE(layer.dense.has_value());
    REQUIRE(layer.moe.has_value());
    CHECK(layer.moe->experts.size() == 8);
    CHECK(layer.moe->router.topK == 2);
    CHECK(layer.moe->router.renormalize);
    CHECK_FALSE(layer.moe->shared.has_value());
    CHECK(layer.attention.heads == 4);
    CHECK(layer.attention.kvHeads == 2);
    CHECK(layer.attention.headDim == 16);
    CHECK(layer.attention.scale == 0.25f);
    CHECK(layer.attention.window == 0);
    CHECK_FALSE(layer.attention.query.bias.has_value());
  }
}

TEST_CASE("Mixtral's w1 is the gate, w3 is up and w2 is down") {
  const ModelDescription model = importCase("golden/mixtral").description;
  const moec::GluDescription &expert = model.layers[1].moe->experts[5];
  const std::string prefix = "model.layers.1.block_sparse_moe.experts.5.";
  CHECK(expert.gate.weight.tensor == prefix + "w1.weight");
  CHECK(expert.up.weight.tensor == prefix + "w3.weight");
  CHECK(expert.down.weight.tensor == prefix + "w2.weight");
  CHECK(expert.gate.weight.rows == 96);
  CHECK(expert.down.weight.rows == 64);
}

TEST_CASE("Mixtral's sliding window applies when it is not null") {
  const ModelDescription model = importCase("golden/mixtral_swa").description;
  for (const LayerDescription &layer : model.layers)
    CHECK(layer.attention.window == 9);
}

TEST_CASE("a tied head is the embedding") {
  const ModelDescription model = importCase("golden/mixtral_tied").description;
  CHECK(model.tiedHead);
  CHECK(model.head.weight.tensor == "model.embed_tokens.weight");
  CHECK(model.layers.size() == 3);
  CHECK(model.layers[0].moe->experts.size() == 6);
}

TEST_CASE("an explicit head_dim need not be hidden_size divided by heads") {
  const ModelDescription model = importCase("golden/mixtral_llama3").description;
  const moec::AttentionDescription &attention = model.layers[0].attention;
  CHECK(attention.headDim == 32);
  CHECK(attention.query.weight.rows == 128);
  CHECK(attention.output.weight.cols == 128);
  CHECK(model.ropes[0].inverseFrequencies.size() == 16);
}

TEST_CASE("Qwen2-MoE has biases, a gated shared expert and weights that are not renormalized") {
  const ModelDescription model = importCase("golden/qwen2_moe").description;
  REQUIRE(model.layers.size() == 2);
  for (const LayerDescription &layer : model.layers) {
    REQUIRE(layer.moe.has_value());
    CHECK(layer.moe->experts.size() == 12);
    CHECK(layer.moe->router.topK == 3);
    CHECK_FALSE(layer.moe->router.renormalize);
    REQUIRE(layer.moe->shared.has_value());
    CHECK(layer.moe->shared->network.gate.weight.rows == 96);
    REQUIRE(layer.moe->shared->gate.has_value());
    CHECK(layer.moe->shared->gate->weight.rows == 1);
    CHECK(layer.attention.query.bias.has_value());
    CHECK(layer.attention.key.bias.has_value());
    CHECK(layer.attention.value.bias.has_value());
    CHECK_FALSE(layer.attention.output.bias.has_value());
  }
}

TEST_CASE("Qwen2-MoE ignores sliding_window while use_sliding_window is false") {
  const ModelDescription model = importCase("golden/qwen2_moe").description;
  for (const LayerDescription &layer : model.layers)
    CHECK(layer.attention.window == 0);
}

TEST_CASE("decoder_sparse_step and mlp_only_layers make layers dense") {
  const ImportedModel imported = importCase("golden/qwen2_moe_sparse_step");
  const std::vector<LayerDescription> &layers = imported.description.layers;
  REQUIRE(layers.size() == 4);
  for (const size_t dense : {0u, 2u, 3u}) {
    CHECK_FALSE(layers[dense].moe.has_value());
    REQUIRE(layers[dense].dense.has_value());
    CHECK(layers[dense].dense->gate.weight.rows == 96);
  }
  CHECK(layers[1].moe.has_value());
  CHECK_FALSE(layers[1].dense.has_value());
}

TEST_CASE("the bundled model is a tied Qwen2-MoE with a tokenizer") {
  const ImportedModel imported = importCase("pocket-moe");
  CHECK(imported.description.modelType == "qwen2_moe");
  CHECK(imported.description.layers.size() == 10);
  CHECK(imported.description.layers[9].moe->experts.size() == 32);
  CHECK(imported.description.tiedHead);
  CHECK(imported.description.eosTokens == std::vector<int32_t>{0});
  REQUIRE(imported.checkpoint.tokenizerPath().has_value());
  CHECK(imported.checkpoint.tokenizerPath()->ends_with("/tokenizer.json"));
}

TEST_CASE("every weight is visited once, the forward pass in order, a tied head twice") {
  const ModelDescription model = importCase("golden/mixtral_tied").description;
  std::vector<std::string> names;
  moec::forEachWeight(model,
                      [&](const moec::WeightSource &source) { names.push_back(source.tensor); });
  CHECK(names.size() == 1 + 3 * (2 + 4 + 1 + 6 * 3) + 1 + 1);
  CHECK(names.front() == "model.embed_tokens.weight");
  CHECK(names.back() == "model.embed_tokens.weight");
  CHECK(names[1] == "model.layers.0.input_layernorm.weight");
}

TEST_CASE("both uses of a latent together give the shape of the matrix that holds them") {
  const std::string directory = std::string(MOE_TEST_DATA_DIR) + "/golden/deepseek_v2_lite";
  auto checkpoint = moec::Checkpoint::open(directory);
  REQUIRE(checkpoint.isOk());
  ModelDescription model = importCase("golden/deepseek_v2_lite").description;
  CHECK(moec::checkTensors(*checkpoint, model).isOk());
  moec::LatentAttentionDescription &attention = model.layers[1].latentAttention.value();
  attention.keyUp.rows = 5 * 32; // Five heads of a latent of 32, with keys of 24 and values of 20.
  attention.valueUp.rows = 5 * 20;
  attention.keyUp.blocks = attention.valueUp.blocks = 5;
  std::string message(moec::checkTensors(*checkpoint, model).message());
  CHECK(message.find("\"model.layers.1.self_attn.kv_b_proj.weight\": found shape [176, 32], "
                     "expected [220, 32]") != std::string::npos);
  attention.valueUp.cols = 33;
  message = moec::checkTensors(*checkpoint, model).message();
  CHECK(message.find("parts of different layouts") != std::string::npos);
}

TEST_CASE("gpt-oss's fused tensors have the shapes of both of their uses") {
  auto checkpoint = moec::Checkpoint::open(std::string(MOE_TEST_DATA_DIR) + "/golden/gpt_oss");
  REQUIRE(checkpoint.isOk());
  ModelDescription model = importCase("golden/gpt_oss").description;
  moec::MoeDescription &moe = *model.layers[0].moe;
  CHECK(moec::checkTensors(*checkpoint, model).isOk());
  // Element i of expert e's bias of up is element 2i + 1 of row e of the tensor.
  std::vector<float> all(12 * 64), row(64);
  REQUIRE(checkpoint->readRows(*moe.upBias, 0, 1, all).isOk());
  moec::WeightSource own = *moe.upBias;
  own.stackedVectors = 0;
  own.cols = 64;
  own.index = 7;
  REQUIRE(checkpoint->readRows(own, 0, 1, row).isOk());
  CHECK(std::equal(row.begin(), row.end(), all.begin() + 7 * 64));
  // The tensor must have a row for each expert.
  moe.gateBias->stackedVectors = moe.upBias->stackedVectors = 6;
  const std::string message(moec::checkTensors(*checkpoint, model).message());
  CHECK(message.find("found shape [12, 128], expected [6, 256]") != std::string::npos);
}

TEST_CASE("the parts of a Qwen3.5-MoE that are not its text are ignored without a warning") {
  std::string warning;
  const auto model = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/qwen3_5_moe",
                                            [&](std::string_view line) { warning += line; });
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  CHECK(warning == "");
  CHECK(model->checkpoint.has("mtp.fc.weight"));
  CHECK(model->description.layers[0].moe->experts[3].down.weight.index == 3);
}
