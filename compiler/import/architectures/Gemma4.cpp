// Gemma 4 with routed experts (26B-A4B), its text part: a dense network and the experts side by
// side, each between its own norms; layers with a window alternate with full ones, which have heads
// of another width, fewer keys, no matrix of values and a rotation of their own; the router reads
// the residual stream itself. Reference: transformers, models/gemma4/modeling_gemma4.py. The
// embedding's factor is rounded to f32, as the reference does in f32.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Gemma4TextConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "262144"},
    {"hidden_size", "int", "2304"},
    {"intermediate_size", "int", "9216"},
    {"num_hidden_layers", "int", "30"},
    {"num_attention_heads", "int", "8"},
    {"num_key_value_heads", "int?", "4"},
    {"head_dim", "int?", "256"},
    {"hidden_activation", "text", R"("gelu_pytorch_tanh")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-06"},
    {"eos_token_id", "any?", "1"},
    {"bos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "true"},
    {"rope_parameters", "object~",
     R"({"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}})"},
    {"sliding_window", "int", "512"},
    {"layer_types", "list?", "null"},
    {"final_logit_softcapping", "real?", "null"},
    {"use_bidirectional_attention", "text?", "null"},
    {"vocab_size_per_layer_input", "any", "262144", KeyEffect::kNone},
    {"hidden_size_per_layer_input", "int", "256"},
    {"attention_k_eq_v", "flag", "false"},
    {"num_kv_shared_layers", "int", "0", KeyEffect::kDefaultOnly},
    {"enable_moe_block", "flag", "false"},
    {"use_double_wide_mlp", "flag", "false", KeyEffect::kDefaultOnly},
    {"num_experts", "int", "null"},
    {"top_k_experts", "int", "null"},
    {"moe_intermediate_size", "int", "null"},
    {"per_layer_config", "object?", "null"},
    {"global_head_dim", "int", "512"},
    {"num_global_key_value_heads", "int?", "null"},
};

const ConfigKeys kGemma4TextKeys = kRows;

/// The keys of Gemma4Config.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"audio_config", "any", "null", KeyEffect::kNone},
    {"boi_token_id", "any", "255999", KeyEffect::kNone},
    {"eoi_token_id", "any", "258882", KeyEffect::kNone},
    {"image_token_id", "any", "258880", KeyEffect::kNone},
    {"video_token_id", "any", "258884", KeyEffect::kNone},
    {"boa_token_id", "any", "256000", KeyEffect::kNone},
    {"eoa_token_index", "any", "258883", KeyEffect::kNone},
    {"audio_token_id", "any", "258881", KeyEffect::kNone},
    {"eos_token_id", "any?", "null"},
    {"bos_token_id", "any?", "null"},
    {"tie_word_embeddings", "flag", "true"},
};

const ConfigKeys kGemma4Keys = kOuterRows;

namespace {

constexpr double kMostSoftCap = 1e6;
constexpr uint32_t kFullInterval = 6; // Without layer_types, every sixth layer has no window.
constexpr size_t kMaxDigits = 9;      // A layer's number may have zeros in front of it.

/// Heads of a type of layer.
struct LayerKind {
  uint32_t headDim = 0, kvHeads = 0;
};

struct Gemma4Config {
  DecoderConfig decoder; // Heads are those that no key changes; ropes: window, full.
  LayerKind windowed, full;
  bool valuesAreKeys = false; // In full layers.
  uint32_t window = 0;
  std::vector<bool> isFull; // Per layer.
  uint32_t denseWidth = 0;
  RoutedConfig routed;
  std::optional<float> softCap;

  LayerKind &kindOf(uint32_t layer) { return isFull[layer] ? full : windowed; }
};

/// Parts that other sizes of the family have.
Status refuseOtherSizes(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const bool isRouted, config.boolean("enable_moe_block"));
  if (!isRouted)
    return config.mismatch("enable_moe_block", "true: models without routed experts do not fit");
  MOERT_ASSIGN_OR_RETURN(const uint32_t size,
                         config.integer("hidden_size_per_layer_input", 0, kMaxWidth));
  if (size != 0)
    return config.mismatch("hidden_size_per_layer_input",
                           "0, as in the models with routed experts");
  if (!config.has("use_bidirectional_attention"))
    return Status();
  // "vision" concerns the tokens of images only.
  MOERT_ASSIGN_OR_RETURN(const std::string direction, config.string("use_bidirectional_attention"));
  if (direction != "vision")
    return config.mismatch("use_bidirectional_attention", "\"vision\" or null");
  return Status();
}

Status readMixers(const ConfigObject &config, Gemma4Config &gemma) {
  const uint32_t layers = gemma.decoder.layerCount;
  MOERT_ASSIGN_OR_RETURN(gemma.window, config.integer("sliding_window", 1, kMaxWindow));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"sliding_attention", "full_attention"}));
  for (uint32_t layer = 0; layer < layers; ++layer)
    gemma.isFull.push_back(types.empty() ? (layer + 1) % kFullInterval == 0
                                         : types[layer] == "full_attention");
  gemma.isFull.back() = true; // As the reference class forces it.
  return Status();
}

Status readHeads(const ConfigObject &config, std::string_view dimKey, std::string_view kvKey,
                 uint32_t heads, LayerKind &kind) {
  if (config.has(dimKey)) {
    MOERT_ASSIGN_OR_RETURN(kind.headDim, config.integer(dimKey, 2, kMaxHeadDim));
    if (kind.headDim % 2 != 0)
      return config.mismatch(dimKey, "an even width of a head");
  }
  if (config.has(kvKey)) {
    MOERT_ASSIGN_OR_RETURN(kind.kvHeads, config.integer(kvKey, 1, kMaxHeads));
    if (heads % kind.kvHeads != 0)
      return config.mismatch(kvKey, strCat("a divisor of num_attention_heads, ", heads));
  }
  return Status();
}

/// What per_layer_config, as transformers 5.15 and later write it, says about layers by number.
Status readPerLayer(const ConfigObject &config, Gemma4Config &gemma) {
  const uint32_t layers = gemma.decoder.layerCount;
  MOERT_ASSIGN_OR_RETURN(const ConfigObject entries, config.object("per_layer_config"));
  std::vector<LayerKind> kinds(layers, gemma.windowed);
  std::vector<bool> isListed(layers);
  for (const std::string &name : entries.keys()) {
    const bool isNumber =
        !name.empty() && name.size() <= kMaxDigits &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    const uint64_t layer = isNumber ? std::stoull(name) : layers;
    if (layer >= layers || isListed[layer])
      return entries.mismatch(name, strCat("a layer's number below ", layers, ", each once"));
    isListed[layer] = true;
    MOERT_ASSIGN_OR_RETURN(const ConfigObject entry, entries.object(name));
    for (const std::string &key : entry.keys())
      if (key != "head_dim" && key != "num_key_value_heads")
        return entry.mismatch(key, "only head_dim and num_key_value_heads for a single layer");
    MOERT_RETURN_IF_ERROR(
        readHeads(entry, "head_dim", "num_key_value_heads", gemma.decoder.heads, kinds[layer]));
  }
  for (uint32_t layer = layers; layer-- > 0;) // The first layer of each type comes last.
    gemma.kindOf(layer) = kinds[layer];
  for (uint32_t layer = 0; layer < layers; ++layer)
    if (gemma.kindOf(layer).headDim != kinds[layer].headDim ||
        gemma.kindOf(layer).kvHeads != kinds[layer].kvHeads)
      return config.mismatch("per_layer_config",
                             strCat("the same heads for all layers of a type; layer ", layer,
                                    " has others than the first of its type"));
  return Status();
}

Status readAttention(const ConfigObject &config, Gemma4Config &gemma) {
  MOERT_ASSIGN_OR_RETURN(gemma.valuesAreKeys, config.boolean("attention_k_eq_v"));
  gemma.windowed = gemma.full = {gemma.decoder.headDim, gemma.decoder.kvHeads};
  if (config.has("per_layer_config"))
    return readPerLayer(config, gemma);
  if (config.contains("per_layer_config")) // null: all layers are alike.
    return Status();
  return readHeads(config, "global_head_dim",
                   gemma.valuesAreKeys ? "num_global_key_value_heads" : "", gemma.decoder.heads,
                   gemma.full);
}

Status readRopes(const ConfigObject &config, Gemma4Config &gemma) {
  RopeKind kind;
  kind.mayBeProportional = true;
  kind.dim = gemma.full.headDim;
  MOERT_ASSIGN_OR_RETURN(RopeDescription full, readLayerRope(config, "full_attention", kind));
  gemma.decoder.ropes = {std::move(full)};
  if (std::find(gemma.isFull.begin(), gemma.isFull.end(), false) == gemma.isFull.end())
    return Status();
  kind.dim = gemma.windowed.headDim;
  MOERT_ASSIGN_OR_RETURN(RopeDescription window, readLayerRope(config, "sliding_attention", kind));
  gemma.decoder.ropes.insert(gemma.decoder.ropes.begin(), std::move(window));
  return Status();
}

Status readNetworks(const ConfigObject &config, Gemma4Config &gemma) {
  MOERT_ASSIGN_OR_RETURN(const std::string activation, config.string("hidden_activation"));
  if (activation != "gelu_pytorch_tanh")
    return config.mismatch("hidden_activation", "\"gelu_pytorch_tanh\"");
  gemma.decoder.activation.kind = moert::Activation::kGeluTanh;
  MOERT_ASSIGN_OR_RETURN(gemma.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  RoutedConfig &routed = gemma.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "top_k_experts", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  return Status();
}

Result<Gemma4Config> readGemma4(const ConfigObject &config) {
  Gemma4Config gemma;
  MOERT_ASSIGN_OR_RETURN(gemma.decoder, readDecoderConfig(config));
  MOERT_RETURN_IF_ERROR(refuseOtherSizes(config));
  MOERT_RETURN_IF_ERROR(readMixers(config, gemma));
  MOERT_RETURN_IF_ERROR(readAttention(config, gemma));
  MOERT_RETURN_IF_ERROR(readRopes(config, gemma));
  MOERT_RETURN_IF_ERROR(readNetworks(config, gemma));
  if (config.has("final_logit_softcapping")) {
    MOERT_ASSIGN_OR_RETURN(const double cap,
                           config.real("final_logit_softcapping", kLeastMultiplier, kMostSoftCap));
    gemma.softCap = static_cast<float>(cap);
  }
  return gemma;
}

void describeAttention(const Gemma4Config &gemma, bool isFull, const std::string &module,
                       AttentionDescription &attention) {
  DecoderConfig decoder = gemma.decoder;
  const LayerKind &kind = isFull ? gemma.full : gemma.windowed;
  decoder.headDim = attention.headDim = attention.valueHeadDim = kind.headDim;
  decoder.kvHeads = attention.kvHeads = kind.kvHeads;
  attention.valuesAreKeys = isFull && gemma.valuesAreKeys;
  attention.query.weight.rows = attention.output.weight.cols = decoder.heads * decoder.headDim;
  attention.key.weight.rows = attention.value.weight.rows = decoder.kvHeads * decoder.headDim;
  attention.window = isFull ? 0 : gemma.window;
  attention.rope = isFull ? static_cast<uint32_t>(decoder.ropes.size() - 1) : 0;
  attention.scale = 1;
  attention.valueNorm = decoder.epsilon;
  addHeadNorms(decoder, module + "q_norm", module + "k_norm", NormExtent::kHead, attention);
}

MoeDescription describeMoe(const Gemma4Config &gemma, const std::string &prefix) {
  const DecoderConfig &decoder = gemma.decoder;
  const uint32_t hidden = decoder.hiddenSize;
  const auto norm = [&](std::string_view name) {
    return rmsNorm(decoder, strCat(prefix, name), hidden);
  };
  MoeDescription moe;
  moe.router = softmaxRouter(decoder, gemma.routed, prefix + "router.proj.");
  moe.router.inputNorm = norm("router.scale");
  moe.router.inputScale = static_cast<float>(1 / std::sqrt(static_cast<double>(hidden)));
  moe.router.weightFactors = vectorSource(prefix + "router.per_expert_scale", gemma.routed.experts);
  moe.inputNorm = norm("pre_feedforward_layernorm_2.weight");
  moe.outputNorm = norm("post_feedforward_layernorm_2.weight");
  moe.experts =
      fusedExperts(prefix + "experts.gate_up_proj", prefix + "experts.down_proj",
                   {{}, hidden, gemma.routed.width, decoder.activation}, gemma.routed.experts);
  SharedExpertDescription &dense = moe.shared.emplace();
  dense.inputNorm = norm("pre_feedforward_layernorm.weight");
  dense.outputNorm = norm("post_feedforward_layernorm_1.weight");
  dense.network = gluNetwork(prefix + "mlp.", {{}, hidden, gemma.denseWidth, decoder.activation});
  return moe;
}

} // namespace

Result<ModelDescription> describeGemma4(const ArchitectureInput &whole) {
  ArchitectureInput input = whole;
  MOERT_ASSIGN_OR_RETURN(Gemma4Config gemma, readGemma4(input.config));
  if (input.outer) {
    gemma.decoder.prefix = "model.language_model.";
    MOERT_ASSIGN_OR_RETURN(gemma.decoder.tiedHead, input.outer->boolean("tie_word_embeddings"));
    // The outer config has the end tokens of chats; the inner one only that of a text.
    if (!input.generationConfig || !input.generationConfig->has("eos_token_id"))
      input.generationConfig = input.outer;
  }
  const uint32_t hidden = gemma.decoder.hiddenSize;
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    describeAttention(gemma, gemma.isFull[number], prefix + "self_attn.", layer.attention);
    layer.attentionOutputNorm = std::exchange(layer.networkNorm, std::nullopt);
    layer.networkOutputNorm =
        rmsNorm(gemma.decoder, prefix + "post_feedforward_layernorm.weight", hidden);
    layer.moe = describeMoe(gemma, prefix);
    layer.outputScale = vectorSource(prefix + "layer_scalar", 1);
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, gemma.decoder, fillLayer));
  model.embeddingScale = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  model.logitsSoftCap = gemma.softCap;
  for (const char *tower :
       {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."})
    if (input.outer)
      model.otherParts.push_back(tower);
  return model;
}

} // namespace moec
