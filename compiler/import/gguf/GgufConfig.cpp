#include "compiler/import/gguf/GgufConfig.h"

#include "compiler/import/JsonScan.h"
#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;
using Json = nlohmann::json;

namespace {

constexpr uint64_t kMaxNumber = UINT32_MAX;
constexpr uint64_t kMaxLayers = 1024;
constexpr double kDefaultTheta = 10000;
/// Llama-4 Maverick, whose queries and keys have no norm, is known by its experts. Source:
/// llama.cpp, llama-model.cpp.
constexpr uint64_t kMaverickExperts = 128;
/// GLM-4.7-Flash, whose first files do not name its gates, sigmoids, is known by its layers, with
/// or without those that predict ahead, and its tokens. Source: llama.cpp, models/deepseek2.cpp.
constexpr uint64_t kGlmLiteLayers = 47;
constexpr uint64_t kGlmLiteVocabulary = 154880;
/// The context of GLM-5.2, which has indexers in every fourth layer after the third one, and whose
/// first files do not name them. Source: llama.cpp, models/glm-dsa.cpp.
constexpr uint64_t kSharedIndexersContext = 1048576;
/// A divisor of a frequency that stands for no rotation; llama.cpp's converter writes 1e30.
constexpr float kUnrotated = 1e29F;

/// Texts of tokens that end a turn besides eos_token_id. Source: llama.cpp, llama-vocab.cpp.
constexpr std::array<std::string_view, 9> kEndTexts = {
    "<|endoftext|>", "<|eot_id|>", "<|im_end|>", "<|end|>",       "<|return|>",
    "<|call|>",      "<|eom_id|>", "<turn|>",    "<end_of_turn>",
};

std::string foundText(const Json &value) {
  return moert::excerpt(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

const Json *find(const Json &keys, const std::string &name) {
  const auto found = keys.find(name);
  return found == keys.end() ? nullptr : &*found;
}

std::optional<std::string> textAt(const Json &keys, const std::string &name) {
  const Json *const value = find(keys, name);
  return value && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
}

class ConfigMaker {
public:
  ConfigMaker(const GgufFamily &kind, const std::string &name, const Json &all,
              const ShardSet &files)
      : family(kind), fileName(name), keys(all), shards(files) {}

  Result<Json> make() {
    config = Json::parse(family.constants);
    config["model_type"] = family.modelType;
    MOERT_RETURN_IF_ERROR(takeKeys(commonGgufKeys()));
    MOERT_RETURN_IF_ERROR(takeKeys(family.keys));
    MOERT_RETURN_IF_ERROR(checkFixed());
    for (const GgufFlag &flag : family.flags)
      config[std::string(flag.config)] = shards.find(strCat("blk.0.", flag.tensor)).has_value();
    MOERT_RETURN_IF_ERROR(setLayers());
    MOERT_RETURN_IF_ERROR(setVocabulary());
    MOERT_RETURN_IF_ERROR(setRope());
    if (value("attention.kv_lora_rank")) {
      MOERT_RETURN_IF_ERROR(setLatentAttention());
    } else if (family.architecture == "gemma4") {
      MOERT_RETURN_IF_ERROR(setGemmaLayers());
    } else {
      MOERT_RETURN_IF_ERROR(setHeads());
    }
    if (!family.keylessLayer.empty())
      MOERT_RETURN_IF_ERROR(setLayerTypes());
    if (family.keylessLayer == "mamba")
      MOERT_RETURN_IF_ERROR(setMamba());
    if (!family.keys.empty() && family.keys.front().gguf.starts_with("ssm."))
      MOERT_RETURN_IF_ERROR(setDeltaNets());
    if (family.architecture == "deepseek2")
      MOERT_RETURN_IF_ERROR(setDeepSeekRouter());
    if (family.architecture == "glm-dsa")
      MOERT_RETURN_IF_ERROR(setIndexers());
    if (family.architecture == "llama4")
      config["use_qk_norm"] = config["num_experts"] != kMaverickExperts;
    if (family.architecture == "gpt-oss" && config.contains("rope_scaling"))
      config["rope_scaling"]["truncate"] = false;
    return std::move(config);
  }

private:
  std::string fullName(std::string_view key) const { return strCat(family.architecture, ".", key); }

  const Json *value(std::string_view key) const { return find(keys, fullName(key)); }

  Status mismatch(std::string_view key, std::string_view expected) const {
    const Json *const found = value(key);
    return invalidInput(fileName, ": key ", quoted(fullName(key)), ": found ",
                        found ? foundText(*found) : "no such key", ", expected ", expected);
  }

  Result<uint64_t> integer(std::string_view key,
                           std::optional<uint64_t> fallback = std::nullopt) const {
    const Json *const found = value(key);
    if (!found && fallback)
      return *fallback;
    if (!found || !isCount(*found))
      return mismatch(key, strCat("an integer from 0 to ", kMaxNumber));
    return found->get<uint64_t>();
  }

  static bool isCount(const Json &number) {
    return number.is_number_integer() && number >= 0 && number <= kMaxNumber;
  }

  Result<double> real(std::string_view key, std::optional<double> fallback = std::nullopt) const {
    const Json *const found = value(key);
    if (!found && fallback)
      return *fallback;
    if (!found || !found->is_number())
      return mismatch(key, "a number");
    return found->get<double>();
  }

  /// A flag or number of each layer.
  Result<std::vector<uint64_t>> perLayer(std::string_view key) const {
    const Json *const found = value(key);
    std::vector<uint64_t> list;
    if (found && isCount(*found))
      list.assign(layers, found->get<uint64_t>());
    else if (found && found->is_array() && found->size() >= layers)
      for (uint64_t layer = 0; layer < layers; ++layer) {
        const Json &element = (*found)[layer];
        if (element.is_boolean() || isCount(element))
          list.push_back(element.is_boolean() ? uint64_t{element.get<bool>()}
                                              : element.get<uint64_t>());
      }
    if (list.size() != layers)
      return mismatch(key, strCat("a number, or one for each of ", layers, " layers"));
    return list;
  }

  Status takeKeys(std::span<const GgufKey> rows) {
    for (const GgufKey &row : rows) {
      const std::string name(row.config);
      if (const Json *const found = value(row.gguf))
        config[name] = *found;
      else if (row.isRequired && !config.contains(name))
        return mismatch(row.gguf, "one");
    }
    return Status();
  }

  bool isFixed(const GgufFixedKey &row) const {
    if (!row.architecture.empty())
      return row.architecture == family.architecture;
    return std::none_of(family.keys.begin(), family.keys.end(),
                        [&](const GgufKey &key) { return key.gguf == row.gguf; });
  }

  Status checkFixed() const {
    for (const GgufFixedKey &row : fixedGgufKeys()) {
      const Json *const found = value(row.gguf);
      if (!found || !isFixed(row))
        continue;
      const double number = found->is_boolean()  ? found->get<bool>()
                            : found->is_number() ? found->get<double>()
                                                 : std::nan("");
      if (!(number >= row.least && number <= row.most))
        return mismatch(row.gguf, strCat(row.least, row.least == row.most ? "" : " or more",
                                         ", with which the family computes"));
    }
    return Status();
  }

  Status setLayers() {
    MOERT_ASSIGN_OR_RETURN(const uint64_t all, integer("block_count"));
    MOERT_ASSIGN_OR_RETURN(const uint64_t ahead, integer("nextn_predict_layers", 0));
    if (all > kMaxLayers || ahead >= all)
      return mismatch("block_count", strCat("1 to ", kMaxLayers, " layers besides the ", ahead,
                                            " of nextn_predict_layers"));
    layers = all - ahead;
    config["num_hidden_layers"] = layers;
    return Status();
  }

  Status setVocabulary() {
    const auto embedding = shards.find("token_embd.weight");
    if (!embedding || embedding->tensor->shape.size() != 2)
      return invalidInput(fileName, ": found no matrix \"token_embd.weight\", expected it; a file ",
                          "of a vocabulary alone is no model");
    config["vocab_size"] = embedding->tensor->shape[0];
    config["tie_word_embeddings"] = !shards.find("output.weight");
    const Json *const begin = find(keys, "tokenizer.ggml.bos_token_id");
    config["bos_token_id"] = begin ? *begin : Json();
    Json ends = Json::array();
    const auto add = [&](const Json &id) {
      if (std::find(ends.begin(), ends.end(), id) == ends.end())
        ends.push_back(id);
    };
    for (const char *key : {"eos", "eot", "eom"})
      if (const Json *const id = find(keys, strCat("tokenizer.ggml.", key, "_token_id")))
        add(*id);
    for (const std::string_view end : kEndTexts)
      if (const auto id = tokenOf(end); id && (end != "<|end|>" || !tokenOf("<|return|>")))
        add(*id); // Where a turn ends with return, end is that of one of its messages.
    config["eos_token_id"] = ends.empty() ? Json() : ends;
    return Status();
  }

  std::optional<size_t> tokenOf(std::string_view text) const {
    const Json *const tokens = find(keys, "tokenizer.ggml.tokens");
    if (!tokens || !tokens->is_array())
      return std::nullopt;
    const auto found = std::find(tokens->begin(), tokens->end(), text);
    return found == tokens->end() ? std::nullopt
                                  : std::optional(static_cast<size_t>(found - tokens->begin()));
  }

  Status setRope() {
    MOERT_ASSIGN_OR_RETURN(const double theta, real("rope.freq_base", kDefaultTheta));
    config["rope_theta"] = theta;
    MOERT_ASSIGN_OR_RETURN(const double windowTheta, real("rope.freq_base_swa", theta));
    if (family.architecture != "gemma4" && windowTheta != theta)
      return mismatch("rope.freq_base_swa", strCat("that of rope.freq_base, ", theta));
    // Files of before 2023-09 have the factor alone, by its older name.
    const char *factorKey = "rope.scaling.factor";
    if (!value(factorKey) && value("rope.scale_linear"))
      factorKey = "rope.scale_linear";
    std::string type = textAt(keys, fullName("rope.scaling.type")).value_or("linear");
    if (type == "linear") {
      MOERT_ASSIGN_OR_RETURN(const double factor, real(factorKey, 1));
      type = factor == 0 || factor == 1 ? "none" : type;
    }
    if (family.architecture != "gemma4" && shards.find("rope_freqs.weight")) {
      if (type != "none")
        return mismatch("rope.scaling.type", "none beside a tensor rope_freqs.weight");
      MOERT_ASSIGN_OR_RETURN(const std::vector<float> divisors, rotationDivisors());
      config["rope_scaling"] = {{"rope_type", "divided"}, {"divisors", divisors}};
      return Status();
    }
    if (type == "none")
      return Status();
    if (type != "linear" && type != "yarn")
      return mismatch("rope.scaling.type", "none, linear or yarn");
    Json &scaling = config["rope_scaling"] = {{"rope_type", type}};
    MOERT_ASSIGN_OR_RETURN(scaling["factor"], real(factorKey));
    if (type == "linear")
      return Status();
    MOERT_ASSIGN_OR_RETURN(scaling["original_max_position_embeddings"],
                           integer("rope.scaling.original_context_length"));
    MOERT_ASSIGN_OR_RETURN(scaling["beta_fast"], real("rope.scaling.yarn_beta_fast", 32));
    MOERT_ASSIGN_OR_RETURN(scaling["beta_slow"], real("rope.scaling.yarn_beta_slow", 1));
    // 0.1 * mscale_all_dim. Published models have the same mscale.
    MOERT_ASSIGN_OR_RETURN(const double logarithm, real("rope.scaling.yarn_log_multiplier", 0));
    if (logarithm != 0)
      scaling["mscale"] = scaling["mscale_all_dim"] = 10 * logarithm;
    return Status();
  }

  /// The width of a head's keys, which is that of its values.
  Result<uint64_t> headDim(std::string_view suffix = "") const {
    MOERT_ASSIGN_OR_RETURN(const uint64_t heads, integer("attention.head_count"));
    MOERT_ASSIGN_OR_RETURN(const uint64_t hidden, integer("embedding_length"));
    const std::string key = strCat("attention.key_length", suffix),
                      values = strCat("attention.value_length", suffix);
    if (!value(key) && (heads == 0 || hidden % heads != 0))
      return mismatch(key, "one, as the heads do not divide embedding_length");
    MOERT_ASSIGN_OR_RETURN(const uint64_t dim, integer(key, heads == 0 ? 0 : hidden / heads));
    MOERT_ASSIGN_OR_RETURN(const uint64_t valueDim, integer(values, dim));
    if (dim == 0 || valueDim != dim)
      return mismatch(values, strCat("that of keys, ", dim, ", which is not 0"));
    return dim;
  }

  Status setHeads() {
    MOERT_ASSIGN_OR_RETURN(const uint64_t dim, headDim());
    config["head_dim"] = dim;
    MOERT_ASSIGN_OR_RETURN(const uint64_t rotated, integer("rope.dimension_count", dim));
    config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(dim);
    config["num_key_value_heads"] = config["num_attention_heads"];
    if (!value("attention.head_count_kv"))
      return Status();
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> kvHeads,
                           perLayer("attention.head_count_kv"));
    const uint64_t most = *std::max_element(kvHeads.begin(), kvHeads.end());
    for (const uint64_t count : kvHeads)
      if (count != most && (count != 0 || family.keylessLayer.empty()))
        return mismatch("attention.head_count_kv", "the same number for all layers");
    config["num_key_value_heads"] = most;
    return Status();
  }

  /// A layer has no key heads, or it is a network without a mixer.
  Status setLayerTypes() {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> kvHeads,
                           perLayer("attention.head_count_kv"));
    Json &types = config["layer_types"] = Json::array();
    for (const uint64_t count : kvHeads)
      types.push_back(count == 0 ? family.keylessLayer : "full_attention");
    const Json *const widths = value("feed_forward_length");
    if (!widths || !widths->is_array())
      return Status();
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> list, perLayer("feed_forward_length"));
    for (uint64_t layer = 0; layer < layers; ++layer)
      if (list[layer] != 0)
        types[layer] = "moe";
    config.erase("intermediate_size");
    return Status();
  }

  Status setMamba() {
    MOERT_ASSIGN_OR_RETURN(const uint64_t heads, integer("ssm.time_step_rank"));
    MOERT_ASSIGN_OR_RETURN(const uint64_t inner, integer("ssm.inner_size"));
    MOERT_ASSIGN_OR_RETURN(const uint64_t hidden, integer("embedding_length"));
    if (heads == 0 || hidden == 0 || inner % heads != 0)
      return mismatch("ssm.inner_size", "a multiple of ssm.time_step_rank");
    config["mamba_head_dim"] = inner / heads;
    config["mamba_expand"] = inner / hidden;
    const Json *const rotates = value("rope.scaling.finetuned");
    config["position_embedding_type"] = rotates && *rotates == true ? "rope" : "nope";
    return Status();
  }

  /// Files of before 2025-04 have no key of the two widths but those of whole heads.
  Status setLatentAttention() {
    const bool isSplit = value("attention.key_length_mla");
    const std::string_view suffix = isSplit ? "_mla" : "";
    MOERT_ASSIGN_OR_RETURN(const uint64_t keyDim, integer(strCat("attention.key_length", suffix)));
    MOERT_ASSIGN_OR_RETURN(config["v_head_dim"], integer(strCat("attention.value_length", suffix)));
    MOERT_ASSIGN_OR_RETURN(const uint64_t rotated, integer("rope.dimension_count"));
    if (rotated >= keyDim)
      return mismatch("rope.dimension_count", strCat("less than a head's ", keyDim, " elements"));
    config["qk_nope_head_dim"] = keyDim - rotated;
    config["num_key_value_heads"] = config["num_attention_heads"];
    return Status();
  }

  Status setDeepSeekRouter() {
    const bool isGlm = config["vocab_size"] == kGlmLiteVocabulary &&
                       (layers == kGlmLiteLayers || layers == kGlmLiteLayers + 1);
    MOERT_ASSIGN_OR_RETURN(const uint64_t gating, integer("expert_gating_func", isGlm ? 2 : 1));
    if (gating != 1 && gating != 2)
      return mismatch("expert_gating_func", "1 (softmax) or 2 (sigmoid)");
    if (gating == 2)
      config["model_type"] = "deepseek_v3";
    else
      config["topk_method"] = config["n_group"] == 1 ? "greedy" : "group_limited_greedy";
    return Status();
  }

  /// Layers whose indexer chooses the tokens, and those that take its last choice.
  Status setIndexers() {
    if (!value("attention.indexer.types")) {
      MOERT_ASSIGN_OR_RETURN(const uint64_t context, integer("context_length"));
      if (context >= kSharedIndexersContext) {
        config["index_topk_freq"] = 4;
        config["index_skip_topk_offset"] = 3;
      }
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> chooses,
                           perLayer("attention.indexer.types"));
    Json &types = config["indexer_types"] = Json::array();
    for (const uint64_t flag : chooses)
      types.push_back(flag != 0 ? "full" : "shared");
    return Status();
  }

  Status setDeltaNets() {
    MOERT_ASSIGN_OR_RETURN(const uint64_t heads, integer("ssm.time_step_rank"));
    MOERT_ASSIGN_OR_RETURN(const uint64_t inner, integer("ssm.inner_size"));
    if (heads == 0 || inner % heads != 0)
      return mismatch("ssm.inner_size", "a multiple of ssm.time_step_rank");
    config["linear_value_head_dim"] = inner / heads;
    if (!value("attention.recurrent_layers"))
      return Status();
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> isRecurrent,
                           perLayer("attention.recurrent_layers"));
    Json &types = config["layer_types"] = Json::array();
    for (const uint64_t flag : isRecurrent)
      types.push_back(flag != 0 ? "linear_attention" : "full_attention");
    return Status();
  }

  Status setGemmaLayers() {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> isWindowed,
                           perLayer("attention.sliding_window_pattern"));
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> kvHeads,
                           perLayer("attention.head_count_kv"));
    for (const std::string_view suffix : {"", "_swa"}) {
      const std::string rotated = strCat("rope.dimension_count", suffix);
      MOERT_ASSIGN_OR_RETURN(const uint64_t dim, headDim(suffix));
      MOERT_ASSIGN_OR_RETURN(const uint64_t count, integer(rotated, dim));
      if (count != dim)
        return mismatch(rotated, strCat("a head's ", dim, " elements"));
    }
    Json &types = config["layer_types"] = Json::array();
    for (uint64_t layer = 0; layer < layers; ++layer) {
      const bool isFull = isWindowed[layer] == 0;
      types.push_back(isFull ? "full_attention" : "sliding_attention");
      Json &heads = config[isFull ? "num_global_key_value_heads" : "num_key_value_heads"];
      if (!heads.is_null() && heads != kvHeads[layer])
        return mismatch("attention.head_count_kv", "the same number for all layers of a type");
      heads = kvHeads[layer];
      if (isFull && shards.find(strCat("blk.", layer, ".attn_v.weight")))
        config["attention_k_eq_v"] = false;
    }
    MOERT_ASSIGN_OR_RETURN(const double theta, real("rope.freq_base_swa", kDefaultTheta));
    MOERT_ASSIGN_OR_RETURN(const double part, rotatedPart());
    config["rope_parameters"] = {
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta}}},
        {"full_attention",
         {{"rope_type", "proportional"},
          {"rope_theta", config["rope_theta"]},
          {"partial_rotary_factor", part}}}};
    return Status();
  }

  /// The part of the frequencies that rope_freqs.weight leaves.
  Result<double> rotatedPart() const {
    if (!shards.find("rope_freqs.weight"))
      return 1.0;
    MOERT_ASSIGN_OR_RETURN(const std::vector<float> divisors, rotationDivisors());
    const auto end =
        std::find_if(divisors.begin(), divisors.end(), [](float divisor) { return divisor != 1; });
    if (!std::all_of(end, divisors.end(), [](float divisor) { return divisor >= kUnrotated; }))
      return invalidInput(divisorsName(), ": found divisors of frequencies other than 1 and 1e30, "
                                          "expected only these");
    return static_cast<double>(end - divisors.begin()) / static_cast<double>(divisors.size());
  }

  std::string divisorsName() const { return strCat(fileName, ": tensor \"rope_freqs.weight\""); }

  /// What the frequencies of rotation are divided by.
  Result<std::vector<float>> rotationDivisors() const {
    const auto found = shards.find("rope_freqs.weight");
    const StoredTensor &tensor = *found->tensor;
    if (tensor.type != TensorType::kF32 || tensor.shape.size() != 1 ||
        tensor.shape[0] > kMaxNumber / sizeof(float))
      return invalidInput(divisorsName(), ": found ", tensorTypeName(tensor.type), " ",
                          shapeText(tensor.shape), ", expected F32 and one dimension");
    std::vector<float> divisors(tensor.shape[0]);
    const ShardFile &shard = shards[found->shard];
    MOERT_RETURN_IF_ERROR(shard.read(shard.header().dataOffset + tensor.begin,
                                     std::as_writable_bytes(std::span(divisors))));
    return divisors;
  }

  const GgufFamily &family;
  const std::string &fileName;
  const Json &keys;
  const ShardSet &shards;
  Json config;
  uint64_t layers = 0;
};

} // namespace

Result<const GgufFamily *> ggufFamilyOf(const std::string &fileName, const Json &keys) {
  const std::string type = textAt(keys, "general.type").value_or("model");
  if (type != "model")
    return invalidInput(fileName, ": found ", quoted(type), " as general.type, expected a model: ",
                        type == "adapter" ? "merge the adapter into its model first"
                                          : "give the file of the text model");
  const std::optional<std::string> name = textAt(keys, "general.architecture");
  if (!name)
    return invalidInput(fileName, ": found no key \"general.architecture\", expected one",
                        keys.contains("split.no") ? "; give the first part of a split file" : "");
  const auto families = ggufFamilies();
  const auto family = std::find_if(families.begin(), families.end(), [&](const GgufFamily &each) {
    return each.architecture == *name;
  });
  const Json *const experts = find(keys, *name + ".expert_count");
  if (*name != "clip" && (!experts || *experts == 0))
    return invalidInput(fileName, ": found no key ", quoted(*name + ".expert_count"),
                        ", expected a Mixture-of-Experts model: of a dense one all weights are "
                        "needed for every token, so there is nothing to stream");
  if (family != families.end())
    return &*family;
  std::string supported;
  for (const GgufFamily &each : families)
    supported += strCat(supported.empty() ? "" : ", ", each.architecture);
  return invalidInput(fileName, ": found architecture ", quoted(*name), ", expected one of ",
                      supported);
}

Result<Json> makeGgufConfig(const GgufFamily &family, const std::string &fileName, const Json &keys,
                            const ShardSet &shards) {
  return ConfigMaker(family, fileName, keys, shards).make();
}

} // namespace moec
