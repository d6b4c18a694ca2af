#include "compiler/import/ConfigTable.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace moec {

namespace {

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

constexpr ConfigKey kRows[] = {
    // About the file and about weights, which are read elsewhere.
    {"model_type", "text", R"("")"},
    {"architectures", "list?", "null"},
    {"dtype", "text?", "null"},
    {"torch_dtype", "text?", "null"},
    {"transformers_version", "any", "null", kNone},
    // Calls and their results.
    {"output_hidden_states", "any", "false", kNone},
    {"return_dict", "any", "true", kNone},
    {"chunk_size_feed_forward", "any", "0", kNone},
    {"is_encoder_decoder", "any", "false", kNone},
    {"use_cache", "any", "true", kNone},
    {"output_router_logits", "any", "false", kNone},
    // Other tasks, and training.
    {"id2label", "any", "null", kNone},
    {"label2id", "any", "null", kNone},
    {"problem_type", "any", "null", kNone},
    {"pretraining_tp", "any", "1", kNone},
    {"initializer_range", "any", "0.02", kNone},
    {"attention_dropout", "any", "0.0", kNone},
    {"router_aux_loss_coef", "any", "0.001", kNone},
    {"pad_token_id", "any", "null", kNone},
    // The heterogeneous models of transformers 5.15 and later, and attention to later tokens.
    {"per_layer_config", "object?", "null", kDefaultOnly},
    {"is_causal", "flag", "true", kDefaultOnly},
    // Biases that some classes have and others ignore, but their authors' code may read.
    {"attention_bias", "flag?", "false", kDefaultOnly},
    {"mlp_bias", "flag?", "false", kDefaultOnly},
    {"lm_head_bias", "flag?", "false", kDefaultOnly},
    {"hidden_act", "text", R"("silu")"},
    // Rotation; Rope.h reads it.
    {"rope_parameters", "object?", "null"},
    {"rope_scaling", "object?", "null"},
    {"rope_theta", "real", "10000.0"},
    {"partial_rotary_factor", "real?", "null"},
    {"original_max_position_embeddings", "int", "null"},
};

} // namespace

const ConfigKeys kCommonKeys = kRows;

struct ConfigTable::Defaults {
  std::vector<nlohmann::json> values;
};

ConfigTable::ConfigTable(ConfigKeys own)
    : keys(own.begin(), own.end()), defaults(std::make_unique<Defaults>()) {
  for (const ConfigKey &common : kCommonKeys)
    if (!find(common.name))
      keys.push_back(common);
  for (const ConfigKey &key : keys)
    defaults->values.push_back(nlohmann::json::parse(key.fallback));
}

ConfigTable::ConfigTable(ConfigTable &&) noexcept = default;
ConfigTable::~ConfigTable() = default;

const ConfigKey *ConfigTable::find(std::string_view name) const {
  const auto key = std::find_if(keys.begin(), keys.end(),
                                [&](const ConfigKey &row) { return row.name == name; });
  return key == keys.end() ? nullptr : &*key;
}

const nlohmann::json &ConfigTable::fallback(const ConfigKey &key) const {
  return defaults->values[static_cast<size_t>(&key - keys.data())];
}

} // namespace moec
