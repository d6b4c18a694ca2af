// ERNIE-4.5: interleaved rotary embedding, a softmax router with a bias for the choice, shared
// experts that are one ungated network. Reference: transformers,
// models/ernie4_5_moe/modular_ernie4_5_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

struct ErnieConfig {
  RoutedConfig routed;
  uint32_t sharedWidth = 0;
  uint32_t denseWidth = 0;
  uint32_t interval = 1, first = 0, last = 0; // Routed layers.

  bool isRouted(uint32_t layer) const {
    return (layer + 1) % interval == 0 && layer >= first && layer <= last;
  }
};

Result<ErnieConfig> readErnie(const ConfigObject &config, uint32_t layers) {
  ErnieConfig ernie;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"use_bias"}));
  RoutedConfig &routed = ernie.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("moe_num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK, readTopK(config, "moe_k", routed.experts, "moe_num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  const char *const sharedKey = "moe_num_shared_experts";
  MOERT_ASSIGN_OR_RETURN(const uint32_t shared, config.integer(sharedKey, 0, kMaxSharedExperts, 0));
  MOERT_ASSIGN_OR_RETURN(ernie.sharedWidth, sharedWidth(config, sharedKey, shared, routed.width));
  MOERT_ASSIGN_OR_RETURN(ernie.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(ernie.interval,
                         config.integer("moe_layer_interval", 1, kMaxLayerNumber, 1));
  MOERT_ASSIGN_OR_RETURN(ernie.first,
                         config.integer("moe_layer_start_index", 0, kMaxLayerNumber, 0));
  MOERT_ASSIGN_OR_RETURN(const double last,
                         config.real("moe_layer_end_index", -1, kMaxLayerNumber, -1));
  ernie.last = last < 0 ? layers - 1 : static_cast<uint32_t>(last); // -1: the last layer.
  return ernie;
}

Result<MoeDescription> describeMoe(const ArchitectureInput &input, const ErnieConfig &ernie,
                                   const DecoderConfig &decoder, const std::string &module) {
  MOERT_ASSIGN_OR_RETURN(MoeDescription moe, routedNetwork(input, decoder, ernie.routed, module));
  moe.router.choiceBias =
      vectorSource(module + "moe_statics.e_score_correction_bias", ernie.routed.experts);
  if (ernie.sharedWidth > 0)
    moe.shared.emplace().network =
        gluNetwork(module + "shared_experts.",
                   {{}, decoder.hiddenSize, ernie.sharedWidth, decoder.activation});
  return moe;
}

} // namespace

Result<ModelDescription> describeErnie45Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const ErnieConfig ernie, readErnie(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "mlp.";
    if (!ernie.isRouted(number)) {
      layer.dense =
          gluNetwork(module, {{}, decoder.hiddenSize, ernie.denseWidth, decoder.activation});
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, describeMoe(input, ernie, decoder, module));
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.otherParts.push_back("model.mtp_"); // Multi-token prediction.
  return model;
}

} // namespace moec
