// Jamba: Mamba-1 mixers with norms of step, B and C in most layers, attention without positions in
// the others; routed experts, of which the weights are not renormalized, in every second layer, and
// dense networks of the same width. Reference: transformers, models/jamba/modular_jamba.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of JambaConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "65536"},
    {"tie_word_embeddings", "flag", "false"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "14336"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "8"},
    {"hidden_act", "text", R"("silu")"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"max_position_embeddings", "int", "262144"},
    {"num_experts_per_tok", "int", "2"},
    {"num_experts", "int", "16", KeyEffect::kUsed, "num_local_experts"},
    {"expert_layer_period", "int", "2"},
    {"expert_layer_offset", "int", "1"},
    {"attn_layer_period", "int", "8"},
    {"attn_layer_offset", "int", "4"},
    {"use_mamba_kernels", "any", "true", KeyEffect::kNone},
    {"mamba_d_state", "int", "16"},
    {"mamba_d_conv", "int", "4"},
    {"mamba_expand", "int", "2"},
    {"mamba_dt_rank", "any", R"("auto")"},
    {"mamba_conv_bias", "flag", "true"},
    {"mamba_proj_bias", "flag", "false"},
    {"use_mambapy", "any", "false", KeyEffect::kNone},
    {"use_associative_scan", "any", "true", KeyEffect::kNone},
    {"sliding_window", "int?", "null", KeyEffect::kDefaultOnly},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kJambaKeys = kRows;

namespace {

/// Every period-th layer, from the offset on.
struct LayerStep {
  uint32_t period = 1, offset = 0;
  bool has(uint32_t layer) const { return layer % period == offset; }
};

struct JambaConfig {
  uint32_t width = 0, stateDim = 0, stepRank = 0, taps = 0;
  bool hasConvolutionBias = true, hasProjectionBias = false;
  LayerStep attention, experts;
  RoutedConfig routed;
};

Result<LayerStep> readStep(const ConfigObject &config, const std::string &name) {
  LayerStep step;
  MOERT_ASSIGN_OR_RETURN(step.period, config.integer(name + "_layer_period", 1, kMaxLayerNumber));
  MOERT_ASSIGN_OR_RETURN(step.offset, config.integer(name + "_layer_offset", 0, step.period - 1));
  return step;
}

Result<uint32_t> readStepRank(const ConfigObject &config, uint32_t hidden) {
  const Result<std::string> text = config.string("mamba_dt_rank");
  if (text.isOk() && *text == "auto")
    return (hidden + 15) / 16;
  const Result<uint32_t> rank = config.integer("mamba_dt_rank", 1, kMaxWidth);
  if (rank.isOk())
    return rank;
  return config.mismatch("mamba_dt_rank", strCat("\"auto\" or an integer from 1 to ", kMaxWidth));
}

Status readMamba(const ConfigObject &config, uint32_t hidden, JambaConfig &jamba) {
  const char *const expandKey = "mamba_expand";
  MOERT_ASSIGN_OR_RETURN(const uint32_t expand, config.integer(expandKey, 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(jamba.stateDim, config.integer("mamba_d_state", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(jamba.taps, config.integer("mamba_d_conv", 2, kMaxTaps));
  MOERT_ASSIGN_OR_RETURN(jamba.stepRank, readStepRank(config, hidden));
  MOERT_ASSIGN_OR_RETURN(jamba.hasConvolutionBias, config.boolean("mamba_conv_bias"));
  MOERT_ASSIGN_OR_RETURN(jamba.hasProjectionBias, config.boolean("mamba_proj_bias"));
  const uint64_t width = uint64_t{expand} * hidden;
  if (width < kLeastConvolved || width > kMaxWidth || width * jamba.stateDim > kMaxStateElements)
    return config.mismatch(expandKey,
                           strCat("a factor of hidden_size, ", hidden, ", for a width from ",
                                  kLeastConvolved, " to ", kMaxWidth,
                                  " and states of mamba_d_state, ", jamba.stateDim, ", of at most ",
                                  kMaxStateElements, " elements together"));
  jamba.width = static_cast<uint32_t>(width);
  return Status();
}

Result<JambaConfig> readJamba(const ConfigObject &config, uint32_t hidden) {
  JambaConfig jamba;
  MOERT_RETURN_IF_ERROR(readMamba(config, hidden, jamba));
  MOERT_ASSIGN_OR_RETURN(jamba.attention, readStep(config, "attn"));
  MOERT_ASSIGN_OR_RETURN(jamba.experts, readStep(config, "expert"));
  RoutedConfig &routed = jamba.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 2, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  return jamba;
}

void describeScan(const JambaConfig &jamba, const DecoderConfig &decoder, const std::string &module,
                  LayerDescription &layer) {
  const uint32_t hidden = decoder.hiddenSize, width = jamba.width;
  layer.attention = {};
  SelectiveScanDescription &scan = layer.selectiveScan.emplace();
  scan.value.linear = scan.gate = linearLayer(module + "in_proj.", width, hidden);
  scan.gate.weight.firstRow = width;
  scan.output = linearLayer(module + "out_proj.", hidden, width);
  if (jamba.hasProjectionBias) {
    for (LinearDescription *linear : {&scan.value.linear, &scan.gate})
      addBias(*linear, module + "in_proj.");
    scan.gate.bias->firstRow = width;
    addBias(scan.output, module + "out_proj.");
  }
  scan.value.taps = matrixSource(module + "conv1d.weight", width, jamba.taps);
  if (jamba.hasConvolutionBias)
    scan.value.tapsBias = vectorSource(module + "conv1d.bias", width);
  scan.stepDown = linearLayer(module + "x_proj.", jamba.stepRank, width);
  scan.key = scan.query = linearLayer(module + "x_proj.", jamba.stateDim, width);
  scan.key.weight.firstRow = jamba.stepRank;
  scan.query.weight.firstRow = jamba.stepRank + jamba.stateDim;
  scan.stepNorm = rmsNorm(decoder, module + "dt_layernorm.weight", jamba.stepRank);
  scan.keyNorm = rmsNorm(decoder, module + "b_layernorm.weight", jamba.stateDim);
  scan.queryNorm = rmsNorm(decoder, module + "c_layernorm.weight", jamba.stateDim);
  scan.step = linearLayer(module + "dt_proj.", width, jamba.stepRank);
  scan.stepBias = vectorSource(module + "dt_proj.bias", width);
  scan.logRate = matrixSource(module + "A_log", width, jamba.stateDim);
  scan.skip = vectorSource(module + "D", width);
}

} // namespace

Result<ModelDescription> describeJamba(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const JambaConfig jamba, readJamba(input.config, decoder.hiddenSize));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string network = prefix + "feed_forward.";
    layer.networkNorm->weight.tensor = prefix + "pre_ff_layernorm.weight";
    layer.attention.rope.reset();
    if (!jamba.attention.has(number))
      describeScan(jamba, decoder, prefix + "mamba.", layer);
    if (!jamba.experts.has(number)) {
      layer.dense =
          gluNetwork(network, {{}, decoder.hiddenSize, jamba.routed.width, decoder.activation});
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, jamba.routed, network));
    layer.moe->router.linear.weight.tensor = network + "router.weight";
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.finalNorm.weight.tensor = "model.final_layernorm.weight";
  return model;
}

} // namespace moec
