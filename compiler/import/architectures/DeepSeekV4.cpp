// DeepSeek-V4: hyper-connected residual streams; attention whose one key per token is its value
// too, over a window and over compressed keys of pools of tokens, which an indexer chooses where
// pools are small; experts by the token's id in the first layers. Tensors have the names of the
// published files. The layers for multi-token prediction are not read. Reference: transformers,
// models/deepseek_v4/modular_deepseek_v4.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Streams.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of DeepseekV4Config, and those of published files.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "129280"},
    {"hidden_size", "int", "4096"},
    {"moe_intermediate_size", "int", "2048", KeyEffect::kUsed, "intermediate_size"},
    {"num_hidden_layers", "int", "43"},
    {"num_attention_heads", "int", "64"},
    {"num_key_value_heads", "int", "1"},
    {"head_dim", "int", "512"},
    {"q_lora_rank", "int", "1024"},
    {"num_experts_per_tok", "int", "6"},
    {"n_routed_experts", "int", "256", KeyEffect::kUsed, "num_local_experts"},
    {"n_shared_experts", "int", "1", KeyEffect::kDefaultOnly}, // The reference has always one.
    {"routed_scaling_factor", "real", "1.5"},
    {"max_position_embeddings", "int", "1048576"},
    {"rope_theta", "real", "10000.0"},
    {"compress_rope_theta", "real", "160000.0"},
    {"layer_types", "list?", "null"},
    {"compress_ratios", "list?", "null"},
    {"compress_rates", "object?", "null"},
    {"mlp_layer_types", "list?", "null"},
    {"num_hash_layers", "int", "3"},
    {"hc_mult", "int", "4"},
    {"hc_sinkhorn_iters", "int", "20"},
    {"hc_eps", "real", "1e-06"},
    {"swiglu_limit", "real", "10.0"},
    {"sliding_window", "int", "128"},
    {"o_groups", "int", "8"},
    {"o_lora_rank", "int", "1024"},
    {"index_n_heads", "int", "64"},
    {"index_head_dim", "int", "128"},
    {"index_topk", "int", "512"},
    {"hidden_act", "text", R"("silu")"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "1"},
    {"qk_rope_head_dim", "int?", "null"},
    {"partial_rotary_factor", "real?", "null"},
    {"tie_word_embeddings", "flag", "false", KeyEffect::kDefaultOnly},
    {"norm_topk_prob", "flag", "true", KeyEffect::kDefaultOnly},
    {"scoring_func", "text", R"("sqrtsoftplus")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
    {"num_nextn_predict_layers", "any", "1", KeyEffect::kNone},
    {"router_jitter_noise", "any", "0.0", KeyEffect::kNone}, // Training.
    {"expert_dtype", "any", "null", KeyEffect::kNone},       // The tensors tell.
};

const ConfigKeys kDeepSeekV4Keys = kRows;

namespace {

constexpr uint32_t kMaxPoolTokens = 1 << 16;
/// Kinds of layers, as layer_types names them.
constexpr std::string_view kSliding = "sliding_attention", kSparse = "compressed_sparse_attention",
                           kHeavy = "heavily_compressed_attention";

/// What the attentions of all layers share, and the tokens of a layer's pools, 0 for none.
struct CompressedConfig {
  uint32_t queryRank = 0, window = 0, groups = 0, outputRank = 0, rotated = 0;
  uint32_t indexHeads = 0, indexDim = 0, indexMost = 0;
  std::vector<std::string> types; // Per layer.
  uint32_t sparseTokens = 4, heavyTokens = 128;

  uint32_t poolTokens(uint32_t layer) const {
    return types[layer] == kSparse ? sparseTokens : types[layer] == kHeavy ? heavyTokens : 0;
  }
};

/// By layer_types; else by compress_ratios, which may name layers past the last one; else as the
/// class has it.
Status readLayers(const ConfigObject &config, uint32_t layers, CompressedConfig &attention) {
  MOERT_ASSIGN_OR_RETURN(attention.types,
                         readLayerTypes(config, layers, {kSliding, kSparse, kHeavy}));
  if (config.has("compress_rates")) {
    MOERT_ASSIGN_OR_RETURN(const ConfigObject rates, config.object("compress_rates"));
    MOERT_ASSIGN_OR_RETURN(attention.sparseTokens, rates.integer(kSparse, 1, kMaxPoolTokens, 4));
    MOERT_ASSIGN_OR_RETURN(attention.heavyTokens, rates.integer(kHeavy, 1, kMaxPoolTokens, 128));
  }
  const char *const key = "compress_ratios";
  if (attention.types.empty() && config.has(key)) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> ratios, config.integers(key, 0, 128));
    if (ratios.size() < layers)
      return config.mismatch(key, strCat("one entry for each of ", layers, " layers"));
    for (uint32_t layer = 0; layer < layers; ++layer) {
      if (ratios[layer] != 0 && ratios[layer] != 4 && ratios[layer] != 128)
        return config.mismatch(key, "0, 4 or 128");
      attention.types.emplace_back(ratios[layer] == 0   ? kSliding
                                   : ratios[layer] == 4 ? kSparse
                                                        : kHeavy);
    }
  }
  for (auto layer = static_cast<uint32_t>(attention.types.size()); layer < layers; ++layer)
    attention.types.emplace_back(layer >= 2 && layer % 2 == 1 ? kSparse : kHeavy);
  return {};
}

/// The last elements of a head that rotate: by partial_rotary_factor, else qk_rope_head_dim.
Status readRotated(const ConfigObject &config, uint32_t headDim, CompressedConfig &attention) {
  double part = 0.125;
  const char *key = "qk_rope_head_dim";
  if (config.has("partial_rotary_factor")) {
    key = "partial_rotary_factor";
    MOERT_ASSIGN_OR_RETURN(part, config.real(key, 0, 1));
  } else if (config.has(key)) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t rotated, config.integer(key, 2, headDim));
    part = static_cast<double>(rotated) / headDim;
  }
  attention.rotated = static_cast<uint32_t>(headDim * part);
  if (attention.rotated < 2 || attention.rotated % 2 != 0 ||
      attention.rotated / 2 > moert::kMostPartPairs || attention.rotated > attention.indexDim)
    return config.mismatch(key, strCat("an even number of elements of a head, 2 to ",
                                       2 * moert::kMostPartPairs, ", and at most index_head_dim, ",
                                       attention.indexDim));
  return {};
}

Result<CompressedConfig> readAttention(const ConfigObject &config, const DecoderConfig &decoder) {
  CompressedConfig attention;
  if (decoder.kvHeads != 1)
    return config.mismatch("num_key_value_heads", "1: all heads have the same keys");
  MOERT_ASSIGN_OR_RETURN(attention.queryRank, config.integer("q_lora_rank", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(attention.window, config.integer("sliding_window", 1, kMaxWindow));
  MOERT_ASSIGN_OR_RETURN(attention.groups, config.integer("o_groups", 1, decoder.heads));
  if (decoder.heads % attention.groups != 0)
    return config.mismatch("o_groups", strCat("a divisor of ", decoder.heads, " heads"));
  MOERT_ASSIGN_OR_RETURN(attention.outputRank, config.integer("o_lora_rank", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(attention.indexHeads, config.integer("index_n_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(attention.indexDim, config.integer("index_head_dim", 2, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(attention.indexMost, config.integer("index_topk", 1, kMaxWidth));
  MOERT_RETURN_IF_ERROR(readLayers(config, decoder.layerCount, attention));
  MOERT_RETURN_IF_ERROR(readRotated(config, decoder.headDim, attention));
  return attention;
}

/// The plain rotation of layers without pools, then that of the others.
Result<std::vector<RopeDescription>> readRopes(const ConfigObject &config, uint32_t rotated) {
  for (const char *key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key))
      continue;
    MOERT_ASSIGN_OR_RETURN(const ConfigObject object, config.object(key));
    if (object.contains("main") || object.contains("compress"))
      return config.mismatch(key, "the parameters of YaRN alone, as published");
  }
  std::vector<RopeDescription> ropes;
  for (const char *key : {"rope_theta", "compress_rope_theta"}) {
    RopeKind kind;
    kind.dim = rotated;
    kind.style = RopeStyle::kInterleaved;
    kind.isPartial = true;
    kind.thetaKey = key;
    MOERT_ASSIGN_OR_RETURN(RopeDescription rope, readRope(config, kind));
    ropes.push_back(std::move(rope));
  }
  return ropes;
}

/// A compressor: the products that it pools become `values`. Pools of layers with an indexer
/// overlap.
PoolDescription describePool(const DecoderConfig &decoder, const std::string &module,
                             uint32_t tokens, bool overlapping, uint32_t width,
                             LinearDescription &values) {
  PoolDescription pool;
  pool.tokens = tokens;
  pool.overlapping = overlapping;
  const uint32_t rows = overlapping ? 2 * width : width;
  values = linearLayer(module + "wkv.", rows, decoder.hiddenSize);
  pool.gate = linearLayer(module + "wgate.", rows, decoder.hiddenSize);
  pool.bias = vectorSource(module + "ape", tokens * rows);
  pool.bias.stackedVectors = tokens;
  pool.norm = rmsNorm(decoder, module + "norm.weight", width);
  return pool;
}

IndexerDescription describeIndexer(const DecoderConfig &decoder, const CompressedConfig &config,
                                   const std::string &module) {
  IndexerDescription indexer;
  indexer.heads = config.indexHeads;
  indexer.most = config.indexMost;
  indexer.query =
      linearLayer(module + "wq_b.", config.indexHeads * config.indexDim, config.queryRank);
  indexer.weights = linearLayer(module + "weights_proj.", config.indexHeads, decoder.hiddenSize);
  indexer.pool = describePool(decoder, module + "compressor.", config.sparseTokens, true,
                              config.indexDim, indexer.key);
  indexer.rope = 1;
  indexer.firstRotated = config.indexDim - config.rotated;
  return indexer;
}

CompressedAttentionDescription describeAttention(const DecoderConfig &decoder,
                                                 const CompressedConfig &config, uint32_t number,
                                                 const std::string &module) {
  CompressedAttentionDescription attention;
  const uint32_t heads = decoder.heads, headDim = decoder.headDim, hidden = decoder.hiddenSize,
                 outputs = config.groups * config.outputRank;
  attention.heads = heads;
  attention.headDim = headDim;
  attention.window = config.window;
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
  attention.epsilon = decoder.epsilon;
  attention.queryDown = linearLayer(module + "wq_a.", config.queryRank, hidden);
  attention.queryNorm = rmsNorm(decoder, module + "q_norm.weight", config.queryRank);
  attention.query = linearLayer(module + "wq_b.", heads * headDim, config.queryRank);
  attention.key = linearLayer(module + "wkv.", headDim, hidden);
  attention.keyNorm = rmsNorm(decoder, module + "kv_norm.weight", headDim);
  attention.sinks = vectorSource(module + "attn_sink", heads);
  attention.groups = config.groups;
  attention.outputDown =
      matrixSource(module + "wo_a.weight", outputs, heads / config.groups * headDim);
  attention.output = linearLayer(module + "wo_b.", hidden, outputs);
  attention.firstRotated = headDim - config.rotated;
  const uint32_t poolTokens = config.poolTokens(number);
  if (poolTokens == 0)
    return attention;
  const bool hasIndexer = config.types[number] == kSparse;
  attention.rope = 1;
  attention.pool = describePool(decoder, module + "compressor.", poolTokens, hasIndexer, headDim,
                                attention.pooled);
  if (hasIndexer)
    attention.indexer = describeIndexer(decoder, config, module + "indexer.");
  return attention;
}

/// Which layers have experts by the token's id: by mlp_layer_types, else the first ones.
Result<std::vector<bool>> readHashed(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"hash_moe", "moe"}, "mlp_layer_types"));
  MOERT_ASSIGN_OR_RETURN(const uint32_t first,
                         config.integer("num_hash_layers", 0, kMaxLayerNumber));
  std::vector<bool> isHashed(layers);
  for (uint32_t layer = 0; layer < layers; ++layer)
    isHashed[layer] = types.empty() ? layer < first : types[layer] == "hash_moe";
  return isHashed;
}

Status describeNetwork(const ArchitectureInput &input, const DecoderConfig &decoder,
                       const RoutedConfig &routed, bool isHashed, const std::string &module,
                       LayerDescription &layer) {
  constexpr GluNames kNames = {"w1", "w3", "w2"};
  MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, routed, module, kNames));
  RouterDescription &router = layer.moe->router;
  router.scoring = RouterScoring::kSqrtSoftplus;
  MOERT_ASSIGN_OR_RETURN(router.weightScale, readMultiplier(input.config, "routed_scaling_factor"));
  if (isHashed) {
    router.expertsOfTokens =
        matrixSource(module + "gate.tid2eid", decoder.vocabularySize, routed.topK);
    router.expertsOfTokens->integers = true;
  } else {
    router.choiceBias = vectorSource(module + "gate.bias", routed.experts);
  }
  layer.moe->shared.emplace().network = gluNetwork(
      module + "shared_experts.", {kNames, decoder.hiddenSize, routed.width, decoder.activation});
  return {};
}

} // namespace

Result<ModelDescription> describeDeepSeekV4(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config));
  decoder.prefix = "";
  decoder.embedding = "embed";
  MOERT_ASSIGN_OR_RETURN(decoder.activation, readClampedSilu(config));
  MOERT_ASSIGN_OR_RETURN(const CompressedConfig attention, readAttention(config, decoder));
  MOERT_ASSIGN_OR_RETURN(decoder.ropes, readRopes(config, attention.rotated));
  MOERT_ASSIGN_OR_RETURN(StreamsDescription streams, readStreams(config, decoder));
  streams.head = streamMix(decoder, streams, "hc_head", /*isHead=*/true);
  RoutedConfig routed;
  const char *const expertsKey = "n_routed_experts";
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer(expertsKey, 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, expertsKey));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isHashed, readHashed(config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    layer.attentionNorm->weight.tensor = prefix + "attn_norm.weight";
    layer.networkNorm->weight.tensor = prefix + "ffn_norm.weight";
    layer.attention = {};
    layer.compressedAttention = describeAttention(decoder, attention, number, prefix + "attn.");
    describeStreams(decoder, streams, prefix, layer);
    return describeNetwork(input, decoder, routed, isHashed[number], prefix + "ffn.", layer);
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.streams = std::move(streams);
  model.head.weight.tensor = "head.weight";
  model.otherParts.emplace_back("mtp.");
  return model;
}

} // namespace moec
