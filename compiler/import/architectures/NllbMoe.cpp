// NLLB-MoE: an encoder and a decoder with sinusoidal positions, layer norms and biases; two experts
// per token, which take their places before or after others are dropped. Reference: transformers
// 4.40, models/nllb_moe/modeling_nllb_moe.py (5.24 takes the router's mask for expert numbers).
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"
#include "runtime/base/DeterministicMath.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

constexpr auto kNone = KeyEffect::kNone;
constexpr auto kDefaultOnly = KeyEffect::kDefaultOnly;

/// The keys of NllbMoeConfig. Policies for the second expert other than "all" draw random numbers.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "128112"},
    {"d_model", "int", "1024", KeyEffect::kUsed, "hidden_size"},
    {"max_position_embeddings", "int", "1024"},
    {"encoder_layers", "int", "12"},
    {"encoder_ffn_dim", "int", "4096"},
    {"encoder_attention_heads", "int", "16", KeyEffect::kUsed, "num_attention_heads"},
    {"encoder_sparse_step", "int", "4"},
    {"decoder_layers", "int", "12"},
    {"decoder_ffn_dim", "int", "4096"},
    {"decoder_attention_heads", "int", "16"},
    {"decoder_sparse_step", "int", "4"},
    {"num_experts", "int", "128"},
    {"router_bias", "flag", "false"},
    {"router_dtype", "text", R"("float32")", kDefaultOnly},
    {"activation_function", "text", R"("relu")", kDefaultOnly},
    {"scale_embedding", "flag", "true"},
    {"second_expert_policy", "text", R"("all")", kDefaultOnly},
    {"normalize_router_prob_before_dropping", "flag", "false"},
    {"batch_prioritized_routing", "flag", "false"},
    {"moe_eval_capacity_token_fraction", "real", "1.0"},
    {"expert_capacity", "int", "64"},
    {"moe_token_dropout", "real", "0.2"},
    {"tie_word_embeddings", "flag", "true"},
    {"pad_token_id", "int", "1"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "2"},
    {"decoder_start_token_id", "int", "2"},
    {"num_hidden_layers", "any", "12", kNone},
    {"router_ignore_padding_tokens", "any", "false", kNone}, // No input has padding.
    {"encoder_layerdrop", "any", "0.05", kNone},             // Training, as the next ones.
    {"decoder_layerdrop", "any", "0.05", kNone},
    {"router_z_loss_coef", "any", "0.001", kNone},
    {"dropout", "any", "0.1", kNone},
    {"activation_dropout", "any", "0.0", kNone},
    {"init_std", "any", "0.02", kNone},
    {"max_length", "any", "20", kNone},
    {"hidden_act", "any", "null", kNone}, // The next ones are of models with rotation.
    {"rope_parameters", "any", "null", kNone},
    {"rope_scaling", "any", "null", kNone},
    {"rope_theta", "any", "10000.0", kNone},
    {"partial_rotary_factor", "any", "null", kNone},
};

const ConfigKeys kNllbMoeKeys = kRows;

namespace {

/// Epsilon of all norms, which no key has.
constexpr float kEpsilon = 1e-5f;

/// One of the two stacks.
struct Stack {
  std::string prefix; // "model.encoder."
  uint32_t layers = 0, heads = 0, width = 0, sparseStep = 0;
};

struct NllbConfig {
  DecoderConfig common;
  uint32_t experts = 0;
  moert::CapacityRule capacity;
  bool hasRouterBias = false;
  Stack encoder, decoder;
};

Result<Stack> readStack(const ConfigObject &config, const std::string &name, uint32_t hidden) {
  Stack stack;
  MOERT_ASSIGN_OR_RETURN(stack.layers, config.integer(name + "_layers", 1, kMaxLayers));
  MOERT_ASSIGN_OR_RETURN(stack.heads, config.integer(name + "_attention_heads", 1, kMaxHeads));
  if (hidden % stack.heads != 0)
    return config.mismatch(name + "_attention_heads", strCat("a divisor of d_model ", hidden));
  MOERT_ASSIGN_OR_RETURN(stack.width, config.integer(name + "_ffn_dim", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(stack.sparseStep,
                         config.integer(name + "_sparse_step", 0, kMaxLayerNumber));
  return stack;
}

/// The reference rounds up the product of f64 with the number of tokens, the runtime that of f32:
/// fractions for which they differ are refused.
Status readCapacity(const ConfigObject &config, NllbConfig &read) {
  constexpr std::string_view kFraction = "moe_eval_capacity_token_fraction";
  moert::CapacityRule &rule = read.capacity;
  MOERT_ASSIGN_OR_RETURN(const double fraction, config.real(kFraction, -1, 1));
  rule.capacity = static_cast<float>(fraction);
  rule.kind = moert::CapacityKind::kTokenFraction;
  MOERT_ASSIGN_OR_RETURN(const uint32_t most, config.integer("expert_capacity", 1, kMaxWidth));
  if (fraction <= 0) {
    rule.kind = moert::CapacityKind::kTokens;
    rule.capacity = static_cast<float>(most);
  }
  for (uint32_t tokens = 1; fraction > 0 && tokens <= read.common.maxPositions; ++tokens)
    if (capacityOf(rule, tokens, 2, read.experts) !=
        static_cast<uint32_t>(std::ceil(fraction * tokens)))
      return config.mismatch(kFraction, strCat("a fraction whose product with ", tokens,
                                               " tokens is the same in f32 and f64"));
  MOERT_ASSIGN_OR_RETURN(rule.byPriority, config.boolean("batch_prioritized_routing"));
  MOERT_ASSIGN_OR_RETURN(rule.normalizesBefore,
                         config.boolean("normalize_router_prob_before_dropping"));
  rule.normalizesAfter = !rule.normalizesBefore;
  MOERT_ASSIGN_OR_RETURN(const double dropout, config.real("moe_token_dropout", 0, 1));
  rule.weightScale = static_cast<float>(1 - dropout);
  return Status();
}

Result<NllbConfig> readNllb(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  NllbConfig read;
  DecoderConfig &common = read.common;
  MOERT_RETURN_IF_ERROR(checkDataTypes(config));
  MOERT_ASSIGN_OR_RETURN(common.vocabularySize, config.integer("vocab_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(common.hiddenSize, config.integer("d_model", 4, kMaxWidth));
  if (common.hiddenSize % 2 != 0)
    return config.mismatch("d_model", "an even width, half of it for sines");
  MOERT_ASSIGN_OR_RETURN(common.maxPositions,
                         config.integer("max_position_embeddings", 1, kMaxPositions));
  MOERT_ASSIGN_OR_RETURN(common.tiedHead, config.boolean("tie_word_embeddings"));
  common.activation = {.kind = moert::Activation::kRelu};
  MOERT_ASSIGN_OR_RETURN(read.experts, config.integer("num_experts", 2, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(read.hasRouterBias, config.boolean("router_bias"));
  MOERT_RETURN_IF_ERROR(readCapacity(config, read));
  MOERT_ASSIGN_OR_RETURN(read.encoder, readStack(config, "encoder", common.hiddenSize));
  MOERT_ASSIGN_OR_RETURN(read.decoder, readStack(config, "decoder", common.hiddenSize));
  // Published without, saved anew with it.
  common.prefix = input.hasTensor("model.shared.weight") ? "model." : "";
  read.encoder.prefix = common.prefix + "encoder.";
  read.decoder.prefix = common.prefix + "decoder.";
  return read;
}

LinearDescription biasedLinear(const std::string &module, uint32_t outputs, uint32_t inputs) {
  LinearDescription linear = linearLayer(module, outputs, inputs);
  addBias(linear, module);
  return linear;
}

AttentionDescription attention(uint32_t hidden, const Stack &stack, const std::string &module,
                               moert::AttendedRange range) {
  AttentionDescription attention;
  attention.heads = attention.kvHeads = stack.heads;
  attention.headDim = attention.valueHeadDim = hidden / stack.heads;
  // Division and square root are correctly rounded on every machine.
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.headDim)));
  attention.range = range;
  attention.query = biasedLinear(module + "q_proj.", hidden, hidden);
  attention.key = biasedLinear(module + "k_proj.", hidden, hidden);
  attention.value = biasedLinear(module + "v_proj.", hidden, hidden);
  attention.output = biasedLinear(module + "out_proj.", hidden, hidden);
  return attention;
}

MoeDescription routed(const NllbConfig &config, const GluKind &kind, const std::string &module) {
  MoeDescription moe;
  moe.router = softmaxRouter(config.common, {config.experts, 2, kind.width, false},
                             module + "router.classifier.");
  if (config.hasRouterBias)
    addBias(moe.router.linear, module + "router.classifier.");
  moe.capacity = {.rule = config.capacity};
  for (uint32_t expert = 0; expert < config.experts; ++expert)
    moe.experts.push_back(gluNetwork(strCat(module, "experts.expert_", expert, "."), kind));
  const auto biases = [&](const char *name, uint32_t width) {
    WeightSource all =
        vectorSource(strCat(module, "experts.expert_*.", name, ".bias"), config.experts * width);
    all.shards = config.experts;
    return all;
  };
  moe.upBias = biases("fc1", kind.width);
  moe.downBias = biases("fc2", kind.hidden);
  return moe;
}

void addStack(const NllbConfig &config, const Stack &stack, ModelDescription &model) {
  const bool isEncoder = &stack == &config.encoder;
  const uint32_t hidden = config.common.hiddenSize;
  for (uint32_t number = 0; number < stack.layers; ++number) {
    const std::string prefix = strCat(stack.prefix, "layers.", number, ".");
    LayerDescription &layer = model.layers.emplace_back();
    layer.attentionNorm = layerNorm(prefix + "self_attn_layer_norm.", hidden, kEpsilon);
    layer.attention = attention(hidden, stack, prefix + "self_attn.",
                                isEncoder ? moert::AttendedRange::kInputAndEarlier
                                          : moert::AttendedRange::kEarlier);
    if (!isEncoder) {
      layer.crossNorm = layerNorm(prefix + "cross_attention_layer_norm.", hidden, kEpsilon);
      layer.cross =
          attention(hidden, stack, prefix + "cross_attention.", moert::AttendedRange::kInput);
    }
    layer.networkNorm = layerNorm(prefix + "ff_layer_norm.", hidden, kEpsilon);
    const GluKind kind = {{{}, "fc1", "fc2"}, hidden, stack.width, config.common.activation};
    const std::string network = prefix + "ffn.";
    if (stack.sparseStep > 0 && (number + 1) % stack.sparseStep == 0) {
      layer.moe = routed(config, kind, network);
    } else {
      layer.dense = gluNetwork(network, kind);
      addBias(layer.dense->up, network + "fc1.");
      addBias(layer.dense->down, network + "fc2.");
    }
  }
}

/// Sines and cosines of position + pad_token_id + 1, with the frequencies 10000^(-i / (half - 1)),
/// rounded as in the reference.
Status addPositions(const ConfigObject &config, ModelDescription &model) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t pad,
                         config.integer("pad_token_id", 0, model.vocabularySize - 1));
  const uint32_t half = model.hiddenSize / 2;
  const auto step = static_cast<float>(moert::deterministicLog(10000.0) / (half - 1));
  RopeDescription &rope = model.ropes.emplace_back();
  for (uint32_t i = 0; i < half; ++i)
    rope.inverseFrequencies.push_back(static_cast<float>(
        moert::deterministicExp(static_cast<double>(static_cast<float>(i) * -step))));
  model.positions = {.table = std::nullopt, .rope = 0, .offset = pad + 1};
  return Status();
}

} // namespace

Result<ModelDescription> describeNllbMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const NllbConfig config, readNllb(input));
  const DecoderConfig &common = config.common;
  ModelDescription model;
  model.vocabularySize = common.vocabularySize;
  model.hiddenSize = common.hiddenSize;
  model.maxPositions = common.maxPositions;
  model.embedding =
      matrixSource(common.prefix + "shared.weight", common.vocabularySize, common.hiddenSize);
  MOERT_ASSIGN_OR_RETURN(const bool scales, input.config.boolean("scale_embedding"));
  if (scales)
    model.embeddingScale = static_cast<float>(std::sqrt(static_cast<double>(common.hiddenSize)));
  MOERT_RETURN_IF_ERROR(readSpecialTokens(input, model));
  MOERT_ASSIGN_OR_RETURN(const uint32_t first, input.config.integer("decoder_start_token_id", 0,
                                                                    common.vocabularySize - 1));
  model.bosToken = static_cast<int32_t>(first);
  MOERT_RETURN_IF_ERROR(addPositions(input.config, model));
  addStack(config, config.encoder, model);
  addStack(config, config.decoder, model);
  if (std::none_of(model.layers.begin(), model.layers.end(),
                   [](const LayerDescription &layer) { return layer.moe.has_value(); }))
    return input.config.mismatch("encoder_sparse_step",
                                 "a step that makes at least one layer one of routed experts");
  model.encoderLayers = config.encoder.layers;
  model.encoderNorm = layerNorm(config.encoder.prefix + "layer_norm.", common.hiddenSize, kEpsilon);
  model.finalNorm = layerNorm(config.decoder.prefix + "layer_norm.", common.hiddenSize, kEpsilon);
  MOERT_RETURN_IF_ERROR(describeHead(input, common, model));
  for (const Stack *stack : {&config.encoder, &config.decoder})
    for (const char *copy : {"embed_tokens.weight", "embed_positions.weights"})
      model.otherParts.push_back(stack->prefix + copy);
  return model;
}

} // namespace moec
