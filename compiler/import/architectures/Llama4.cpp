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

namespace {

/// The default of no_rope_layers: every fourth layer has no rotation.
constexpr uint32_t kUnrotatedStep = 4;

struct Llama4Config {
  RoutedConfig routed;
  uint32_t denseWidth = 0;
  uint32_t chunk = 0; // 0: none.
  bool hasHeadNorms = true;
  std::optional<PositionScale> queryScale;
  std::vector<bool> isRotated, isRouted; // Per layer.
};

Result<std::vector<bool>> readRotatedLayers(const ConfigObject &config, uint32_t layers) {
  std::vector<bool> isRotated(layers);
  const char *const key = "no_rope_layers";
  std::vector<uint32_t> listed;
  if (config.has(key)) {
    MOERT_ASSIGN_OR_RETURN(listed, config.integers(key, 0, 1));
  }
  if (!listed.empty() && listed.size() != layers)
    return config.mismatch(
        key, strCat("a list of num_hidden_layers numbers, ", layers, "; it has ", listed.size()));
  for (uint32_t layer = 0; layer < layers; ++layer)
    isRotated[layer] = listed.empty() ? (layer + 1) % kUnrotatedStep != 0 : listed[layer] != 0;
  return isRotated;
}

Result<std::vector<bool>> readMoeLayers(const ConfigObject &config, uint32_t layers) {
  std::vector<bool> isRouted(layers);
  if (config.has("moe_layers")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> listed,
                           config.integers("moe_layers", 0, layers - 1));
    for (const uint32_t layer : listed)
      isRouted[layer] = true;
    return isRouted;
  }
  MOERT_ASSIGN_OR_RETURN(const uint32_t step,
                         config.integer("interleave_moe_layer_step", 1, kMaxLayerNumber, 1));
  for (uint32_t layer = 0; layer < layers; ++layer)
    isRouted[layer] = (layer + 1) % step == 0;
  return isRouted;
}

/// Published files have the number 4 for true.
Result<bool> readFlagOrNumber(const ConfigObject &config, std::string_view key) {
  if (Result<uint32_t> number = config.integer(key, 0, 1024); number.isOk())
    return *number != 0;
  return config.boolean(key, true);
}

Result<Llama4Config> readLlama4(const ConfigObject &config, const DecoderConfig &decoder) {
  Llama4Config llama;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = llama.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts,
                         readAlias(config, "num_local_experts", "num_experts", 1, kMaxExperts, 16));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts", 1));
  if (routed.topK != 1)
    return config.mismatch("num_experts_per_tok",
                           "1: the router scales the input of one expert per token");
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(llama.denseWidth, config.integer("intermediate_size_mlp", 1, kMaxWidth));
  if (config.has("attention_chunk_size")) {
    MOERT_ASSIGN_OR_RETURN(llama.chunk, config.integer("attention_chunk_size", 1, kMaxWindow));
  }
  MOERT_ASSIGN_OR_RETURN(llama.hasHeadNorms, config.boolean("use_qk_norm", true));
  MOERT_ASSIGN_OR_RETURN(const bool hasScale, readFlagOrNumber(config, "attn_temperature_tuning"));
  if (hasScale) {
    MOERT_ASSIGN_OR_RETURN(const double scale, config.real("attn_scale", 0, 1e3, 0.1));
    MOERT_ASSIGN_OR_RETURN(const uint32_t period,
                           config.integer("floor_scale", 1, kMaxWindow, 8192));
    llama.queryScale = PositionScale{static_cast<float>(scale), period};
  }
  MOERT_ASSIGN_OR_RETURN(llama.isRotated, readRotatedLayers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(llama.isRouted, readMoeLayers(config, decoder.layerCount));
  return llama;
}

void describeAttention(const Llama4Config &llama, const DecoderConfig &decoder, bool isRotated,
                       AttentionDescription &attention) {
  if (!isRotated) {
    attention.rope.reset();
    attention.queryScale = llama.queryScale;
    return;
  }
  attention.window = llama.chunk;
  attention.chunked = llama.chunk != 0;
  if (llama.hasHeadNorms)
    attention.plainNormEpsilon = decoder.epsilon;
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

Result<ModelDescription> describeLlama4(const ArchitectureInput &whole) {
  ArchitectureInput input = whole;
  MOERT_ASSIGN_OR_RETURN(const std::string modelType, whole.config.string("model_type"));
  const bool isNested = modelType == "llama4";
  if (isNested) {
    MOERT_ASSIGN_OR_RETURN(input.config, whole.config.object("text_config"));
  }
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  if (isNested && !input.hasTensor("model.embed_tokens.weight")) {
    decoder.headPrefix = "language_model.";
    decoder.prefix = decoder.headPrefix + "model.";
  }
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const Llama4Config llama, readLlama4(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "feed_forward.";
    describeAttention(llama, decoder, llama.isRotated[number], layer.attention);
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
