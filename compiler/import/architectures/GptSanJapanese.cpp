// GPTSAN-japanese: a prefix language model. The tokens of a prefix attend to each other, all others
// to the earlier ones; norms after each branch; one expert per token beside a dense bypass, and a
// token beyond an expert's capacity passes through. A spout, which conditions a text on numbers, is
// not read. Reference: transformers 4.40, models/gptsan_japanese/modeling_gptsan_japanese.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::strCat;

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

/// The keys of GPTSanJapaneseConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "36000"},
    {"d_model", "int", "1024", KeyEffect::kUsed, "hidden_size"},
    {"max_position_embeddings", "int", "1280"},
    {"d_ff", "int", "8192"},
    {"num_switch_layers", "int", "10"},
    {"num_ext_layers", "int", "0", kDefaultOnly},
    {"num_heads", "int", "16", KeyEffect::kUsed, "num_attention_heads"},
    {"num_experts", "int", "16"},
    {"expert_capacity", "int", "128"},
    {"layer_norm_epsilon", "real", "1e-05"},
    {"router_bias", "flag", "false"},
    {"router_dtype", "text", R"("float32")", kDefaultOnly},
    {"tie_word_embeddings", "flag", "true"},
    {"eos_token_id", "any?", "35999"},
    {"separator_token_id", "any", "35998", kNone}, // A token like others.
    {"num_layers", "any", "10", kNone, "num_hidden_layers"},
    {"d_ext", "any", "4096", kNone},
    {"d_spout", "any", "128", kNone},
    {"router_ignore_padding_tokens", "any", "false", kNone}, // No prompt has padding.
    {"router_jitter_noise", "any", "0.0", kNone},            // Training, as the next ones.
    {"dropout_rate", "any", "0.0", kNone},
    {"initializer_factor", "any", "0.002", kNone},
    {"output_attentions", "any", "false", kNone},
    {"hidden_act", "any", "null", kNone}, // The next ones are of models with rotation.
    {"rope_parameters", "any", "null", kNone},
    {"rope_scaling", "any", "null", kNone},
    {"rope_theta", "any", "10000.0", kNone},
    {"partial_rotary_factor", "any", "null", kNone},
};

const ConfigKeys kGptSanJapaneseKeys = kRows;

namespace {

struct SanConfig {
  DecoderConfig common;
  uint32_t width = 0, experts = 0, capacity = 0;
  bool hasRouterBias = false;
};

Result<SanConfig> readSan(const ConfigObject &config) {
  SanConfig read;
  DecoderConfig &common = read.common;
  MOERT_RETURN_IF_ERROR(checkDataTypes(config));
  MOERT_ASSIGN_OR_RETURN(common.vocabularySize, config.integer("vocab_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(common.hiddenSize, config.integer("d_model", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(common.maxPositions,
                         config.integer("max_position_embeddings", 1, kMaxPositions));
  MOERT_ASSIGN_OR_RETURN(common.layerCount, config.integer("num_switch_layers", 1, kMaxLayers));
  MOERT_ASSIGN_OR_RETURN(common.heads, config.integer("num_heads", 1, kMaxHeads));
  if (common.hiddenSize % common.heads != 0)
    return config.mismatch("num_heads", strCat("a divisor of d_model ", common.hiddenSize));
  common.headDim = common.hiddenSize / common.heads;
  MOERT_ASSIGN_OR_RETURN(const double epsilon, config.real("layer_norm_epsilon", 0, 1));
  common.epsilon = static_cast<float>(epsilon);
  MOERT_ASSIGN_OR_RETURN(common.tiedHead, config.boolean("tie_word_embeddings"));
  common.activation = {.kind = moert::Activation::kRelu};
  MOERT_ASSIGN_OR_RETURN(read.width, config.integer("d_ff", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(read.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(read.capacity, config.integer("expert_capacity", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(read.hasRouterBias, config.boolean("router_bias"));
  return read;
}

AttentionDescription attention(const DecoderConfig &common, const std::string &module) {
  const uint32_t hidden = common.hiddenSize;
  AttentionDescription attention;
  attention.heads = attention.kvHeads = common.heads;
  attention.headDim = attention.valueHeadDim = common.headDim;
  // Division and square root are correctly rounded on every machine.
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(common.headDim)));
  attention.range = moert::AttendedRange::kInputAndEarlier;
  attention.query = linearLayer(module + "q_proj.", hidden, hidden);
  attention.key = linearLayer(module + "k_proj.", hidden, hidden);
  attention.value = linearLayer(module + "v_proj.", hidden, hidden);
  attention.output = linearLayer(module + "out_proj.", hidden, hidden);
  return attention;
}

MoeDescription routed(const SanConfig &config, const std::string &module) {
  const DecoderConfig &common = config.common;
  MoeDescription moe;
  moe.router = softmaxRouter(common, {config.experts, 1, config.width, false},
                             module + "mlp.router.classifier.");
  if (config.hasRouterBias)
    addBias(moe.router.linear, module + "mlp.router.classifier.");
  moe.capacity = {.rule = {.capacity = static_cast<float>(config.capacity)}, .passes = true};
  moe.bypass = linearLayer(module + "soft_bypass_mlp.", common.hiddenSize, common.hiddenSize);
  const GluKind kind = {{{}, "wi", "wo"}, common.hiddenSize, config.width, common.activation};
  for (uint32_t expert = 0; expert < config.experts; ++expert)
    moe.experts.push_back(gluNetwork(strCat(module, "mlp.experts.expert_", expert, "."), kind));
  return moe;
}

} // namespace

Result<ModelDescription> describeGptSanJapanese(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const SanConfig config, readSan(input.config));
  const DecoderConfig &common = config.common;
  const uint32_t hidden = common.hiddenSize;
  ModelDescription model;
  model.vocabularySize = common.vocabularySize;
  model.hiddenSize = hidden;
  model.maxPositions = common.maxPositions;
  model.embedding = matrixSource("model.embed_tokens.weight", common.vocabularySize, hidden);
  model.positions = {
      .table = matrixSource("model.position_embeddings.weight", common.maxPositions, hidden)};
  MOERT_RETURN_IF_ERROR(readSpecialTokens(input, model));
  for (uint32_t number = 0; number < common.layerCount; ++number) {
    const std::string block = strCat("model.blocks.", number, ".");
    LayerDescription &layer = model.layers.emplace_back();
    layer.attention = attention(common, block + "self_attn.self_attn.");
    layer.attentionOutputNorm = layerNorm(block + "self_attn.norm.", hidden, common.epsilon);
    layer.moe = routed(config, block + "feed_forward.");
    layer.networkOutputNorm = layerNorm(block + "feed_forward.norm.", hidden, common.epsilon);
  }
  model.beforeHead = linearLayer("model.last_project.", hidden, hidden);
  addBias(*model.beforeHead, "model.last_project.");
  MOERT_RETURN_IF_ERROR(describeHead(input, common, model));
  model.head.bias = vectorSource("final_logits_bias", common.vocabularySize);
  // The converter from TensorFlow writes the second name.
  for (const char *spout : {"model.spout.", "model.sqout."})
    model.otherParts.push_back(spout);
  return model;
}

} // namespace moec
