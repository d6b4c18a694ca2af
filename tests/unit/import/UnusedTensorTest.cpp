// Stored tensors that the description does not use: refused, except those that change nothing.
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

using moert::Status;

namespace {

const std::string kHead = "lm_head.weight", kEmbedding = "model.embed_tokens.weight";

TestCheckpoint with(std::vector<TestTensor> added) {
  TestCheckpoint files = tinyMixtral();
  for (TestTensor &tensor : added)
    files.shards["model.safetensors"].push_back(std::move(tensor));
  return files;
}

TestTensor zeros(std::string name, std::vector<uint64_t> shape) {
  TestTensor tensor = testTensor(std::move(name), "BF16", std::move(shape));
  tensor.bytes.assign(tensor.bytes.size(), 0);
  return tensor;
}

/// tinyMixtral with its head in FP8.
TestCheckpoint quantized() {
  TestCheckpoint files = tinyMixtral();
  files.config["quantization_config"] = {{"quant_method", "fp8"}};
  files.tensor(kHead) = byteTensor(kHead, "F8_E4M3", {16, 8}, someCodes(16, 8, 0x70).values);
  files.shards["model.safetensors"].push_back(floatTensor(kHead + "_scale", {}, {0.5f}));
  return files;
}

} // namespace

TEST_CASE("an unused tensor is refused with the first name, the number and what helps") {
  const TestCheckpoint files =
      with({testTensor("model.layers.1.input_layernorm.weight", "BF16", {8}),
            testTensor("model.layers.2.input_layernorm.weight", "BF16", {8})});
  checkRefused(importStatus(files),
               {"found tensor \"model.layers.1.input_layernorm.weight\" and 1 more of 18, which",
                "Compare config.json with the one that the model was published with"});
  checkRefused(importStatus(with({testTensor("score.weight", "BF16", {2, 8})})),
               {"found tensor \"score.weight\", which the model that config.json describes"});
}

TEST_CASE("an unused tensor that only a shard has, not the index, is refused too") {
  TestCheckpoint files = with({testTensor("extra.weight", "BF16", {8})});
  files.split();
  files.index["weight_map"].erase("extra.weight");
  checkRefused(importStatus(files), {"found tensor \"extra.weight\""});
}

TEST_CASE("a missing tensor is reported with the unused ones") {
  TestCheckpoint files = tinyMixtral();
  files.tensor("model.norm.weight").name = "model.final_layernorm.weight";
  checkRefused(importStatus(files), {"found no tensor \"model.norm.weight\"",
                                     "does not use tensor \"model.final_layernorm.weight\""});
  files.tensor("model.final_layernorm.weight").name = "model.layers.0.mlp.switch_mlp.up.weight";
  checkRefused(importStatus(files),
               {"as MLX names them: use the checkpoint that it was converted"});
}

TEST_CASE("buffers of rotations are ignored") {
  CHECK(importStatus(with({testTensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {2}),
                           testTensor("model.rotary_emb.cos_cached", "F32", {64, 4})}))
            .message() == "");
  checkRefused(importStatus(with({testTensor("model.layers.0.inv_freq", "F32", {2})})),
               {"model.layers.0.inv_freq"});
}

TEST_CASE("a layer past the last one is ignored if it predicts further tokens") {
  const TestTensor norm = testTensor("model.layers.1.enorm.weight", "BF16", {8});
  CHECK(importStatus(with({norm, testTensor("model.layers.1.eh_proj.weight", "BF16", {8, 16})}))
            .message() == "");
  checkRefused(importStatus(with({norm})), {"model.layers.1.enorm.weight"});
  // In a layer that the config describes, eh_proj is unknown.
  checkRefused(importStatus(with({testTensor("model.layers.0.eh_proj.weight", "BF16", {8, 16})})),
               {"model.layers.0.eh_proj.weight"});
}

TEST_CASE("a bias of zeros beside a weight is ignored, as some quantizers store it") {
  const std::string bias = "model.layers.0.self_attn.q_proj.bias";
  CHECK(importStatus(with({zeros(bias, {8})})).message() == "");
  checkRefused(importStatus(with({testTensor(bias, "BF16", {8})})), {bias});
  checkRefused(importStatus(with({zeros("other.bias", {8})})), {"other.bias"});
}

TEST_CASE("the stored copy of a tied head is ignored") {
  TestCheckpoint files = tinyMixtral();
  files.config["tie_word_embeddings"] = true;
  files.tensor(kHead).bytes = files.tensor(kEmbedding).bytes;
  CHECK(importStatus(files).message() == "");
}

TEST_CASE("scales of activations and caches are ignored if weights are quantized") {
  const TestTensor scale = floatTensor("model.layers.0.self_attn.k_scale", {}, {1});
  TestCheckpoint files = quantized();
  files.shards["model.safetensors"].push_back(scale);
  files.shards["model.safetensors"].push_back(floatTensor("lm_head.input_scale", {}, {1}));
  CHECK(importStatus(files).message() == "");
  checkRefused(importStatus(with({scale})), {"model.layers.0.self_attn.k_scale"});
  files.shards["model.safetensors"].push_back(floatTensor("lm_head.pre_quant_scale", {2}, {8, 1}));
  checkRefused(importStatus(files), {"lm_head.pre_quant_scale"});
}
