// Configs for the tests of families, and what must be refused of them.
#pragma once

#include "compiler/import/Architecture.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace moec::test {

/// Keys of all families: two layers of width 8 with two heads.
inline nlohmann::json decoderConfig(const char *modelType, const char *className) {
  return {{"model_type", modelType}, {"architectures", {className}},  {"hidden_size", 8},
          {"num_hidden_layers", 2},  {"num_attention_heads", 2},      {"num_key_value_heads", 1},
          {"vocab_size", 16},        {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},   {"intermediate_size", 6},        {"num_experts_per_tok", 2},
          {"eos_token_id", 2}};
}

inline nlohmann::json qwen3Config() {
  nlohmann::json config = decoderConfig("qwen3_moe", "Qwen3MoeForCausalLM");
  config["num_experts"] = 4;
  config["moe_intermediate_size"] = 3;
  config["norm_topk_prob"] = true;
  config["head_dim"] = 6;
  return config;
}

inline moert::Result<ModelDescription> tryDescribe(const nlohmann::json &json) {
  const auto config = Config::parse("config.json", json.dump());
  REQUIRE(config.isOk());
  return describeModel({config->root(), std::nullopt, [](std::string_view) { return false; }});
}

inline ModelDescription describe(const nlohmann::json &json) {
  auto result = tryDescribe(json);
  REQUIRE_MESSAGE(result.isOk(), result.status().message());
  return std::move(result).value();
}

/// One wrong value, and what the message has to contain.
struct BrokenValue {
  const char *key;
  nlohmann::json value;
  const char *expected;
};

inline void checkRefused(const nlohmann::json &valid, const std::vector<BrokenValue> &rows) {
  REQUIRE(tryDescribe(valid).isOk());
  for (const BrokenValue &row : rows) {
    CAPTURE(row.key);
    nlohmann::json config = valid;
    config[row.key] = row.value;
    const moert::Status status = tryDescribe(config).status();
    CHECK(status.code() == moert::StatusCode::kInvalidInput);
    const std::string message(status.message());
    CAPTURE(message);
    CHECK(message.find(std::string("config.json: key '") + row.key) != std::string::npos);
    CHECK(message.find(row.expected) != std::string::npos);
  }
}

} // namespace moec::test
