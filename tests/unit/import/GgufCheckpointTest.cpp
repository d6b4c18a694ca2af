// GGUF files as checkpoints: names, orders of rows and keys are those of the published files.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/TestCheckpoint.h"
#include "tests/unit/import/TestGguf.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <numeric>

using moec::Checkpoint;
using moec::WeightSource;
using Json = nlohmann::json;

namespace {

constexpr uint32_t kHidden = 8;

/// The keys that every family has. Two layers are more than any test reads.
TestGguf withKeys(const std::string &architecture) {
  TestGguf file;
  file.add("general.architecture", architecture.c_str());
  const std::pair<const char *, uint32_t> numbers[] = {
      {"block_count", 1},          {"context_length", 64}, {"embedding_length", kHidden},
      {"attention.head_count", 2}, {"expert_count", 2},    {"expert_used_count", 1},
      {"feed_forward_length", 6},
  };
  for (const auto &[name, value] : numbers)
    file.add(architecture + "." + name, value);
  file.add(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  file.addTensor("token_embd.weight", {16, kHidden});
  return file;
}

/// All tensors of a Mixtral with one layer.
TestGguf tinyLlama() {
  TestGguf file = withKeys("llama");
  for (const char *name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    file.addTensor(name, {kHidden});
  for (const char *name : {"q", "k", "v", "output"})
    file.addTensor(std::string("blk.0.attn_") + name + ".weight", {8, kHidden});
  file.addTensor("blk.0.ffn_gate_inp.weight", {2, kHidden});
  file.addTensor("blk.0.ffn_gate_exps.weight", {2, 6, kHidden});
  file.addTensor("blk.0.ffn_up_exps.weight", {2, 6, kHidden});
  file.addTensor("blk.0.ffn_down_exps.weight", {2, kHidden, 6});
  return file;
}

moert::Status importStatusOf(const TestGguf &file) {
  const TemporaryDirectory directory;
  directory.write("m.gguf", file.bytes());
  return moec::importCheckpoint(directory.path("m.gguf")).status();
}

/// An open file, in a directory of its own.
struct OpenGguf {
  explicit OpenGguf(const TestGguf &file) {
    directory.write("m.gguf", file.bytes());
    auto opened = Checkpoint::open(directory.path("m.gguf"));
    REQUIRE_MESSAGE(opened.isOk(), opened.status().message());
    checkpoint.emplace(std::move(*opened));
  }

  std::vector<float> read(const WeightSource &source) const {
    std::vector<float> values(size_t{source.rows} * source.cols);
    const moert::Status status = checkpoint->readRows(source, 0, source.rows, values);
    REQUIRE_MESSAGE(status.isOk(), status.message());
    return values;
  }

  /// The stored number of each row of a matrix whose tensor has numbers that all differ.
  std::vector<uint32_t> rows(const std::string &name, uint32_t count, uint32_t cols) const {
    WeightSource source;
    source.tensor = name;
    source.rows = count;
    source.cols = cols;
    const std::vector<float> values = read(source);
    std::vector<uint32_t> numbers;
    for (uint32_t row = 0; row < count; ++row)
      numbers.push_back(static_cast<uint32_t>(values[row * cols] * 64) / cols);
    return numbers;
  }

  TemporaryDirectory directory;
  std::optional<Checkpoint> checkpoint;
};

Json configOf(const TestGguf &file) {
  return Json::parse(OpenGguf(file).checkpoint->madeFiles()->config);
}

void replaceKey(TestGguf &file, size_t at, const std::string &name, uint32_t value) {
  file.add(name, value);
  std::swap(file.keys[at], file.keys.back());
  file.keys.pop_back();
}

using Rows = std::vector<uint32_t>;
const std::string kLayer = "model.layers.0.";

} // namespace

TEST_CASE("a file of llama's architecture with experts is a Mixtral") {
  const TemporaryDirectory directory;
  TestGguf file = tinyLlama();
  file.add("tokenizer.ggml.bos_token_id", 1u);
  file.add("tokenizer.ggml.eos_token_id", 2u);
  file.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "<|eot_id|>"});
  directory.write("m.gguf", file.bytes());
  const auto model = moec::importCheckpoint(directory.path("m.gguf"));
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  const moec::ModelDescription &description = model->description;
  CHECK(description.modelType == "mixtral");
  CHECK(description.vocabularySize == 16);
  CHECK(description.tiedHead);
  CHECK(description.eosTokens == std::vector<int32_t>{2, 3});
  CHECK(description.layers[0].moe->experts[1].gate.weight.index == 1u);
  CHECK(model->checkpoint.quantizationText().empty());
}

TEST_CASE("pairs of the rotation become halves of a head") {
  const OpenGguf file(tinyLlama());
  CHECK(file.rows(kLayer + "self_attn.q_proj.weight", 8, kHidden) == Rows{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(file.rows(kLayer + "self_attn.v_proj.weight", 8, kHidden) == Rows{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("gate and up of an expert are one above the other") {
  const OpenGguf file(tinyLlama());
  WeightSource source;
  source.tensor = kLayer + "block_sparse_moe.experts.gate_up_proj";
  source.rows = 12;
  source.cols = kHidden;
  source.index = 1;
  const std::vector<float> values = file.read(source);
  CHECK(values[0] == 49.0f / 64); // The sixth row of gate, the first of expert 1.
  CHECK(values[6 * kHidden] == 49.0f / 64);
  CHECK(values[11 * kHidden + 7] == 96.0f / 64);
}

TEST_CASE("gate and up of gpt-oss alternate, their biases too") {
  TestGguf file = withKeys("gpt-oss");
  file.add("gpt-oss.attention.sliding_window", 8u);
  file.add("gpt-oss.expert_feed_forward_length", 6u);
  file.addTensor("blk.0.ffn_gate_exps.weight", {2, 6, kHidden});
  file.addTensor("blk.0.ffn_up_exps.weight", {2, 6, kHidden});
  file.addTensor("blk.0.ffn_gate_exps.bias", {2, 6});
  file.addTensor("blk.0.ffn_up_exps.bias", {2, 6});
  const OpenGguf open(file);
  WeightSource up;
  up.tensor = kLayer + "mlp.experts.gate_up_proj";
  up.rows = 6;
  up.cols = kHidden;
  up.index = 1;
  up.transposed = true;
  up.firstRow = 1;
  up.rowStep = 2;
  CHECK(open.read(up)[kHidden] == 57.0f / 64); // Row 1 of expert 1: 8 * (6 + 1) + 1.
  WeightSource bias;
  bias.tensor = kLayer + "mlp.experts.gate_up_proj_bias";
  bias.rows = 1;
  bias.cols = 12;
  bias.firstRow = 1;
  bias.rowStep = bias.stackedVectors = 2;
  CHECK(open.read(bias)[7] == 8.0f / 64);
}

TEST_CASE("the two parts of a latent's matrix are joined head by head") {
  TestGguf file = withKeys("deepseek2");
  const std::pair<const char *, uint32_t> numbers[] = {
      {"attention.kv_lora_rank", 5},
      {"attention.key_length_mla", 5},
      {"attention.value_length_mla", 2},
      {"rope.dimension_count", 2},
  };
  for (const auto &[name, value] : numbers)
    file.add(std::string("deepseek2.") + name, value);
  file.addTensor("blk.0.attn_k_b.weight", {2, 5, 3}); // Heads, rank, key part.
  file.addTensor("blk.0.attn_v_b.weight", {2, 2, 5}); // Heads, values, rank.
  const OpenGguf open(file);
  WeightSource source;
  source.tensor = kLayer + "self_attn.kv_b_proj.weight";
  source.rows = 10;
  source.cols = 5;
  const std::vector<float> values = open.read(source);
  const auto at = [&](uint32_t row, uint32_t col) { return values[row * 5 + col] * 64; };
  CHECK(at(0, 0) == 1);
  CHECK(at(2, 4) == 15); // Key element 2 of the latent's element 4: row 4, column 2.
  CHECK(at(3, 0) == 1);
  CHECK(at(5, 1) == 19); // Row 1 of head 1, after 15 numbers and 3.
  CHECK(at(9, 4) == 20);
}

TEST_CASE("the projections of delta nets are in the order of their published tensors") {
  const auto deltaNet = [](const std::string &architecture) {
    TestGguf file = withKeys(architecture);
    const std::pair<const char *, uint32_t> numbers[] = {
        {"ssm.conv_kernel", 4}, {"ssm.state_size", 2},     {"ssm.group_count", 2},
        {"ssm.inner_size", 8},  {"ssm.time_step_rank", 4},
    };
    for (const auto &[name, value] : numbers)
      file.add(architecture + "." + name, value);
    file.addTensor("blk.0.attn_qkv.weight", {16, kHidden}); // 4 queries, 4 keys, 8 values.
    file.addTensor("blk.0.attn_gate.weight", {8, kHidden});
    file.addTensor("blk.0.ssm_out.weight", {kHidden, 8});
    file.addTensor("blk.0.ssm_a", {4}, {-1, -2, -3, -4});
    file.addTensor("blk.0.attn_norm.weight", {kHidden}, std::vector<float>(kHidden, 1.5f));
    return file;
  };
  WeightSource vector;
  vector.rows = 1;
  {
    const OpenGguf open(deltaNet("qwen3next"));
    const Rows found = open.rows(kLayer + "linear_attn.in_proj_qkvz.weight", 24, kHidden);
    CHECK(found == Rows{0, 1, 4, 5, 8,  9,  10, 11, 0, 1, 2, 3,   // Key head 0, then its gates.
                        2, 3, 6, 7, 12, 13, 14, 15, 4, 5, 6, 7}); // Key head 1.
    vector.tensor = kLayer + "input_layernorm.weight";
    vector.cols = kHidden;
    CHECK(open.read(vector)[0] == 0.5f);
  }
  const OpenGguf open(deltaNet("qwen35moe"));
  CHECK(open.rows(kLayer + "linear_attn.in_proj_qkv.weight", 16, kHidden) ==
        Rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15});
  CHECK(open.rows(kLayer + "linear_attn.in_proj_z.weight", 8, kHidden) ==
        Rows{0, 1, 4, 5, 2, 3, 6, 7});
  WeightSource out;
  out.tensor = kLayer + "linear_attn.out_proj.weight";
  out.rows = kHidden;
  out.cols = 8;
  CHECK(open.read(out)[2] == 5.0f / 64); // Head 1 of key head 0 is stored as head 2.
  vector.tensor = kLayer + "linear_attn.A_log";
  vector.cols = 4;
  const std::vector<float> rates = open.read(vector);
  CHECK(rates[1] == doctest::Approx(1.0986123)); // log 3
}

TEST_CASE("a quantized matrix is read as it was before it was quantized, in any rectangle") {
  TestGguf file = tinyLlama();
  std::string block = bytesOf(uint16_t{0x3800}); // 0.5
  for (int i = 0; i < 32; ++i)
    block += static_cast<char>(i - 16);
  file.tensors.push_back({"output.weight", {16, 32}, 8, ""});
  for (int row = 0; row < 16; ++row)
    file.tensors.back().bytes += block;
  const OpenGguf open(file);
  CHECK(open.checkpoint->quantizationText() == "GGUF, Q8_0");
  WeightSource head;
  head.tensor = "lm_head.weight";
  head.rows = 16;
  head.cols = 32;
  CHECK(open.read(head)[33] == -7.5f);
  CHECK(*open.checkpoint->storedType(head) == moec::StoredType::kQ8x0);
  std::vector<std::byte> stored(2 * block.size());
  CHECK(open.checkpoint->readStoredRows(head, 3, 2, stored).isOk());
  CHECK(std::memcmp(stored.data() + block.size(), block.data(), block.size()) == 0);
  head.transposed = true;
  head.rows = 32;
  head.cols = 16;
  CHECK(open.read(head)[16] == -7.5f);
  CHECK(*open.checkpoint->storedType(head) == moec::StoredType::kF32);
}

TEST_CASE("a block that is kept and whose scale is no number is refused by name") {
  TestGguf file = tinyLlama();
  file.tensors.push_back({"output.weight", {16, 32}, 8, std::string(16 * 34, '\0')});
  file.tensors.back().bytes[2 * 34 + 1] = '\x7e';
  const OpenGguf open(file);
  WeightSource head;
  head.tensor = "lm_head.weight";
  head.rows = 16;
  head.cols = 32;
  std::vector<std::byte> stored(16 * 34);
  checkRefused(open.checkpoint->readStoredRows(head, 0, 16, stored),
               {"scale nan at row 2 in block 0"});
}

TEST_CASE("files that are no model of a supported family are refused by name") {
  TestGguf file = withKeys("clip");
  checkRefused(importStatusOf(file), {"m.gguf", "\"clip\"", "one of", "qwen3moe"});
  file = tinyLlama();
  file.add("general.type", "adapter");
  checkRefused(importStatusOf(file), {"\"adapter\"", "expected a model"});
  file = tinyLlama();
  file.keys.erase(file.keys.begin() + 5); // expert_count
  checkRefused(importStatusOf(file), {"\"llama.expert_count\"", "Mixture-of-Experts"});
  file = tinyLlama();
  file.keys.erase(file.keys.begin() + 6); // expert_used_count
  checkRefused(importStatusOf(file), {"\"llama.expert_used_count\"", "no such key"});
  file = tinyLlama();
  file.addTensor("rope_freqs.weight", {3});
  checkRefused(importStatusOf(file), {"divisors", "half of a head's elements; it has 3"});
  file = tinyLlama();
  file.addTensor("rope_freqs.weight", {2});
  file.add("llama.rope.scaling.type", "yarn");
  checkRefused(importStatusOf(file), {"\"llama.rope.scaling.type\"", "none beside"});
  file = tinyLlama();
  file.tensors.pop_back();
  checkRefused(importStatusOf(file), {"down_proj"});
  file = tinyLlama();
  file.tensors[0].type = 26; // I32
  checkRefused(importStatusOf(file), {"\"token_embd.weight\"", "type I32"});
}

TEST_CASE("keys that a family computes without have the values that it computes with") {
  const auto withRouter = [](const std::string &architecture, uint32_t gating) {
    TestGguf file = withKeys(architecture);
    for (const char *key :
         {"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k",
          "attention.kv_lora_rank", "attention.q_lora_rank", "expert_feed_forward_length",
          "expert_group_count", "expert_group_used_count", "expert_shared_count",
          "expert_weights_norm", "expert_weights_scale", "kda.head_dim",
          "leading_dense_block_count", "rope.dimension_count", "shortconv.l_cache",
          "ssm.conv_kernel"})
      file.add(architecture + "." + key, 1u);
    file.add(architecture + ".expert_gating_func", gating);
    return importStatusOf(file);
  };
  for (const std::string name :
       {"dots1", "glm-dsa", "glm4moe", "kimi-linear", "lfm2moe", "minimax-m2"}) {
    checkRefused(withRouter(name, 1),
                 {"m.gguf", "\"" + name + ".expert_gating_func\": found 1, expected 2"});
    CHECK(withRouter(name, 2).message().find("expert_gating_func") == std::string::npos);
  }
  const auto withKey = [](const char *key, auto value) {
    TestGguf file = tinyLlama();
    file.add(key, value);
    return importStatusOf(file);
  };
  CHECK(withKey("llama.rope.scaling.factor", 1.0f).isOk());
  checkRefused(withKey("llama.expert_group_count", 2u), {"\"llama.expert_group_count\": found 2"});
  checkRefused(withKey("llama.attention.temperature_scale", 0.1f), {"temperature_scale"});
  checkRefused(withKey("llama.rope.scaling.attn_factor", 2.0f), {"attn_factor", "expected 1"});
  checkRefused(withKey("llama.rope.freq_base_swa", 2.0f), {"freq_base_swa", "expected that of"});
}

TEST_CASE("a factor of positions without a type is that of a linear rotation") {
  for (const char *key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    TestGguf file = tinyLlama();
    file.add(key, 4.0f);
    CHECK(configOf(file)["rope_scaling"] == Json{{"rope_type", "linear"}, {"factor", 4.0}});
  }
}

TEST_CASE("what the first files of a model do not name is known by its sizes") {
  TestGguf flash = withKeys("deepseek2");
  for (const char *key : {"attention.kv_lora_rank", "attention.value_length",
                          "leading_dense_block_count", "rope.dimension_count"})
    flash.add(std::string("deepseek2.") + key, 1u);
  flash.add("deepseek2.attention.key_length", 2u);
  CHECK(configOf(flash)["model_type"] == "deepseek_v2");
  replaceKey(flash, 1, "deepseek2.block_count", 47);
  CHECK(configOf(flash)["model_type"] == "deepseek_v2");
  flash.tensors[0] = {"token_embd.weight", {154880, 1}, 0, std::string(154880 * 4, '\0')};
  CHECK(configOf(flash)["model_type"] == "deepseek_v3");

  TestGguf shared = withKeys("glm-dsa");
  for (const char *key :
       {"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k",
        "attention.kv_lora_rank", "attention.q_lora_rank", "attention.value_length",
        "expert_group_count", "expert_group_used_count", "expert_shared_count",
        "expert_weights_norm", "expert_weights_scale", "leading_dense_block_count",
        "rope.dimension_count"})
    shared.add(std::string("glm-dsa.") + key, 1u);
  shared.add("glm-dsa.attention.key_length", 2u);
  CHECK_FALSE(configOf(shared).contains("index_topk_freq"));
  replaceKey(shared, 2, "glm-dsa.context_length", 1048576);
  CHECK(configOf(shared)["index_topk_freq"] == 4);
  CHECK(configOf(shared)["index_skip_topk_offset"] == 3);
}

TEST_CASE("the parts of a split file are one checkpoint, and a missing one is named") {
  const TestGguf whole = tinyLlama();
  TestGguf first = whole, second;
  second.tensors = {whole.tensors.end() - 4, whole.tensors.end()};
  first.tensors.resize(whole.tensors.size() - 4);
  first.add("split.count", 2u);
  first.add("split.no", 0u);
  second.add("split.count", 2u);
  second.add("split.no", 1u);
  const TemporaryDirectory directory;
  const std::string path = directory.path("m-00001-of-00002.gguf");
  directory.write("m-00001-of-00002.gguf", first.bytes());
  checkRefused(moec::importCheckpoint(path).status(), {"m-00002-of-00002.gguf"});
  directory.write("m-00002-of-00002.gguf", second.bytes());
  CHECK(moec::importCheckpoint(path).isOk());
  checkRefused(moec::importCheckpoint(directory.path("m-00002-of-00002.gguf")).status(),
               {"part 2 of 2", "the first part"});
  second.tensors.push_back(whole.tensors.front());
  directory.write("m-00002-of-00002.gguf", second.bytes());
  checkRefused(moec::importCheckpoint(path).status(),
               {"\"token_embd.weight\"", "expected it once"});
}
