// Laguna: attention whose result softplus gates multiply, per head or per element, with heads, a
// window and a partial rotation by layer; a sigmoid router with a bias for the choice and a cap on
// its scores, beside a shared network. Reference: transformers, models/laguna/modular_laguna.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of LagunaConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "100352"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "8192"},
    {"num_hidden_layers", "int", "40"},
    {"num_attention_heads", "int", "48"},
    {"num_key_value_heads", "int", "8"},
    {"head_dim", "int", "128"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"rope_parameters", "object~",
     R"({"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}})"},
    {"rope_theta", "any", "10000.0", KeyEffect::kNone}, // Each type of layer has its own.
    {"partial_rotary_factor", "any", "null", KeyEffect::kNone},
    {"sliding_window", "int", "512"},
    {"moe_intermediate_size", "int", "512"},
    {"shared_expert_intermediate_size", "int", "512"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "256"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"attention_bias", "flag", "false"},
    {"gating", "any", "true"},
    {"num_attention_heads_per_layer", "list?", "null"},
    {"mlp_layer_types", "list?", "null"},
    {"moe_routed_scaling_factor", "real", "1.0"},
    {"moe_apply_router_weight_on_input", "flag", "false", KeyEffect::kDefaultOnly},
    {"moe_router_logit_softcapping", "real", "0.0"},
};

const ConfigKeys kLagunaKeys = kRows;

/// True if a layer has one gate per head: "per-head", or true in some published files.
static Result<bool> readGatesHeads(const ConfigObject &config) {
  const Result<bool> flag = config.boolean("gating");
  const Result<std::string> kind = config.string("gating");
  if (flag.isOk() ? !*flag : !kind.isOk() || (*kind != "per-head" && *kind != "per-element"))
    return config.mismatch("gating", "true, \"per-head\" or \"per-element\"");
  return flag.isOk() || *kind == "per-head";
}

static Result<std::vector<uint32_t>> readHeads(const ConfigObject &config,
                                               const DecoderConfig &decoder) {
  const char *const key = "num_attention_heads_per_layer";
  std::vector<uint32_t> heads(decoder.layerCount, decoder.heads);
  if (config.has(key)) {
    MOERT_ASSIGN_OR_RETURN(heads, config.integers(key, 1, kMaxHeads));
  }
  if (heads.size() != decoder.layerCount ||
      std::any_of(heads.begin(), heads.end(),
                  [&](uint32_t count) { return count % decoder.kvHeads != 0; }))
    return config.mismatch(key, strCat("a multiple of num_key_value_heads, ", decoder.kvHeads,
                                       ", for each of ", decoder.layerCount, " layers"));
  return heads;
}

/// Reads the rotation of layers without a window, then that of layers with one.
static Status readRopes(const ConfigObject &config, DecoderConfig &decoder) {
  RopeKind kind;
  kind.dim = decoder.headDim;
  kind.isPartial = true;
  for (const char *type : {"full_attention", "sliding_attention"}) {
    MOERT_ASSIGN_OR_RETURN(RopeDescription rope, readLayerRope(config, type, kind));
    decoder.ropes.push_back(std::move(rope));
  }
  return Status();
}

static void describeAttention(const DecoderConfig &decoder, uint32_t heads, bool gatesHeads,
                              const std::string &module, AttentionDescription &attention) {
  const uint32_t width = heads * decoder.headDim;
  attention.heads = heads;
  attention.query.weight.rows = attention.output.weight.cols = width;
  if (attention.query.bias)
    attention.query.bias->cols = width;
  addHeadNorms(decoder, module + "q_norm", module + "k_norm", NormExtent::kHead, attention);
  attention.gate = linearLayer(module + "g_proj.", gatesHeads ? heads : width, decoder.hiddenSize);
  attention.gatesBySoftplus = true;
}

Result<ModelDescription> describeLaguna(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config));
  MOERT_RETURN_IF_ERROR(readRopes(config, decoder));
  const uint32_t layers = decoder.layerCount, hidden = decoder.hiddenSize;
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> heads, readHeads(config, decoder));
  MOERT_ASSIGN_OR_RETURN(const bool gatesHeads, readGatesHeads(config));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> mixers,
                         readLayerTypes(config, layers, {"full_attention", "sliding_attention"}));
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> networks,
                         readLayerTypes(config, layers, {"dense", "sparse"}, "mlp_layer_types"));
  MOERT_ASSIGN_OR_RETURN(const uint32_t window, config.integer("sliding_window", 1, kMaxWindow));
  RoutedConfig routed;
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const uint32_t dense, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const uint32_t shared,
                         config.integer("shared_expert_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const float scale, readMultiplier(config, "moe_routed_scaling_factor"));
  MOERT_ASSIGN_OR_RETURN(const double cap,
                         config.real("moe_router_logit_softcapping", 0, kMostMultiplier));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix,
                             LayerDescription &layer) -> Status {
    const std::string module = prefix + "mlp.";
    describeAttention(decoder, heads[number], gatesHeads, prefix + "self_attn.", layer.attention);
    const bool isWindowed = !mixers.empty() && mixers[number] == "sliding_attention";
    layer.attention.rope = isWindowed ? 1 : 0;
    layer.attention.window = isWindowed ? window : 0;
    if (networks.empty() ? number == 0 : networks[number] == "dense") {
      layer.dense = gluNetwork(module, {{}, hidden, dense, decoder.activation});
      return {};
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, routed, module));
    RouterDescription &router = layer.moe->router;
    router.scoring = RouterScoring::kSigmoid;
    router.scoreCap = static_cast<float>(cap);
    router.weightScale = scale;
    router.choiceBias = vectorSource(module + "experts.e_score_correction_bias", routed.experts);
    layer.moe->shared.emplace().network =
        gluNetwork(module + "shared_expert.", {{}, hidden, shared, decoder.activation});
    return {};
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
