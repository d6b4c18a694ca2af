#include "tests/unit/import/TestCheckpoint.h"

#include "compiler/import/ImportCheckpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

using moert::Status;

TestTensor testTensor(std::string name, std::string type, std::vector<uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape)
    count *= size;
  TestTensor tensor{std::move(name), std::move(type), std::move(shape), {}};
  for (uint64_t i = 0; i < count; ++i) {
    // Element i is a 16-bit word with a moderate exponent, which is valid as BF16, as F16 and as
    // the upper half of an F32.
    const uint16_t bits = static_cast<uint16_t>(0x3c00 + (i * 7 + tensor.name.size()) % 0x180);
    if (tensor.type == "F32")
      tensor.bytes += std::string(2, '\0');
    tensor.bytes += static_cast<char>(bits & 0xff);
    tensor.bytes += static_cast<char>(bits >> 8);
  }
  return tensor;
}

std::string safetensorsBytes(const std::string &header, size_t dataBytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(uint64_t{header.size()} >> (8 * i) & 0xff);
  return bytes + header + std::string(dataBytes, '\0');
}

std::string safetensorsBytes(const std::vector<TestTensor> &tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const TestTensor &tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensorsBytes(header.dump(), 0) + data;
}

TestTensor &TestCheckpoint::tensor(const std::string &name) {
  for (auto &[file, tensors] : shards)
    for (TestTensor &candidate : tensors)
      if (candidate.name == name)
        return candidate;
  FAIL("no tensor " << name);
  std::abort();
}

void TestCheckpoint::remove(const std::string &name) {
  for (auto &[file, tensors] : shards)
    std::erase_if(tensors, [&](const TestTensor &each) { return each.name == name; });
}

void TestCheckpoint::split() {
  const std::vector<TestTensor> all = std::move(shards.at("model.safetensors"));
  shards.clear();
  const std::string names[] = {"model-00001-of-00002.safetensors",
                               "model-00002-of-00002.safetensors"};
  index = {{"metadata", {{"total_size", 1}}}, {"weight_map", nlohmann::json::object()}};
  for (size_t i = 0; i < all.size(); ++i) {
    shards[names[i % 2]].push_back(all[i]);
    index["weight_map"][all[i].name] = names[i % 2];
  }
}

void TestCheckpoint::write(const TemporaryDirectory &directory) const {
  directory.write("config.json", config.dump());
  if (!generationConfig.is_null())
    directory.write("generation_config.json", generationConfig.dump());
  if (!index.is_null())
    directory.write("model.safetensors.index.json", index.dump());
  for (const auto &[file, tensors] : shards)
    directory.write(file, safetensorsBytes(tensors));
  for (const auto &[file, bytes] : raw)
    directory.write(file, bytes);
}

namespace {

void addCommonTensors(std::vector<TestTensor> &tensors) {
  const std::string layer = "model.layers.0.";
  tensors.push_back(testTensor("model.embed_tokens.weight", "BF16", {16, 8}));
  tensors.push_back(testTensor("lm_head.weight", "BF16", {16, 8}));
  tensors.push_back(testTensor("model.norm.weight", "BF16", {8}));
  tensors.push_back(testTensor(layer + "input_layernorm.weight", "BF16", {8}));
  tensors.push_back(testTensor(layer + "post_attention_layernorm.weight", "BF16", {8}));
  tensors.push_back(testTensor(layer + "self_attn.q_proj.weight", "BF16", {8, 8}));
  tensors.push_back(testTensor(layer + "self_attn.k_proj.weight", "BF16", {4, 8}));
  tensors.push_back(testTensor(layer + "self_attn.v_proj.weight", "BF16", {4, 8}));
  tensors.push_back(testTensor(layer + "self_attn.o_proj.weight", "BF16", {8, 8}));
}

nlohmann::json commonConfig() {
  return {{"hidden_size", 8},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"num_experts_per_tok", 1},
          {"vocab_size", 16},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

} // namespace

TestCheckpoint tinyMixtral() {
  TestCheckpoint checkpoint;
  checkpoint.config = commonConfig();
  checkpoint.config["model_type"] = "mixtral";
  checkpoint.config["architectures"] = {"MixtralForCausalLM"};
  checkpoint.config["num_local_experts"] = 2;
  checkpoint.config["intermediate_size"] = 6;
  checkpoint.config["sliding_window"] = nullptr;
  std::vector<TestTensor> &tensors = checkpoint.shards["model.safetensors"];
  addCommonTensors(tensors);
  const std::string module = "model.layers.0.block_sparse_moe.";
  tensors.push_back(testTensor(module + "gate.weight", "BF16", {2, 8}));
  for (const std::string expert : {"0", "1"}) {
    tensors.push_back(testTensor(module + "experts." + expert + ".w1.weight", "BF16", {6, 8}));
    tensors.push_back(testTensor(module + "experts." + expert + ".w2.weight", "BF16", {8, 6}));
    tensors.push_back(testTensor(module + "experts." + expert + ".w3.weight", "BF16", {6, 8}));
  }
  return checkpoint;
}

TestCheckpoint tinyQwen2Moe() {
  TestCheckpoint checkpoint;
  checkpoint.config = commonConfig();
  checkpoint.config["model_type"] = "qwen2_moe";
  checkpoint.config["architectures"] = {"Qwen2MoeForCausalLM"};
  checkpoint.config["num_experts"] = 2;
  checkpoint.config["intermediate_size"] = 6;
  checkpoint.config["moe_intermediate_size"] = 5;
  checkpoint.config["shared_expert_intermediate_size"] = 7;
  checkpoint.config["use_sliding_window"] = false;
  checkpoint.config["sliding_window"] = 32;
  checkpoint.config["max_window_layers"] = 28;
  std::vector<TestTensor> &tensors = checkpoint.shards["model.safetensors"];
  addCommonTensors(tensors);
  const std::string attention = "model.layers.0.self_attn.";
  tensors.push_back(testTensor(attention + "q_proj.bias", "BF16", {8}));
  tensors.push_back(testTensor(attention + "k_proj.bias", "BF16", {4}));
  tensors.push_back(testTensor(attention + "v_proj.bias", "BF16", {4}));
  const std::string module = "model.layers.0.mlp.";
  const auto addNetwork = [&](const std::string &prefix, uint64_t width) {
    tensors.push_back(testTensor(prefix + "gate_proj.weight", "BF16", {width, 8}));
    tensors.push_back(testTensor(prefix + "up_proj.weight", "BF16", {width, 8}));
    tensors.push_back(testTensor(prefix + "down_proj.weight", "BF16", {8, width}));
  };
  tensors.push_back(testTensor(module + "gate.weight", "BF16", {2, 8}));
  addNetwork(module + "experts.0.", 5);
  addNetwork(module + "experts.1.", 5);
  addNetwork(module + "shared_expert.", 7);
  tensors.push_back(testTensor(module + "shared_expert_gate.weight", "BF16", {1, 8}));
  return checkpoint;
}

TestCheckpoint fuseExperts(const TestCheckpoint &checkpoint) {
  TestCheckpoint fused = checkpoint;
  const bool isMixtral = checkpoint.config["model_type"] == "mixtral";
  const std::string module =
      std::string("model.layers.0.") + (isMixtral ? "block_sparse_moe." : "mlp.") + "experts.";
  const std::string gate = isMixtral ? "w1" : "gate_proj", up = isMixtral ? "w3" : "up_proj",
                    down = isMixtral ? "w2" : "down_proj";
  TestTensor gateUp{module + "gate_up_proj", "BF16", {}, {}};
  TestTensor downs{module + "down_proj", "BF16", {}, {}};
  for (const std::string expert : {"0.", "1."}) {
    for (const std::string &part : {gate, up})
      gateUp.bytes += fused.tensor(module + expert + part + ".weight").bytes;
    const TestTensor &downPart = fused.tensor(module + expert + down + ".weight");
    downs.bytes += downPart.bytes;
    downs.shape = {2, downPart.shape[0], downPart.shape[1]};
    gateUp.shape = {2, 2 * downPart.shape[1], downPart.shape[0]};
    for (const std::string &part : {gate, up, down})
      fused.remove(module + expert + part + ".weight");
  }
  fused.shards.at("model.safetensors").push_back(gateUp);
  fused.shards.at("model.safetensors").push_back(downs);
  return fused;
}

Status importStatus(const TestCheckpoint &checkpoint) {
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  return moec::importCheckpoint(directory.path()).status();
}

void checkRefused(const Status &status, const std::vector<std::string> &parts) {
  INFO("message: " << status.message());
  REQUIRE_FALSE(status.isOk());
  CHECK(status.code() == moert::StatusCode::kInvalidInput);
  for (const std::string &part : parts) {
    INFO("looked for: " << part);
    CHECK(status.message().find(part) != std::string::npos);
  }
  CHECK(status.message().find("found") != std::string::npos);
  CHECK(status.message().find("expected") != std::string::npos);
}

void checkBroken(const std::vector<BrokenCheckpoint> &rows, TestCheckpoint (*make)()) {
  for (const BrokenCheckpoint &row : rows) {
    SUBCASE(row.name) {
      TestCheckpoint checkpoint = make();
      row.change(checkpoint);
      checkRefused(importStatus(checkpoint), {row.file, row.fragment});
    }
  }
}
