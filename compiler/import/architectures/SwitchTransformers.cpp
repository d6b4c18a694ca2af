// Switch Transformers: T5's encoder and decoder with one expert per token, of which each takes at
// most expert_capacity tokens of a call. Reference: transformers,
// models/switch_transformers/modular_switch_transformers.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"
#include "runtime/policy/PositionBuckets.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

/// The keys of SwitchTransformersConfig and of its published files. The reference computes the
/// sparse steps anew.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32128"},
    {"d_model", "int", "768", KeyEffect::kUsed, "hidden_size"},
    {"d_kv", "int", "64"},
    {"d_ff", "int", "2048"},
    {"expert_capacity", "int", "64"},
    {"num_layers", "int", "12", KeyEffect::kUsed, "num_hidden_layers"},
    {"num_sparse_encoder_layers", "int", "3"},
    {"num_decoder_layers", "int?", "12"},
    {"num_sparse_decoder_layers", "int", "3"},
    {"num_heads", "int", "12", KeyEffect::kUsed, "num_attention_heads"},
    {"num_experts", "int", "8"},
    {"n_positions", "int", "512"},
    {"router_bias", "flag", "false"},
    {"router_dtype", "text", R"("float32")", kDefaultOnly},
    {"router_type", "text", R"("tokens_masked")", kDefaultOnly},
    {"relative_attention_num_buckets", "int", "32"},
    {"relative_attention_max_distance", "int", "128"},
    {"layer_norm_epsilon", "real", "1e-06"},
    {"dense_act_fn", "text", R"("relu")", kDefaultOnly},
    {"feed_forward_proj", "text", R"("relu")", kDefaultOnly},
    {"is_gated_act", "flag", "false", kDefaultOnly},
    {"tie_word_embeddings", "flag", "true"},
    {"pad_token_id", "int", "0"},
    {"decoder_start_token_id", "int?", "null"},
    {"eos_token_id", "any?", "1"},
    {"encoder_sparse_step", "any", "null", kNone},
    {"decoder_sparse_step", "any", "null", kNone},
    {"router_ignore_padding_tokens", "any", "false", kNone}, // No input has padding.
    {"router_jitter_noise", "any", "0.01", kNone},           // Training, as the next ones.
    {"router_z_loss_coef", "any", "0.001", kNone},
    {"add_router_probs", "any", "false", kNone},
    {"dropout_rate", "any", "0.1", kNone},
    {"classifier_dropout", "any", "0.0", kNone},
    {"initializer_factor", "any", "1.0", kNone},
    {"output_past", "any", "true", kNone},
    {"task_specific_params", "any", "null", kNone},
    {"is_decoder", "any", "false", kNone},
    {"hidden_act", "any", "null", kNone}, // The next ones are of models with rotation.
    {"rope_parameters", "any", "null", kNone},
    {"rope_scaling", "any", "null", kNone},
    {"rope_theta", "any", "10000.0", kNone},
    {"partial_rotary_factor", "any", "null", kNone},
};

const ConfigKeys kSwitchTransformersKeys = kRows;

namespace {

struct SwitchConfig {
  DecoderConfig common;
  uint32_t encoderLayers = 0, decoderLayers = 0;
  uint32_t encoderStep = 0, decoderStep = 0; // One of so many layers is routed; 0: none.
  uint32_t width = 0, experts = 0, capacity = 0, buckets = 0, maxDistance = 0;
  bool hasRouterBias = false;
};

/// Layer 1 of every `step` layers is routed.
Result<uint32_t> readStep(const ConfigObject &config, std::string_view key, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t sparse, config.integer(key, 0, kMaxLayers));
  return sparse == 0 ? layers : layers / sparse;
}

bool isRouted(uint32_t layer, uint32_t step) {
  return step == 1 || (step > 0 && layer % step == 1);
}

Status readBuckets(const ConfigObject &config, SwitchConfig &read) {
  constexpr std::string_view kBuckets = "relative_attention_num_buckets";
  MOERT_ASSIGN_OR_RETURN(read.buckets, config.integer(kBuckets, 4, moert::kMaxPositionBuckets));
  if (read.buckets % 4 != 0)
    return config.mismatch(kBuckets, "a multiple of 4");
  MOERT_ASSIGN_OR_RETURN(read.maxDistance,
                         config.integer("relative_attention_max_distance", read.buckets / 2 + 1,
                                        moert::kMaxPositionDistance));
  return Status();
}

Status readStacks(const ConfigObject &config, SwitchConfig &read) {
  MOERT_ASSIGN_OR_RETURN(read.encoderLayers, config.integer("num_layers", 1, kMaxLayers));
  read.decoderLayers = read.encoderLayers;
  if (config.has("num_decoder_layers")) {
    MOERT_ASSIGN_OR_RETURN(read.decoderLayers, config.integer("num_decoder_layers", 1, kMaxLayers));
  }
  MOERT_ASSIGN_OR_RETURN(read.encoderStep,
                         readStep(config, "num_sparse_encoder_layers", read.encoderLayers));
  MOERT_ASSIGN_OR_RETURN(read.decoderStep,
                         readStep(config, "num_sparse_decoder_layers", read.decoderLayers));
  MOERT_ASSIGN_OR_RETURN(read.width, config.integer("d_ff", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(read.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(read.capacity, config.integer("expert_capacity", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(read.hasRouterBias, config.boolean("router_bias"));
  return readBuckets(config, read);
}

Result<SwitchConfig> readSwitch(const ConfigObject &config) {
  SwitchConfig read;
  DecoderConfig &common = read.common;
  MOERT_RETURN_IF_ERROR(checkDataTypes(config));
  MOERT_ASSIGN_OR_RETURN(common.vocabularySize, config.integer("vocab_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(common.hiddenSize, config.integer("d_model", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(common.heads, config.integer("num_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(common.headDim, config.integer("d_kv", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(common.maxPositions, config.integer("n_positions", 1, kMaxPositions));
  MOERT_ASSIGN_OR_RETURN(const double epsilon, config.real("layer_norm_epsilon", 0, 1));
  MOERT_ASSIGN_OR_RETURN(common.tiedHead, config.boolean("tie_word_embeddings"));
  common.epsilon = static_cast<float>(epsilon);
  common.activation = {.kind = moert::Activation::kRelu};
  MOERT_RETURN_IF_ERROR(readStacks(config, read));
  return read;
}

AttentionDescription attention(const DecoderConfig &common, const std::string &prefix) {
  AttentionDescription attention;
  attention.heads = attention.kvHeads = common.heads;
  attention.headDim = attention.valueHeadDim = common.headDim;
  attention.scale = 1;
  const uint32_t width = common.heads * common.headDim;
  attention.query = linearLayer(prefix + "q.", width, common.hiddenSize);
  attention.key = linearLayer(prefix + "k.", width, common.hiddenSize);
  attention.value = linearLayer(prefix + "v.", width, common.hiddenSize);
  attention.output = linearLayer(prefix + "o.", common.hiddenSize, width);
  return attention;
}

MoeDescription routed(const SwitchConfig &config, const GluKind &kind, const std::string &module) {
  MoeDescription moe;
  moe.router = softmaxRouter(config.common, {config.experts, 1, config.width, false},
                             module + "router.classifier.");
  if (config.hasRouterBias)
    addBias(moe.router.linear, module + "router.classifier.");
  moe.capacity = {.rule = {.capacity = static_cast<float>(config.capacity)}};
  for (uint32_t expert = 0; expert < config.experts; ++expert)
    moe.experts.push_back(gluNetwork(strCat(module, "experts.expert_", expert, "."), kind));
  return moe;
}

/// Adds the layers of "encoder." or "decoder." and its position bias, which layer 0 has for all.
void addStack(const SwitchConfig &config, bool isEncoder, ModelDescription &model) {
  const DecoderConfig &common = config.common;
  const std::string stack = isEncoder ? "encoder." : "decoder.";
  const auto bias = static_cast<uint32_t>(model.positionBiases.size());
  WeightSource table =
      vectorSource(stack + "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                   config.buckets * common.heads);
  table.stackedVectors = config.buckets;
  model.positionBiases.push_back({std::move(table), config.buckets, config.maxDistance});
  const uint32_t layers = isEncoder ? config.encoderLayers : config.decoderLayers;
  for (uint32_t number = 0; number < layers; ++number) {
    const std::string block = strCat(stack, "block.", number, ".layer.");
    const auto norm = [&](int part) {
      return rmsNorm(common, strCat(block, part, ".layer_norm.weight"), common.hiddenSize);
    };
    LayerDescription &layer = model.layers.emplace_back();
    layer.attentionNorm = norm(0);
    layer.attention = attention(common, block + "0.SelfAttention.");
    layer.attention.positionBias = bias;
    if (isEncoder) {
      layer.attention.range = moert::AttendedRange::kInputAndEarlier;
    } else {
      layer.crossNorm = norm(1);
      layer.cross = attention(common, block + "1.EncDecAttention.");
      layer.cross->range = moert::AttendedRange::kInput;
    }
    const int network = isEncoder ? 1 : 2;
    layer.networkNorm = norm(network);
    const std::string module = strCat(block, network, ".mlp.");
    const GluKind kind = {{{}, "wi", "wo"}, common.hiddenSize, config.width, common.activation};
    if (isRouted(number, isEncoder ? config.encoderStep : config.decoderStep))
      layer.moe = routed(config, kind, module);
    else
      layer.dense = gluNetwork(module, kind);
  }
}

Status readFirstToken(const ConfigObject &config, ModelDescription &model) {
  const std::string_view key =
      config.has("decoder_start_token_id") ? "decoder_start_token_id" : "pad_token_id";
  MOERT_ASSIGN_OR_RETURN(const uint32_t first, config.integer(key, 0, model.vocabularySize - 1));
  model.bosToken = static_cast<int32_t>(first);
  return Status();
}

} // namespace

Result<ModelDescription> describeSwitchTransformers(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const SwitchConfig config, readSwitch(input.config));
  const DecoderConfig &common = config.common;
  if (!isRouted(1, config.encoderStep) && !isRouted(1, config.decoderStep))
    return input.config.mismatch("num_sparse_encoder_layers",
                                 "at least one layer with routed experts");
  ModelDescription model;
  model.vocabularySize = common.vocabularySize;
  model.hiddenSize = common.hiddenSize;
  model.maxPositions = common.maxPositions;
  model.embedding = matrixSource("shared.weight", common.vocabularySize, common.hiddenSize);
  MOERT_RETURN_IF_ERROR(readSpecialTokens(input, model));
  MOERT_RETURN_IF_ERROR(readFirstToken(input.config, model));
  addStack(config, true, model);
  addStack(config, false, model);
  model.encoderLayers = config.encoderLayers;
  model.encoderNorm = rmsNorm(common, "encoder.final_layer_norm.weight", common.hiddenSize);
  model.finalNorm = rmsNorm(common, "decoder.final_layer_norm.weight", common.hiddenSize);
  MOERT_RETURN_IF_ERROR(describeHead(input, common, model));
  // Division and square root are correctly rounded on every machine.
  if (common.tiedHead)
    model.logitsScale = static_cast<float>(1 / std::sqrt(static_cast<double>(common.hiddenSize)));
  for (const char *copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    model.otherParts.push_back(copy);
  return model;
}

} // namespace moec
