// ERNIE-4.5: interleaved rotary embedding, a softmax router with a bias for the choice, shared
// experts that are one ungated network. Reference: transformers,
// models/ernie4_5_moe/modular_ernie4_5_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

constexpr uint32_t kMaxSharedExperts = 1024;

struct ErnieConfig {
  uint32_t experts = 0;
  uint32_t topK = 0;
  uint32_t width = 0;
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
  MOERT_ASSIGN_OR_RETURN(ernie.experts, config.integer("moe_num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(ernie.topK, config.integer("moe_k", 1, ernie.experts));
  MOERT_ASSIGN_OR_RETURN(ernie.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const uint32_t shared,
                         config.integer("moe_num_shared_experts", 0, kMaxSharedExperts, 0));
  if (uint64_t{shared} * ernie.width > kMaxWidth)
    return config.mismatch("moe_num_shared_experts", strCat("at most ", kMaxWidth / ernie.width));
  ernie.sharedWidth = shared * ernie.width;
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

Status describeMoe(const ArchitectureInput &input, const ErnieConfig &ernie,
                   const DecoderConfig &decoder, const std::string &module, MoeDescription &moe) {
  moe.router.linear = linearLayer(module + "gate.", ernie.experts, decoder.hiddenSize);
  moe.router.choiceBias =
      vectorSource(module + "moe_statics.e_score_correction_bias", ernie.experts);
  moe.router.topK = ernie.topK;
  moe.router.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(moe.experts,
                         describeExperts(input, module + "experts.",
                                         {{}, decoder.hiddenSize, ernie.width, decoder.activation},
                                         ernie.experts));
  if (ernie.sharedWidth > 0)
    moe.shared.emplace().network =
        gluNetwork(module + "shared_experts.",
                   {{}, decoder.hiddenSize, ernie.sharedWidth, decoder.activation});
  return {};
}

} // namespace

Result<ModelDescription> describeErnie45Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.style = RopeStyle::kInterleaved;
  MOERT_ASSIGN_OR_RETURN(const ErnieConfig ernie, readErnie(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string module = prefix + "mlp.";
    if (ernie.isRouted(number))
      return describeMoe(input, ernie, decoder, module, layer.moe.emplace());
    layer.dense =
        gluNetwork(module, {{}, decoder.hiddenSize, ernie.denseWidth, decoder.activation});
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
