// Qwen3-Next and Qwen3-Coder-Next: three gated delta nets to one attention with a gate, and more,
// smaller experts than Qwen3-MoE's with a shared one. The projections of a delta net are fused in
// two tensors, key head by key head. The layers of multi-token prediction (mtp.*) are not read.
// Reference: transformers, models/qwen3_next/modular_qwen3_next.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/GatedDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Qwen3NextConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151936"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "5632"},
    {"num_hidden_layers", "int", "48"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int?", "2"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"head_dim", "int?", "256"},
    {"linear_conv_kernel_dim", "int", "4"},
    {"linear_key_head_dim", "int", "128"},
    {"linear_value_head_dim", "int", "128"},
    {"linear_num_key_heads", "int", "16"},
    {"linear_num_value_heads", "int", "32"},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "512"},
    {"shared_expert_intermediate_size", "int", "512"},
    {"num_experts_per_tok", "int", "10"},
    {"num_experts", "int", "512"},
    {"norm_topk_prob", "flag", "true"},
    {"mlp_only_layers", "list?", "null"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"partial_rotary_factor", "real?", "0.25"},
    {"full_attention_interval", "int", "4"},
    {"use_sliding_window", "flag", "false", KeyEffect::kDefaultOnly},
};

const ConfigKeys kQwen3NextKeys = kRows;

/// `rows` of a fused tensor: those from firstRow on of each key head's `perHead` rows.
static LinearDescription fusedPart(const GatedDecoderConfig &config, const std::string &tensor,
                                   uint32_t rows, uint32_t firstRow, uint32_t perHead) {
  WeightSource source = matrixSource(tensor, rows, config.decoder.hiddenSize);
  source.firstRow = firstRow;
  source.blocks = config.keyHeads;
  source.blockStep = perHead;
  return {source, std::nullopt};
}

static void setFusedSources(const GatedDecoderConfig &config, const std::string &module,
                            DeltaNetDescription &net) {
  const uint32_t heads = config.heads / config.keyHeads; // Per key head.
  const uint32_t keyDim = config.keyDim, values = heads * config.valueDim;
  const std::string qkvz = module + "in_proj_qkvz.weight", ba = module + "in_proj_ba.weight";
  const uint32_t perHead = 2 * keyDim + 2 * values;
  net.query.linear = fusedPart(config, qkvz, config.keys(), 0, perHead);
  net.key.linear = fusedPart(config, qkvz, config.keys(), keyDim, perHead);
  net.value.linear = fusedPart(config, qkvz, config.values(), 2 * keyDim, perHead);
  net.gate = fusedPart(config, qkvz, config.values(), 2 * keyDim + values, perHead);
  net.write = fusedPart(config, ba, config.heads, 0, 2 * heads);
  net.decay = fusedPart(config, ba, config.heads, heads, 2 * heads);
}

Result<ModelDescription> describeQwen3Next(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(GatedDecoderConfig gated, readGatedDecoder(config));
  MOERT_ASSIGN_OR_RETURN(gated.routed.renormalize, config.boolean("norm_topk_prob"));
  const DecoderConfig &decoder = gated.decoder;
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isRouted,
                         readRoutedLayers(config, decoder.layerCount));
  uint32_t denseWidth = 0;
  if (std::find(isRouted.begin(), isRouted.end(), false) != isRouted.end()) {
    MOERT_ASSIGN_OR_RETURN(denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "linear_attn.", network = prefix + "mlp.";
    if (gated.isRecurrent[number])
      setFusedSources(gated, mixer, describeDeltaNet(gated, mixer, layer));
    else
      describeGatedAttention(gated, prefix, layer);
    if (isRouted[number])
      return describeGatedNetwork(input, gated, network, layer);
    layer.dense = gluNetwork(network, {{}, decoder.hiddenSize, denseWidth, decoder.activation});
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.otherParts.push_back("mtp.");
  return model;
}

} // namespace moec
