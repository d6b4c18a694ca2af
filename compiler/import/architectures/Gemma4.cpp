// Gemma 4 with routed experts (26B-A4B), its text part: a dense network and the experts side by
// side, each between its own norms; layers with a window alternate with full ones, which have heads
// of another width, fewer keys, no matrix of values and a rotation of their own; the router reads
// the residual stream itself. Reference: transformers, models/gemma4/modeling_gemma4.py. The
// embedding's factor is rounded to f32, as the reference does in f32.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <cmath>
#include <utility>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr double kMostSoftCap = 1e6;

struct Gemma4Config {
  DecoderConfig decoder; // Heads are those of layers with a window; ropes: window, full.
  uint32_t fullHeadDim = 0, fullKvHeads = 0;
  bool valuesAreKeys = false; // In full layers.
  uint32_t window = 0;
  std::vector<bool> isFull; // Per layer.
  uint32_t denseWidth = 0;
  RoutedConfig routed;
  std::optional<float> softCap;
};

/// Parts that other sizes of the family have.
Status refuseOtherSizes(const ConfigObject &config) {
  MOERT_RETURN_IF_ERROR(requireKeys(config, {"enable_moe_block", "hidden_size_per_layer_input"}));
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "use_double_wide_mlp"}));
  MOERT_ASSIGN_OR_RETURN(const bool isRouted, config.boolean("enable_moe_block"));
  if (!isRouted)
    return config.mismatch("enable_moe_block", "true: models without routed experts do not fit");
  for (const std::string_view key : {"hidden_size_per_layer_input", "num_kv_shared_layers"}) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t size, config.integer(key, 0, kMaxWidth, 0));
    if (size != 0)
      return config.mismatch(key, "0, as in the models with routed experts");
  }
  if (!config.has("use_bidirectional_attention"))
    return Status();
  // "vision" concerns the tokens of images only.
  MOERT_ASSIGN_OR_RETURN(const std::string direction, config.string("use_bidirectional_attention"));
  if (direction != "vision")
    return config.mismatch("use_bidirectional_attention", "\"vision\" or null");
  return Status();
}

Status readLayerTypes(const ConfigObject &config, Gemma4Config &gemma) {
  MOERT_RETURN_IF_ERROR(requireKeys(config, {"layer_types", "sliding_window"}));
  MOERT_ASSIGN_OR_RETURN(gemma.window, config.integer("sliding_window", 1, kMaxWindow));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.strings("layer_types"));
  if (types.size() != gemma.decoder.layerCount)
    return config.mismatch("layer_types", strCat(gemma.decoder.layerCount, " types of layers"));
  for (const std::string &type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      return config.mismatch("layer_types", "sliding_attention and full_attention");
    gemma.isFull.push_back(type == "full_attention");
  }
  if (!gemma.isFull.back()) // The reference implementation changes it.
    return config.mismatch("layer_types", "full_attention as the last");
  return Status();
}

Status readFullAttention(const ConfigObject &config, Gemma4Config &gemma) {
  MOERT_RETURN_IF_ERROR(requireKeys(config, {"global_head_dim", "attention_k_eq_v"}));
  MOERT_ASSIGN_OR_RETURN(gemma.valuesAreKeys, config.boolean("attention_k_eq_v"));
  MOERT_ASSIGN_OR_RETURN(gemma.fullHeadDim, config.integer("global_head_dim", 2, kMaxHeadDim));
  if (gemma.fullHeadDim % 2 != 0)
    return config.mismatch("global_head_dim", "an even width of a head");
  gemma.fullKvHeads = gemma.decoder.kvHeads;
  if (!gemma.valuesAreKeys || !config.has("num_global_key_value_heads"))
    return Status();
  MOERT_ASSIGN_OR_RETURN(gemma.fullKvHeads,
                         config.integer("num_global_key_value_heads", 1, kMaxHeads));
  if (gemma.decoder.heads % gemma.fullKvHeads != 0)
    return config.mismatch("num_global_key_value_heads",
                           strCat("a divisor of num_attention_heads, ", gemma.decoder.heads));
  return Status();
}

Status readRopes(const ConfigObject &config, Gemma4Config &gemma) {
  RopeKind kind;
  kind.mayBeProportional = true;
  kind.dim = gemma.decoder.headDim;
  MOERT_ASSIGN_OR_RETURN(RopeDescription window, readLayerRope(config, "sliding_attention", kind));
  kind.dim = gemma.fullHeadDim;
  MOERT_ASSIGN_OR_RETURN(RopeDescription full, readLayerRope(config, "full_attention", kind));
  gemma.decoder.ropes = {std::move(window), std::move(full)};
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
  MOERT_ASSIGN_OR_RETURN(gemma.decoder.tiedHead, config.boolean("tie_word_embeddings", true));
  MOERT_RETURN_IF_ERROR(refuseOtherSizes(config));
  MOERT_RETURN_IF_ERROR(readLayerTypes(config, gemma));
  MOERT_RETURN_IF_ERROR(readFullAttention(config, gemma));
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
  if (isFull) {
    decoder.headDim = gemma.fullHeadDim;
    decoder.kvHeads = gemma.fullKvHeads;
    attention.kvHeads = decoder.kvHeads;
    attention.headDim = attention.valueHeadDim = decoder.headDim;
    attention.valuesAreKeys = gemma.valuesAreKeys;
    attention.query.weight.rows = attention.output.weight.cols = decoder.heads * decoder.headDim;
    attention.key.weight.rows = attention.value.weight.rows = decoder.kvHeads * decoder.headDim;
  }
  attention.window = isFull ? 0 : gemma.window;
  attention.rope = isFull ? 1 : 0;
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

Result<ModelDescription> describe(const ArchitectureInput &input, const std::string &prefix) {
  MOERT_ASSIGN_OR_RETURN(Gemma4Config gemma, readGemma4(input.config));
  gemma.decoder.prefix = prefix;
  const uint32_t hidden = gemma.decoder.hiddenSize;
  const auto fillLayer = [&](uint32_t number, const std::string &layerPrefix,
                             LayerDescription &layer) {
    describeAttention(gemma, gemma.isFull[number], layerPrefix + "self_attn.", layer.attention);
    layer.attentionOutputNorm = std::exchange(layer.networkNorm, std::nullopt);
    layer.networkOutputNorm =
        rmsNorm(gemma.decoder, layerPrefix + "post_feedforward_layernorm.weight", hidden);
    layer.moe = describeMoe(gemma, layerPrefix);
    layer.outputScale = vectorSource(layerPrefix + "layer_scalar", 1);
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, gemma.decoder, fillLayer));
  model.embeddingScale = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  model.logitsSoftCap = gemma.softCap;
  return model;
}

} // namespace

Result<ModelDescription> describeGemma4Text(const ArchitectureInput &input) {
  return describe(input, "model.");
}

Result<ModelDescription> describeGemma4(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const ConfigObject text, input.config.object("text_config"));
  MOERT_ASSIGN_OR_RETURN(const std::string type, text.string("model_type", "gemma4_text"));
  if (type != "gemma4_text")
    return text.mismatch("model_type", "\"gemma4_text\"");
  ArchitectureInput part = input;
  part.config = text;
  // The outer config has the end tokens of chats; the inner one only that of a text.
  if (!input.generationConfig || !input.generationConfig->has("eos_token_id"))
    part.generationConfig = input.config;
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describe(part, "model.language_model."));
  for (const char *tower :
       {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."})
    model.otherParts.push_back(tower);
  return model;
}

} // namespace moec
