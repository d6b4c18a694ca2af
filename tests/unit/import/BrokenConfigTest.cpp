// Configs with one fault: each row is refused with a message that names the file, the found and the
// expected value. ArchitectureTest.cpp has accepted configs.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

namespace {

using Row = BrokenCheckpoint;

const std::vector<Row> kConfigFiles = {
    {"empty", [](auto &c) { c.raw["config.json"] = ""; }, "config.json", "broken JSON"},
    {"cut off", [](auto &c) { c.raw["config.json"] = "{\"model_type\":"; }, "config.json",
     "broken JSON"},
    {"a list", [](auto &c) { c.raw["config.json"] = "[1]"; }, "config.json", "found [1]"},
    {"a key twice", [](auto &c) { c.raw["config.json"] = R"({"a":1,"a":1})"; }, "config.json",
     "found key \"a\" twice"},
    {"nested too deep",
     [](auto &c) {
       c.raw["config.json"] = "{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}";
     },
     "config.json", "deeper than 64"},
    {"a number that no double can hold", [](auto &c) { c.raw["config.json"] = "{\"a\":1e999}"; },
     "config.json", "broken JSON"},
    {"not UTF-8", [](auto &c) { c.raw["config.json"] = "{\"a\":\"\xc3\"}"; }, "config.json",
     "broken JSON"},
    {"generation_config.json that is cut off",
     [](auto &c) { c.raw["generation_config.json"] = "{"; }, "generation_config.json",
     "broken JSON"},
    {"generation_config.json that is a string",
     [](auto &c) { c.raw["generation_config.json"] = "\"x\""; }, "generation_config.json",
     "found \"x\", expected a JSON object"},
    {"an end token above the vocabulary",
     [](auto &c) {
       c.generationConfig = {{"eos_token_id", 16}};
     },
     "generation_config.json", "'eos_token_id': found 16, expected an integer from 0 to 15"},
    {"a list of end tokens with a string",
     [](auto &c) {
       c.generationConfig["eos_token_id"] = {1, "2"};
     },
     "generation_config.json", "'eos_token_id': found [1,\"2\"]"},
    {"an end token in words", [](auto &c) { c.config["eos_token_id"] = "</s>"; }, "config.json",
     "'eos_token_id': found \"</s>\""},
    {"a negative first token", [](auto &c) { c.config["bos_token_id"] = -1; }, "config.json",
     "'bos_token_id': found -1"},
};

const std::vector<Row> kConfigKeys = {
    {"no model_type", [](auto &c) { c.config.erase("model_type"); }, "config.json",
     "'model_type': found no such key"},
    {"an unknown model_type", [](auto &c) { c.config["model_type"] = "llama"; }, "config.json",
     "found \"llama\", expected one of bailing_hybrid (BailingHybridForCausalLM), "
     "deepseek"},
    {"a dense model",
     [](auto &c) {
       c.config["model_type"] = "llama";
       c.config.erase("num_local_experts");
       c.config.erase("num_experts_per_tok");
     },
     "config.json",
     "this is a dense model: all weights are needed for every token, so there is nothing to "
     "stream"},
    {"an unknown model_type of 5000 letters",
     [](auto &c) { c.config["model_type"] = std::string(5000, 'x'); }, "config.json",
     "xxx..., expected one of"},
    {"a model_type that is a number", [](auto &c) { c.config["model_type"] = 7; }, "config.json",
     "'model_type': found 7, expected a string"},
    {"another class",
     [](auto &c) { c.config["architectures"] = {"MixtralForTokenClassification"}; }, "config.json",
     "'architectures': found [\"MixtralForTokenClassification\"]"},
    {"the class of another family",
     [](auto &c) { c.config["architectures"] = {"Qwen2MoeForCausalLM"}; }, "config.json",
     "expected MixtralForCausalLM"},
    {"architectures that is a string",
     [](auto &c) { c.config["architectures"] = "MixtralForCausalLM"; }, "config.json",
     "expected a list of strings"},
    {"no hidden_size", [](auto &c) { c.config.erase("hidden_size"); }, "",
     "config.json lacks hidden_size (4096)"},
    {"a hidden_size of 0", [](auto &c) { c.config["hidden_size"] = 0; }, "config.json",
     "'hidden_size': found 0"},
    {"a fractional hidden_size", [](auto &c) { c.config["hidden_size"] = 8.0; }, "config.json",
     "'hidden_size': found 8.0"},
    {"a hidden_size that is a string", [](auto &c) { c.config["hidden_size"] = "8"; },
     "config.json", "'hidden_size': found \"8\""},
    {"a hidden_size above any model", [](auto &c) { c.config["hidden_size"] = 4294967296; },
     "config.json", "'hidden_size': found 4294967296"},
    {"a negative vocab_size", [](auto &c) { c.config["vocab_size"] = -16; }, "config.json",
     "'vocab_size': found -16"},
    {"no layers", [](auto &c) { c.config["num_hidden_layers"] = 0; }, "config.json",
     "'num_hidden_layers': found 0"},
    {"a million layers", [](auto &c) { c.config["num_hidden_layers"] = 1'000'000; }, "config.json",
     "'num_hidden_layers': found 1000000"},
    {"more experts than can be described",
     [](auto &c) {
       c.config["num_hidden_layers"] = 1000;
       c.config["num_local_experts"] = 200;
     },
     "config.json", "at most 131072 experts"},
    {"heads that key/value heads do not divide",
     [](auto &c) { c.config["num_key_value_heads"] = 3; }, "config.json",
     "'num_key_value_heads': found 3, expected a divisor of num_attention_heads, 2"},
    {"no num_key_value_heads", [](auto &c) { c.config.erase("num_key_value_heads"); },
     "config.json",
     "'num_key_value_heads': found no such key, whose default is 8, expected a divisor of"},
    {"a hidden_size that heads do not divide",
     [](auto &c) {
       c.config["num_attention_heads"] = 3;
       c.config["num_key_value_heads"] = 1;
     },
     "config.json", "'num_attention_heads': found 3, expected a divisor of hidden_size, 8"},
    {"an odd head_dim", [](auto &c) { c.config["head_dim"] = 5; }, "config.json",
     "'head_dim': found 5, expected an even width"},
    {"a negative rms_norm_eps", [](auto &c) { c.config["rms_norm_eps"] = -1e-5; }, "config.json",
     "'rms_norm_eps': found -1e-05"},
    {"an activation that is not SiLU", [](auto &c) { c.config["hidden_act"] = "gelu"; },
     "config.json", "'hidden_act': found \"gelu\", expected \"silu\" or \"swish\""},
    {"weights of an unknown quantization",
     [](auto &c) {
       c.config["quantization_config"] = {{"quant_method", "aqlm"}};
     },
     "config.json", "'quantization_config.quant_method': found \"aqlm\", expected one of"},
    {"a type that is not a plain float", [](auto &c) { c.config["torch_dtype"] = "float8_e4m3fn"; },
     "config.json", "'torch_dtype': found \"float8_e4m3fn\""},
    {"the same under its new name", [](auto &c) { c.config["dtype"] = "int8"; }, "config.json",
     "'dtype': found \"int8\""},
    {"a tied head in words", [](auto &c) { c.config["tie_word_embeddings"] = "yes"; },
     "config.json", "'tie_word_embeddings': found \"yes\", expected true or false"},
    {"attention biases", [](auto &c) { c.config["attention_bias"] = true; }, "config.json",
     "'attention_bias': found true, expected false"},
    {"more chosen experts than there are", [](auto &c) { c.config["num_experts_per_tok"] = 3; },
     "config.json", "'num_experts_per_tok': found 3"},
    {"two spellings that disagree", [](auto &c) { c.config["num_experts"] = 4; }, "config.json",
     "'num_local_experts': found 2, expected the same as num_experts"},
    {"a window of 0", [](auto &c) { c.config["sliding_window"] = 0; }, "config.json",
     "'sliding_window': found 0"},
    {"a rope_theta of 0", [](auto &c) { c.config["rope_theta"] = 0; }, "config.json",
     "'rope_theta': found 0"},
    {"a rope that is partial", [](auto &c) { c.config["partial_rotary_factor"] = 0.5; },
     "config.json", "'partial_rotary_factor': found 0.5, expected 1"},
};

const std::vector<Row> kRopeKeys = {
    {"longrope",
     [](auto &c) {
       c.config["rope_scaling"] = {{"type", "longrope"}, {"factor", 4.0}};
     },
     "config.json",
     "'rope_scaling.type': found \"longrope\", expected default, linear, llama3, yarn"},
    {"longrope under the new spelling",
     [](auto &c) {
       c.config["rope_parameters"] = {{"rope_type", "longrope"}, {"rope_theta", 1e4}};
     },
     "config.json", "'rope_parameters.rope_type': found \"longrope\""},
    {"a scaling without a type",
     [](auto &c) {
       c.config["rope_scaling"] = {{"factor", 4.0}};
     },
     "config.json", "'rope_scaling.rope_type': found no such key"},
    {"two types that disagree",
     [](auto &c) {
       c.config["rope_scaling"] = {{"type", "linear"}, {"rope_type", "llama3"}, {"factor", 2}};
     },
     "config.json", "'rope_scaling.rope_type': found \"llama3\", expected the same as type, which"},
    {"linear without a factor",
     [](auto &c) {
       c.config["rope_scaling"] = {{"rope_type", "linear"}};
     },
     "config.json", "'rope_scaling.factor': found no such key"},
    {"a factor below 1",
     [](auto &c) {
       c.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 0.5}};
     },
     "config.json", "'rope_scaling.factor': found 0.5"},
    {"llama3 whose high factor is below the low one",
     [](auto &c) {
       c.config["rope_scaling"] = {{"rope_type", "llama3"},
                                   {"factor", 8},
                                   {"low_freq_factor", 5},
                                   {"high_freq_factor", 4},
                                   {"original_max_position_embeddings", 64}};
     },
     "config.json", "'rope_scaling.high_freq_factor': found 4, expected at least"},
    {"a scaling that is a number", [](auto &c) { c.config["rope_scaling"] = 2; }, "config.json",
     "'rope_scaling': found 2, expected an object"},
};

const std::vector<Row> kQwenKeys = {
    {"a sparse step of 0", [](auto &c) { c.config["decoder_sparse_step"] = 0; }, "config.json",
     "'decoder_sparse_step': found 0"},
    {"dense layers that are no list", [](auto &c) { c.config["mlp_only_layers"] = 3; },
     "config.json", "'mlp_only_layers': found 3, expected a list"},
    {"no routed layer at all", [](auto &c) { c.config["mlp_only_layers"] = {0}; }, "config.json",
     "'num_hidden_layers': found 1, expected at least one layer with routed experts"},
    {"windows without a width",
     [](auto &c) {
       c.config["use_sliding_window"] = true;
       c.config["sliding_window"] = nullptr;
     },
     "config.json", "'sliding_window': found null"},
    {"too many layer types",
     [](auto &c) {
       c.config["layer_types"] = {"full_attention", "full_attention"};
     },
     "config.json", "expected one entry for each of 1 layers"},
    {"an unknown layer type", [](auto &c) { c.config["layer_types"] = {"chunked_attention"}; },
     "config.json", "found [\"chunked_attention\"], expected full_attention or sliding_attention"},
    {"a sliding layer type while windows are off",
     [](auto &c) { c.config["layer_types"] = {"sliding_attention"}; }, "config.json",
     "expected full_attention, as use_sliding_window is false"},
    {"a norm_topk_prob of 1", [](auto &c) { c.config["norm_topk_prob"] = 1; }, "config.json",
     "'norm_topk_prob': found 1, expected true or false"},
    {"num_experts that is null", [](auto &c) { c.config["num_experts"] = nullptr; }, "config.json",
     "'num_experts': found null"},
    {"a bias on disk that the config denies", [](auto &c) { c.config["qkv_bias"] = false; }, "",
     "found tensor \"model.layers.0.self_attn.k_proj.bias\" and 2 more of "},
    {"a missing bias", [](auto &c) { c.remove("model.layers.0.self_attn.v_proj.bias"); }, "",
     "found no tensor \"model.layers.0.self_attn.v_proj.bias\", expected it with shape [4]"},
    {"a missing shared expert",
     [](auto &c) { c.remove("model.layers.0.mlp.shared_expert.up_proj.weight"); }, "",
     "found no tensor \"model.layers.0.mlp.shared_expert.up_proj.weight\""},
    {"a shared expert of another width",
     [](auto &c) { c.config["shared_expert_intermediate_size"] = 8; }, "model.safetensors",
     "found shape [8, 7], expected [8, 8]"},
};

} // namespace

TEST_CASE("a broken config file is refused:") {
  checkBroken(kConfigFiles, tinyMixtral);
}

TEST_CASE("a config that cannot be computed is refused:") {
  checkBroken(kConfigKeys, tinyMixtral);
}

TEST_CASE("a rotary embedding that cannot be computed is refused:") {
  checkBroken(kRopeKeys, tinyMixtral);
}

TEST_CASE("a Qwen2-MoE that cannot be computed is refused:") {
  checkBroken(kQwenKeys, tinyQwen2Moe);
}

TEST_CASE("a directory without config.json is refused") {
  const TemporaryDirectory directory;
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {"config.json", "found no config.json"});
}
