// Mixtral: all layers are routed, softmax then top-k, weights renormalized. The sliding window
// applies whenever it is not null, as in transformers (the first upload of 8x7B sets it to 4096,
// and uses it).
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

struct MixtralConfig {
  RoutedConfig routed;
  uint32_t window = 0;
};

Result<MixtralConfig> readMixtral(const ConfigObject &config) {
  MixtralConfig mixtral;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = mixtral.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts,
                         readAlias(config, "num_local_experts", "num_experts", 1, kMaxExperts, 8));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts", 2));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  if (config.has("sliding_window")) {
    MOERT_ASSIGN_OR_RETURN(mixtral.window, config.integer("sliding_window", 1, kMaxWindow));
  }
  return mixtral;
}

} // namespace

Result<ModelDescription> describeMixtral(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const MixtralConfig mixtral, readMixtral(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    layer.attention.window = mixtral.window;
    MOERT_ASSIGN_OR_RETURN(layer.moe,
                           routedNetwork(input, decoder, mixtral.routed,
                                         prefix + "block_sparse_moe.", {"w1", "w3", "w2"}));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
