// Llama-4's text model (Scout, Maverick): interleaved rotation with attention inside chunks, and
// layers without rotation that see all tokens and scale their queries with the position; one
// expert per token, whose input its sigmoid scales, beside a shared one. Config and tensors are
// those of the whole model, whose vision parts are not read, or of the text model alone.
// Reference: transformers, models/llama4/modeling_llama4.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Llama4TextConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "202048"},
    {"hidden_size", "int", "5120"},
    {"intermediate_size", "int", "8192"},
    {"intermediate_size_mlp", "int", "16384"},
    {"num_hidden_layers", "int", "48"},
    {"num_attention_heads", "int", "40"},
    {"num_key_value_heads", "int?", "8"},
    {"head_dim", "int?", "128"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"num_experts_per_tok", "int", "1"},
    {"num_local_experts", "int", "16", KeyEffect::kUsed, "num_experts"},
    {"moe_layers", "list?", "null"},
    {"interleave_moe_layer_step", "int", "1"},
    {"use_qk_norm", "flag", "true"},
    {"router_jitter_noise", "any", "0.0", KeyEffect::kNone},
    {"no_rope_layers", "list?", "null"},
    {"no_rope_layer_interval", "int", "4"},
    {"attention_chunk_size", "int?", "8192"},
    {"layer_types", "list?", "null"},
    {"attn_temperature_tuning", "flag", "true"},
    {"floor_scale", "int", "8192"},
    {"attn_scale", "real", "0.1"},
    {"attention_bias", "flag", "false"},
    {"rope_theta", "real", "500000.0"},
};

const ConfigKeys kLlama4TextKeys = kRows;

/// The keys of Llama4Config.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"boi_token_index", "any", "200080", KeyEffect::kNone, "boi_token_id"},
    {"eoi_token_index", "any", "200081", KeyEffect::kNone, "eoi_token_id"},
    {"image_token_index", "any", "200092", KeyEffect::kNone, "image_token_id"},
    {"tie_word_embeddings", "any", "false", KeyEffect::kNone}, // The text model has its own.
};

const ConfigKeys kLlama4Keys = kOuterRows;

namespace {

struct Llama4Config {
  RoutedConfig routed;
  uint32_t denseWidth = 0;
  std::vector<uint32_t> chunks; // Per layer; 0: none.
  bool hasHeadNorms = true;
  std::optional<PositionScale> queryScale;
  std::vector<bool> isRotated, isRouted; // Per layer.
};

/// no_rope_layers, whose entries past the last layer have no effect: not 0 where a layer rotates.
Result<std::vector<bool>> readRotatedLayers(const ConfigObject &config, uint32_t layers) {
  const char *const key = "no_rope_layers";
  std::vector<uint32_t> listed;
  if (config.has(key)) {
    MOERT_ASSIGN_OR_RETURN(listed, config.integers(key, 0, kMaxLayerNumber));
  }
  if (!listed.empty() && listed.size() < layers)
    return config.mismatch(key, strCat("a list of at least num_hidden_layers numbers, ", layers,
                                       "; it has ", listed.size()));
  MOERT_ASSIGN_OR_RETURN(const uint32_t interval,
                         config.integer("no_rope_layer_interval", 1, kMaxLayerNumber));
  std::vector<bool> isRotated(layers);
  for (uint32_t layer = 0; layer < layers; ++layer)
    isRotated[layer] = listed.empty() ? (layer + 1) % interval != 0 : listed[layer] != 0;
  return isRotated;
}

/// The chunk of each layer's attention, 0 for none: layer_types, or that of layers that rotate.
Result<std::vector<uint32_t>> readChunks(const ConfigObject &config,
                                         const std::vector<bool> &isRotated) {
  const auto layers = static_cast<uint32_t>(isRotated.size());
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"full_attention", "chunked_attention"}));
  std::vector<uint32_t> chunks(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types.empty() ? !isRotated[layer] || !config.has("attention_chunk_size")
                      : types[layer] == "full_attention")
      continue;
    MOERT_ASSIGN_OR_RETURN(chunks[layer], config.integer("attention_chunk_size", 1, kMaxWindow));
  }
  return chunks;
}

Result<std::vector<bool>> readMoeLayers(const ConfigObject &config, uint32_t layers) {
  std::vector<bool> isRouted(layers);
  if (config.has("moe_layers")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> listed,
                           config.integers("moe_layers", 0, kMaxLayerNumber));
    for (const uint32_t layer : listed)
      if (layer < layers)
        isRouted[layer] = true;
    return isRouted;
  }
  MOERT_ASSIGN_OR_RETURN(const uint32_t step,
                         config.integer("interleave_moe_layer_step", 1, kMaxLayerNumber));
  for (uint32_t layer = 0; layer < layers; ++layer)
    isRouted[layer] = (layer + 1) % step == 0;
  return isRouted;
}

/// Published files have the number 4 for true.
Result<bool> readFlagOrNumber(const ConfigObject &config, std::string_view key) {
  if (Result<uint32_t> number = config.integer(key, 0, 1024); number.isOk())
    return *number != 0;
  return config.boolean(key);
}

Result<Llama4Config> readLlama4(const ConfigObject &config, const DecoderConfig &decoder) {
  Llama4Config llama;
  RoutedConfig &routed = llama.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  if (routed.topK != 1)
    return config.mismatch("num_experts_per_tok",
                           "1: the router scales the input of one expert per token");
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(llama.denseWidth, config.integer("intermediate_size_mlp", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(llama.hasHeadNorms, config.boolean("use_qk_norm"));
  MOERT_ASSIGN_OR_RETURN(const bool hasScale, readFlagOrNumber(config, "attn_temperature_tuning"));
  if (hasScale) {
    MOERT_ASSIGN_OR_RETURN(const double scale, config.real("attn_scale", 0, 1e3));
    MOERT_ASSIGN_OR_RETURN(const uint32_t period, config.integer("floor_scale", 1, kMaxWindow));
    llama.queryScale = PositionScale{static_cast<float>(scale), period};
  }
  MOERT_ASSIGN_OR_RETURN(llama.isRotated, readRotatedLayers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(llama.chunks, readChunks(config, llama.isRotated));
  MOERT_ASSIGN_OR_RETURN(llama.isRouted, readMoeLayers(config, decoder.layerCount));
  return llama;
}

void describeAttention(const Llama4Config &llama, const DecoderConfig &decoder, uint32_t number,
                       AttentionDescription &attention) {
  attention.window = llama.chunks[number];
  attention.chunked = attention.window != 0;
  if (!llama.isRotated[number]) {
    attention.rope.reset();
    attention.queryScale = llama.queryScale;
  } else if (llama.hasHeadNorms) {
    attention.plainNormEpsilon = decoder.epsilon;
  }
}

MoeDescription describeMoe(const Llama4Config &llama, const DecoderConfig &decoder,
                           const std::string &module) {
  const GluKind kind = {{}, decoder.hiddenSize, llama.routed.width, decoder.activation};
  MoeDescription moe;
  moe.router = softmaxRouter(decoder, llama.routed, module + "router.");
  moe.router.scoring = RouterScoring::kTopKThenSigmoid;
  moe.scalesInputs = true;
  moe.experts = fusedExperts(module + "experts.gate_up_proj", module + "experts.down_proj", kind,
                             llama.routed.experts);
  for (GluDescription &expert : moe.experts)
    for (LinearDescription *linear : {&expert.gate, &expert.up, &expert.down})
      linear->weight.transposed = true;
  moe.shared.emplace();
  moe.shared->network = gluNetwork(module + "shared_expert.", kind);
  return moe;
}

} // namespace

Result<ModelDescription> describeLlama4(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  if (input.outer && !input.hasTensor("model.embed_tokens.weight")) {
    decoder.headPrefix = "language_model.";
    decoder.prefix = decoder.headPrefix + "model.";
  }
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const Llama4Config llama, readLlama4(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "feed_forward.";
    describeAttention(llama, decoder, number, layer.attention);
    if (llama.isRouted[number])
      layer.moe = describeMoe(llama, decoder, module);
    else
      layer.dense =
          gluNetwork(module, {{}, decoder.hiddenSize, llama.denseWidth, decoder.activation});
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  for (const char *part : {"vision_model.", "multi_modal_projector."})
    model.otherParts.push_back(part);
  return model;
}

} // namespace moec
