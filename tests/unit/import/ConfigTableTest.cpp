// The tables of the families' config keys against the reference's classes
// (tests/data/config-classes), and what a key's effect makes of a config.
#include "compiler/import/ConfigTable.h"

#include "compiler/import/architectures/Families.h"
#include "tests/unit/import/FamilyConfig.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

using moec::ConfigKey;
using moec::ConfigTable;
using moec::Family;
using moec::KeyEffect;
using namespace moec::test;

namespace {

const nlohmann::json &classes() {
  static const nlohmann::json recorded = [] {
    std::ifstream file(std::string(MOE_TEST_DATA_DIR) + "/config-classes/transformers.json");
    return nlohmann::json::parse(file).at("classes");
  }();
  return recorded;
}

/// The class that a table is of, or null for families whose code is not part of transformers.
const nlohmann::json *classOf(std::string_view modelType) {
  const auto entry = classes().find(std::string(modelType));
  return entry == classes().end() ? nullptr : &*entry;
}

std::string_view textTypeOf(const Family &family) {
  return family.textType.empty() ? family.modelType : family.textType;
}

/// Keys of published files that the class of transformers does not name: those of the authors' own
/// code, and those that the class takes out of its arguments.
constexpr std::array<std::string_view, 51> kUnnamed = {"attention_head_dim",
                                                       "attn_output_gate",
                                                       "compress_ratios",
                                                       "expert_dtype",
                                                       "first_k_dense_replace",
                                                       "full_attention_interval",
                                                       "global_head_dim",
                                                       "group_limited_greedy",
                                                       "head_dim",
                                                       "hybrid_override_pattern",
                                                       "index_skip_topk_offset",
                                                       "index_topk_freq",
                                                       "index_topk_pattern",
                                                       "indexer_rope_interleave",
                                                       "linear_attn_config",
                                                       "mamba_ssm_dtype",
                                                       "mla_use_nope",
                                                       "mlp_only_layers",
                                                       "moe_intermediate_size",
                                                       "moe_layer_freq",
                                                       "moe_layer_num_skipped",
                                                       "moe_router_activation_func",
                                                       "moe_router_enable_expert_bias",
                                                       "mtp_num_hidden_layers",
                                                       "mtp_use_dedicated_embeddings",
                                                       "norm_topk_prob",
                                                       "num_experts",
                                                       "num_global_key_value_heads",
                                                       "num_hash_layers",
                                                       "num_hidden_layers",
                                                       "num_nextn_predict_layers",
                                                       "num_shared_expert",
                                                       "partial_rotary_factor",
                                                       "per_layer_config",
                                                       "qk_rope_head_dim",
                                                       "rope_interleave",
                                                       "rope_theta",
                                                       "rotary_dim",
                                                       "routed_scaling_factor",
                                                       "score_function",
                                                       "scoring_func",
                                                       "sliding_window",
                                                       "text_config",
                                                       "tie_word_embeddings",
                                                       "topk_method",
                                                       "use_cla",
                                                       "use_grouped_topk",
                                                       "use_mixed_mlp_moe",
                                                       "use_mla",
                                                       "use_qk_norm",
                                                       "use_sliding_window"};

bool isUnnamed(std::string_view name) {
  return std::find(kUnnamed.begin(), kUnnamed.end(), name) != kUnnamed.end();
}

/// The row of a key under one of its names.
const ConfigKey *rowOf(const ConfigTable &table, const std::string &name) {
  if (const ConfigKey *row = table.find(name))
    return row;
  for (const ConfigKey &row : table.rows())
    if (row.alias == name)
      return &row;
  return nullptr;
}

void checkAgainst(const nlohmann::json &recorded, const ConfigTable &table) {
  for (const auto &item : recorded.at("keys").items()) {
    const std::string &name = item.key();
    const nlohmann::json &key = item.value();
    CAPTURE(name);
    const ConfigKey *row = rowOf(table, name);
    REQUIRE(row);
    if (row->effect != KeyEffect::kNone && name != "rope_parameters")
      CHECK(table.fallback(*row) == key.at("default"));
  }
  if (recorded.contains("aliases"))
    for (const auto &item : recorded.at("aliases").items()) {
      const std::string &alias = item.key();
      const nlohmann::json &name = item.value();
      CAPTURE(alias);
      const ConfigKey *row = rowOf(table, alias);
      REQUIRE(row);
      CHECK(row == rowOf(table, name));
    }
}

void checkRope(const nlohmann::json &recorded, const ConfigTable &table) {
  nlohmann::json rope = recorded.at("rope");
  CHECK(table.fallback(*table.find("rope_theta")) == recorded.at("theta"));
  CHECK(table.fallback(*table.find("partial_rotary_factor")) ==
        rope.value("partial_rotary_factor", nlohmann::json()));
  rope.erase("rope_theta");
  rope.erase("partial_rotary_factor");
  // Several rotations follow from other keys.
  const bool isPlain = rope == nlohmann::json{{"rope_type", "default"}} || rope.contains("main");
  CHECK(table.fallback(*table.find("rope_parameters")) == (isPlain ? nlohmann::json() : rope));
}

bool isOfClass(const nlohmann::json &recorded, std::string_view name) {
  const std::string text(name);
  const auto has = [&](const nlohmann::json &entry) { return entry.at("keys").contains(text); };
  if (has(recorded) || has(classes().at("")))
    return true;
  const auto read = recorded.find("read");
  return read != recorded.end() && std::find(read->begin(), read->end(), text) != read->end();
}

} // namespace

TEST_CASE("every key of a reference class is in the family's table, with its default") {
  for (const Family &family : moec::supportedFamilies()) {
    CAPTURE(family.modelType);
    const ConfigTable table(family.keys);
    if (const nlohmann::json *recorded = classOf(textTypeOf(family))) {
      checkAgainst(*recorded, table);
      checkAgainst(classes().at(""), table);
      checkRope(*recorded, table);
    }
    if (!family.outerKeys.empty())
      checkAgainst(*classOf(family.modelType), ConfigTable(family.outerKeys));
  }
}

TEST_CASE("what the reference's model takes from a config is in the family's table") {
  for (const Family &family : moec::supportedFamilies()) {
    CAPTURE(family.modelType);
    const nlohmann::json *recorded = classOf(family.modelType);
    if (!recorded || !family.outerKeys.empty() || family.modelType.ends_with("_text"))
      continue; // The file of a model with other parts reads their keys too.
    const ConfigTable table(family.keys);
    for (const std::string name : recorded->at("read")) {
      CAPTURE(name);
      CHECK(rowOf(table, name));
    }
  }
}

TEST_CASE("no table names a key that no class has") {
  for (const Family &family : moec::supportedFamilies()) {
    const nlohmann::json *recorded = classOf(textTypeOf(family));
    for (const ConfigKey &row : family.keys) {
      CAPTURE(family.modelType);
      CAPTURE(row.name);
      CHECK((!recorded || isOfClass(*recorded, row.name) || isUnnamed(row.name)));
    }
  }
}

namespace {

/// The family's config with class defaults but for small numbers, and with all parts in use.
nlohmann::json smallConfig(const Family &family) {
  nlohmann::json text = {{"num_hidden_layers", 2},
                         {"hidden_size", 32},
                         {"vocab_size", 16},
                         {"head_dim", 8},
                         {"num_attention_heads", 4}};
  const ConfigTable table(family.keys);
  const auto set = [&](const char *key, const nlohmann::json &value) {
    const ConfigKey *row = rowOf(table, key);
    if (row && row->effect != KeyEffect::kDefaultOnly)
      text[row->name] = value;
  };
  text.erase(table.find("qk_rope_head_dim") || !rowOf(table, "head_dim") ? "head_dim" : "");
  set("num_key_value_heads", table.find("kv_lora_rank")      ? 4
                             : table.find("compress_ratios") ? 1
                                                             : 2);
  set("o_groups", 2);
  set("compress_ratios", {4, 128});
  for (const char *key : {"indexer_n_heads", "indexer_kv_heads", "indexer_compress_ratio"})
    set(key, 1);
  set("indexer_head_dim", 8);
  set("indexer_budget", 8);
  set("ple_layer_ids", {1});
  set("eos_token_id", 2);
  set("qk_rope_head_dim", table.find("index_kpool") ? 0 : 64);
  set("kv_lora_rank", 8);
  for (const char *key :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (const ConfigKey *row = table.find(key))
      text[row->name] = 16;
  for (const char *key : {"num_experts_per_tok", "top_k_experts"})
    if (table.find(key) && family.modelType != "phimoe")
      text[key] = 1;
  set("first_k_dense_replace", 1);
  set("n_group", 4);
  set("topk_group", 2);
  set("use_sliding_window", table.find("sliding_window") != nullptr);
  set("sliding_window", 8);
  set("topk_method", family.modelType == "deepseek_v2" ? "group_limited_greedy" : "noaux_tc");
  set("layer_types", nullptr);
  set("enable_moe_block", true);
  set("attention_k_eq_v", true);
  set("hidden_size_per_layer_input", 0);
  set("moe_intermediate_size", family.modelType == "hunyuan_v1_moe" ? 11008 : 8);
  set("decoder_sparse_step", 2);
  set("num_dense_layers", 1);
  set("linear_num_key_heads", 4);
  set("mamba_n_heads", 4);
  if (family.modelType == "lfm2_moe")
    text["layer_types"] = {"conv", "full_attention"};
  if (family.modelType == "dots1")
    text["max_window_layers"] = 1;
  if (family.modelType == "minimax_m2")
    text["rotary_dim"] = 4;
  if (family.modelType == "swin_moe")
    text["MODEL"] = {{"SWIN_MOE", {{"MOE_BLOCKS", {{0}, {-1}, {-1}, {-1}}}}}};
  text["model_type"] = textTypeOf(family);
  if (family.outerKeys.empty())
    return text;
  const nlohmann::json holder = {{"text_config", text}};
  nlohmann::json config =
      family.textHolder.empty() ? holder : nlohmann::json{{std::string(family.textHolder), holder}};
  config["model_type"] = family.modelType;
  return config;
}

nlohmann::json &textOf(nlohmann::json &config) {
  nlohmann::json &holder = config.contains("thinker_config") ? config["thinker_config"] : config;
  return holder.contains("text_config") ? holder["text_config"] : config;
}

/// A value of another type than the key's.
nlohmann::json wrongTypeOf(const ConfigKey &row) {
  if (row.type.starts_with("text") || row.type.starts_with("object") || row.type == "any?")
    return -5;
  return "no";
}

} // namespace

TEST_CASE("every key that a table marks as used is read: a value of another type is refused") {
  for (const Family &family : moec::supportedFamilies()) {
    CAPTURE(family.modelType);
    const nlohmann::json valid = smallConfig(family);
    {
      const auto result = tryDescribe(valid);
      REQUIRE_MESSAGE(result.isOk(), result.status().message());
    }
    const ConfigTable table(family.keys);
    for (const ConfigKey &row : table.rows()) {
      const bool isElsewhere =
          row.name == "architectures" || row.name == "original_max_position_embeddings" ||
          (family.textType != "" && row.name == "tie_word_embeddings") ||
          (family.keys.data() == moec::kGemma4TextKeys.data() && row.name == "rope_theta");
      if (row.effect != KeyEffect::kUsed || isElsewhere)
        continue;
      CAPTURE(row.name);
      nlohmann::json config = valid;
      textOf(config)[std::string(row.name)] = wrongTypeOf(row);
      const moert::Status status = tryDescribe(config).status();
      CHECK_FALSE(status.isOk());
      CHECK(std::string(status.message()).find(std::string(row.name)) != std::string::npos);
    }
  }
}

TEST_CASE("a key that may only have its default is refused by name with another value") {
  for (const Family &family : moec::supportedFamilies()) {
    CAPTURE(family.modelType);
    const nlohmann::json valid = smallConfig(family);
    const ConfigTable table(family.keys);
    for (const ConfigKey &row : table.rows()) {
      if (row.effect != KeyEffect::kDefaultOnly)
        continue;
      CAPTURE(row.name);
      const std::string name(row.name);
      nlohmann::json config = valid;
      nlohmann::json &text = textOf(config);
      text[name] = table.fallback(row);
      CHECK(tryDescribe(config).isOk());
      text[name] = nlohmann::json{{"found", 1}};
      const std::string message(tryDescribe(config).status().message());
      CHECK(message.find(name + "': found an object, expected " + std::string(row.fallback)) !=
            std::string::npos);
      // Null is false in Python: another value than a default of true, a text or a number.
      text[name] = nullptr;
      if (row.fallback != "null" && row.fallback != "false" && row.fallback != "0")
        CHECK_FALSE(tryDescribe(config).isOk());
    }
  }
}

TEST_CASE("a key with two names has one value, and null is not absence") {
  nlohmann::json config = qwen3Config();
  config.erase("num_experts");
  config["num_local_experts"] = 4;
  CHECK(describe(config).layers[0].moe->experts.size() == 4);
  config["num_experts"] = 4;
  CHECK(tryDescribe(config).isOk());
  config["num_experts"] = 5;
  CHECK(tryDescribe(config).status().message().find(
            "'num_experts': found 5, expected the same as num_local_experts, which is 4") !=
        std::string::npos);
  config = qwen3Config();
  config["norm_topk_prob"] = nullptr; // Not allowed by the class.
  CHECK(tryDescribe(config).status().message().find("found null") != std::string::npos);
}

TEST_CASE("the keys that a config lacks are named with the defaults taken for them") {
  nlohmann::json config = qwen3Config();
  config.erase("moe_intermediate_size");
  const std::vector<std::string> keys = describe(config).defaultedKeys;
  CHECK(std::find(keys.begin(), keys.end(), "moe_intermediate_size (768)") != keys.end());
  CHECK(std::find(keys.begin(), keys.end(), "hidden_size (2048)") == keys.end());
}
