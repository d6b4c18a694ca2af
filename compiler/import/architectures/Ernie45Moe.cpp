// ERNIE-4.5: interleaved rotary embedding, a softmax router with a bias for the choice, shared
// experts that are one ungated network. Reference: transformers,
// models/ernie4_5_moe/modular_ernie4_5_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Ernie4_5_MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "103424"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"hidden_size", "int", "2560"},
    {"intermediate_size", "int", "12288"},
    {"num_hidden_layers", "int", "28"},
    {"num_attention_heads", "int", "20"},
    {"num_key_value_heads", "int?", "4"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"tie_word_embeddings", "flag", "true"},
    {"use_bias", "flag?", "false"},
    {"moe_intermediate_size", "int", "1536"},
    {"moe_k", "int", "6", KeyEffect::kUsed, "num_experts_per_tok"},
    {"moe_num_experts", "int", "64", KeyEffect::kUsed, "num_experts"},
    {"moe_num_shared_experts", "int", "2"},
    {"moe_layer_start_index", "int", "1"},
    {"moe_layer_end_index", "int", "-1"},
    {"moe_layer_interval", "int", "1"},
    {"moe_norm_min", "real", "1e-12", KeyEffect::kDefaultOnly},
    {"rope_theta", "real", "500000.0"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kErnie45MoeKeys = kRows;

namespace {

struct ErnieConfig {
  RoutedConfig routed;
  uint32_t sharedWidth = 0;
  uint32_t denseWidth = 0;
  uint32_t interval = 1, first = 0, last = 0; // Routed layers.

  bool hasBiases = false; // All matrices have them, except those of routers and routed experts.

  bool isRouted(uint32_t layer) const {
    return (layer + 1) % interval == 0 && layer >= first && layer <= last;
  }
};

Result<ErnieConfig> readErnie(const ConfigObject &config, uint32_t layers) {
  ErnieConfig ernie;
  MOERT_ASSIGN_OR_RETURN(ernie.hasBiases, config.boolean("use_bias"));
  RoutedConfig &routed = ernie.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("moe_num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK, readTopK(config, "moe_k", routed.experts, "moe_num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  const char *const sharedKey = "moe_num_shared_experts";
  MOERT_ASSIGN_OR_RETURN(const uint32_t shared, config.integer(sharedKey, 0, kMaxSharedExperts));
  MOERT_ASSIGN_OR_RETURN(ernie.sharedWidth, sharedWidth(config, sharedKey, shared, routed.width));
  MOERT_ASSIGN_OR_RETURN(ernie.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(ernie.interval, config.integer("moe_layer_interval", 1, kMaxLayerNumber));
  MOERT_ASSIGN_OR_RETURN(ernie.first, config.integer("moe_layer_start_index", 0, kMaxLayerNumber));
  MOERT_ASSIGN_OR_RETURN(const double last,
                         config.real("moe_layer_end_index", -1, kMaxLayerNumber));
  ernie.last = last < 0 ? layers - 1 : static_cast<uint32_t>(last); // -1: the last layer.
  return ernie;
}

GluDescription describeNetwork(const ErnieConfig &ernie, const DecoderConfig &decoder,
                               const std::string &prefix, uint32_t width) {
  GluDescription network = gluNetwork(prefix, {{}, decoder.hiddenSize, width, decoder.activation});
  if (ernie.hasBiases) {
    addBias(network.gate, prefix + "gate_proj.");
    addBias(network.up, prefix + "up_proj.");
    addBias(network.down, prefix + "down_proj.");
  }
  return network;
}

Result<MoeDescription> describeMoe(const ArchitectureInput &input, const ErnieConfig &ernie,
                                   const DecoderConfig &decoder, const std::string &module) {
  MOERT_ASSIGN_OR_RETURN(MoeDescription moe, routedNetwork(input, decoder, ernie.routed, module));
  moe.router.choiceBias =
      vectorSource(module + "moe_statics.e_score_correction_bias", ernie.routed.experts);
  if (ernie.sharedWidth > 0)
    moe.shared.emplace().network =
        describeNetwork(ernie, decoder, module + "shared_experts.", ernie.sharedWidth);
  return moe;
}

} // namespace

Result<ModelDescription> describeErnie45Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const ErnieConfig ernie, readErnie(input.config, decoder.layerCount));
  decoder.inputBiases = decoder.outputBias = ernie.hasBiases;
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "mlp.";
    if (!ernie.isRouted(number)) {
      layer.dense = describeNetwork(ernie, decoder, module, ernie.denseWidth);
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, describeMoe(input, ernie, decoder, module));
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.otherParts.push_back("model.mtp_"); // Multi-token prediction.
  if (ernie.hasBiases)
    addBias(model.head, "lm_head.");
  return model;
}

} // namespace moec
