// Qwen3.8-Flash (qwen4_exp): Qwen3.5-MoE's mixers and networks over several gated residual streams,
// attention to the blocks of tokens that an indexer chooses, and embeddings of n-grams before some
// layers. Published checkpoints have a vision tower too (model.visual.*) and keep the text's config
// under text_config and its tensors under model.language_model. Reference: transformers,
// models/qwen4_exp/modular_qwen4_exp.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/GatedDecoder.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/format/NgramRows.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Qwen4ExpTextConfig, and those of published files.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "248320"},
    {"hidden_size", "int", "2048"},
    {"num_hidden_layers", "int", "40"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int", "2"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"head_dim", "int", "256"},
    {"linear_conv_kernel_dim", "int", "4"},
    {"linear_key_head_dim", "int", "128"},
    {"linear_value_head_dim", "int", "128"},
    {"linear_num_key_heads", "int", "16"},
    {"linear_num_value_heads", "int", "32"},
    {"moe_intermediate_size", "int", "512"},
    {"shared_expert_intermediate_size", "int", "512"},
    {"num_experts_per_tok", "int", "10"},
    {"num_experts", "int", "512"},
    {"norm_topk_prob", "flag", "true"},
    {"layer_types", "list?", "null"},
    {"full_attention_interval", "int", "4"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"hc_count", "int", "4"},
    {"hc_lowrank", "int", "320"},
    {"ple_layer_ids", "list?", "null"},
    {"ple_embed_dim", "int?", "null"},
    {"ple_conv_kernel_size", "int", "4"},
    {"ngram_size", "int", "3"},
    {"heads_per_ngram", "int", "8"},
    {"ngram_vocab_size_base", "int", "20000000"},
    {"make_ngram_vocab_size_divisible_by", "int", "128"},
    {"seed", "int", "1234"},
    {"split_ngram_parts", "int", "512"},
    {"indexer_n_heads", "int?", "null"},
    {"indexer_kv_heads", "int?", "null"},
    {"indexer_head_dim", "int?", "null"},
    {"indexer_budget", "int?", "null"},
    {"indexer_compress_ratio", "int?", "null"},
    {"output_gate_type", "text?", "null"},
    {"mlp_only_layers", "list?", "null"},
    {"mamba_ssm_dtype", "any", "null", KeyEffect::kNone}, // States are f32.
    {"mtp_num_hidden_layers", "any", "null", KeyEffect::kNone},
    {"mtp_use_dedicated_embeddings", "any", "null", KeyEffect::kNone},
};

const ConfigKeys kQwen4ExpTextKeys = kRows;

/// The keys of Qwen4ExpConfig.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"image_token_id", "any", "248056", KeyEffect::kNone},
    {"video_token_id", "any", "248057", KeyEffect::kNone},
    {"vision_start_token_id", "any", "248053", KeyEffect::kNone},
    {"vision_end_token_id", "any", "248054", KeyEffect::kNone},
    {"tie_word_embeddings", "flag", "false"},
};

const ConfigKeys kQwen4ExpKeys = kOuterRows;

namespace {

/// The streams, the indexers of attention and the n-grams, without what depends on the layer.
struct StreamedConfig {
  GatedDecoderConfig gated;
  uint32_t streams = 0, rank = 0;
  bool gatesBySigmoid = false;
  uint32_t indexHeads = 0, indexDim = 0, indexMost = 0, blockTokens = 0;
  NgramDescription ngrams;           // Numbers alone.
  std::vector<uint32_t> ngramLayers; // Ascending, from 1.
  uint32_t ngramWidth = 0, ngramTaps = 0, shards = 0, rowMultiple = 0;

  uint32_t width() const { return streams * gated.decoder.hiddenSize; }
};

Status readIndexer(const ConfigObject &config, StreamedConfig &streamed) {
  MOERT_ASSIGN_OR_RETURN(streamed.indexHeads, config.integer("indexer_n_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(streamed.indexDim, config.integer("indexer_head_dim", 2, kMaxHeadDim));
  MOERT_RETURN_IF_ERROR(config.integer("indexer_kv_heads", 1, 1).status());
  MOERT_ASSIGN_OR_RETURN(const uint32_t budget, config.integer("indexer_budget", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(streamed.blockTokens,
                         config.integer("indexer_compress_ratio", 1, kMaxWidth));
  if (budget % streamed.blockTokens != 0)
    return config.mismatch("indexer_budget",
                           strCat("a multiple of indexer_compress_ratio, ", streamed.blockTokens));
  streamed.indexMost = budget / streamed.blockTokens;
  const uint32_t rotated = streamed.gated.decoder.rope.dim;
  if (streamed.indexDim < rotated || rotated / 2 > moert::kMostPartPairs)
    return config.mismatch("indexer_head_dim",
                           strCat("at least the ", rotated, " elements of a head that rotate"));
  return {};
}

Status readNgrams(const ConfigObject &config, StreamedConfig &streamed) {
  if (!config.has("ple_layer_ids"))
    return {};
  const DecoderConfig &decoder = streamed.gated.decoder;
  std::vector<uint32_t> &layers = streamed.ngramLayers;
  MOERT_ASSIGN_OR_RETURN(layers, config.integers("ple_layer_ids", 1, decoder.layerCount));
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  NgramDescription &ngrams = streamed.ngrams;
  MOERT_ASSIGN_OR_RETURN(ngrams.tokens, config.integer("ngram_size", 2, moert::kMaxNgramTokens));
  MOERT_ASSIGN_OR_RETURN(ngrams.heads, config.integer("heads_per_ngram", 1, moert::kMaxNgramHeads));
  MOERT_ASSIGN_OR_RETURN(ngrams.leastRows,
                         config.integer("ngram_vocab_size_base", 1, kMaxWidth << 3));
  MOERT_ASSIGN_OR_RETURN(ngrams.seed, config.integer("seed", 0, UINT32_MAX));
  MOERT_ASSIGN_OR_RETURN(streamed.ngramTaps, config.integer("ple_conv_kernel_size", 2, kMaxTaps));
  MOERT_ASSIGN_OR_RETURN(streamed.rowMultiple,
                         config.integer("make_ngram_vocab_size_divisible_by", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(streamed.shards, config.integer("split_ngram_parts", 1, kMaxWidth));
  streamed.ngramWidth = decoder.hiddenSize;
  if (config.has("ple_embed_dim")) {
    MOERT_ASSIGN_OR_RETURN(streamed.ngramWidth, config.integer("ple_embed_dim", 1, kMaxWidth));
  }
  const uint32_t heads = (ngrams.tokens - 1) * ngrams.heads;
  if (streamed.ngramWidth % heads != 0)
    return config.mismatch("ple_embed_dim", strCat("a multiple of ", heads, " heads"));
  if (heads * layers.size() > moert::kMaxNgramHeads)
    return config.mismatch("heads_per_ngram",
                           strCat("at most ", moert::kMaxNgramHeads, " heads in all layers"));
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> ends,
                         config.integerOrList("eos_token_id", 0, decoder.vocabularySize - 1));
  if (ends.empty())
    return config.mismatch("eos_token_id", "a token, which n-grams do not reach beyond");
  ngrams.endToken = ends.front();
  for (const uint32_t layer : layers)
    if (!streamed.gated.isRecurrent[layer - 1])
      return config.mismatch("ple_layer_ids", "layers of linear_attention");
  return {};
}

Result<StreamedConfig> readStreamed(const ConfigObject &config) {
  StreamedConfig streamed;
  MOERT_ASSIGN_OR_RETURN(streamed.gated, readGatedDecoder(config));
  MOERT_ASSIGN_OR_RETURN(streamed.gated.routed.renormalize, config.boolean("norm_topk_prob"));
  MOERT_ASSIGN_OR_RETURN(streamed.streams, config.integer("hc_count", 2, moert::kMaxStreams));
  MOERT_ASSIGN_OR_RETURN(streamed.rank, config.integer("hc_lowrank", 1, kMaxWidth));
  if (config.has("output_gate_type")) {
    MOERT_ASSIGN_OR_RETURN(const std::string type, config.string("output_gate_type"));
    if (type != "sigmoid" && type != "silu")
      return config.mismatch("output_gate_type", "sigmoid or silu");
    streamed.gatesBySigmoid = type == "sigmoid";
  }
  if (config.has("mlp_only_layers")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> dense,
                           config.integers("mlp_only_layers", 0, kMaxLayerNumber));
    if (!dense.empty())
      return config.mismatch("mlp_only_layers", "an empty list: all layers are routed");
  }
  MOERT_RETURN_IF_ERROR(readIndexer(config, streamed));
  MOERT_RETURN_IF_ERROR(readNgrams(config, streamed));
  return streamed;
}

StreamGateDescription streamGate(const StreamedConfig &config, const std::string &module,
                                 bool isHead = false) {
  const uint32_t width = config.width();
  StreamGateDescription gate;
  gate.norm = rmsNorm(config.gated.decoder, module + "hc_norm.weight", width);
  gate.down = linearLayer(module + "input_mix_weight_down.", config.rank, width);
  gate.up = linearLayer(module + "input_mix_weight_up.", width, config.rank);
  if (!isHead)
    gate.inject = linearLayer(module + "block_inject_weight.", config.streams, width);
  return gate;
}

IndexerDescription describeIndexer(const StreamedConfig &config, const std::string &module) {
  const DecoderConfig &decoder = config.gated.decoder;
  const std::string products = module + "index_qk_proj.";
  const uint32_t queries = config.indexHeads * config.indexDim;
  IndexerDescription indexer;
  indexer.heads = config.indexHeads;
  indexer.most = config.indexMost;
  indexer.query = linearLayer(products, queries, decoder.hiddenSize);
  indexer.key = linearLayer(products, config.indexDim, decoder.hiddenSize);
  indexer.key.weight.firstRow = queries;
  indexer.queryNorm = rmsNorm(decoder, module + "q_layernorm.weight", config.indexDim);
  indexer.pool.emplace().tokens = config.blockTokens;
  indexer.pool->norm = rmsNorm(decoder, module + "k_layernorm.weight", config.indexDim);
  indexer.rope = 0;
  return indexer;
}

/// The numbers that the checkpoint has beside a table are those that follow from the config.
Status checkNumbers(const ArchitectureInput &input, const moert::NgramRows &rows,
                    const std::string &module) {
  const std::pair<const char *, const std::vector<uint64_t> *> kStored[] = {
      {"layer_multipliers", &rows.multipliers},
      {"ngram_heads_vocab_sizes", &rows.sizes},
      {"ngram_heads_offsets", &rows.firstRows}};
  for (const auto &[name, numbers] : kStored) {
    const std::string tensor = module + name;
    if (!input.readIntegers || !input.hasTensor(tensor))
      continue;
    MOERT_ASSIGN_OR_RETURN(const std::vector<int64_t> stored, input.readIntegers(tensor));
    if (!std::equal(stored.begin(), stored.end(), numbers->begin(), numbers->end(),
                    [](int64_t a, uint64_t b) { return static_cast<uint64_t>(a) == b; }))
      return input.config.mismatch("seed", strCat("the numbers of tensor ", tensor));
  }
  return {};
}

Result<NgramDescription> describeNgrams(const ArchitectureInput &input,
                                        const StreamedConfig &config, uint32_t number,
                                        const std::string &module) {
  NgramDescription ngrams = config.ngrams;
  ngrams.number = number;
  const DecoderConfig &decoder = config.gated.decoder;
  const std::string table = module + "ple_embedding.";
  const moert::NgramRows rows({0, 0, 0, ngrams.tokens, ngrams.heads, ngrams.leastRows, number,
                               ngrams.seed, ngrams.endToken},
                              decoder.vocabularySize);
  MOERT_RETURN_IF_ERROR(checkNumbers(input, rows, table));
  const uint64_t count = moert::roundUp(rows.total(), config.rowMultiple);
  if (count > UINT32_MAX || count % config.shards != 0)
    return input.config.mismatch("split_ngram_parts", strCat("a divisor of ", count, " rows"));
  ngrams.table =
      matrixSource(table + "ngram_embedding.shard_*.weight", static_cast<uint32_t>(count),
                   config.ngramWidth / ((ngrams.tokens - 1) * ngrams.heads));
  ngrams.table.shards = config.shards;
  if (config.shards == 1 || input.hasTensor(table + "ngram_embedding.weight")) {
    ngrams.table.tensor = table + (input.hasTensor(table + "ngram_embedding.weight")
                                       ? "ngram_embedding.weight"
                                       : "ngram_embedding.shard_0.weight");
    ngrams.table.shards = 1;
  }
  const uint32_t width = config.width();
  ngrams.key = linearLayer(module + "key_proj.", width, config.ngramWidth);
  ngrams.value = linearLayer(module + "value_proj.", decoder.hiddenSize, config.ngramWidth);
  ngrams.keyNorm = rmsNorm(decoder, module + "norm_key.weight", width);
  ngrams.queryNorm = rmsNorm(decoder, module + "norm_query.weight", width);
  ngrams.taperNorm = rmsNorm(decoder, module + "norm_conv.weight", width);
  ngrams.taps = matrixSource(module + "conv1d.weight", width, config.ngramTaps);
  return ngrams;
}

/// What differs from Qwen3.5's layer.
Status describeStreamed(const ArchitectureInput &input, const StreamedConfig &config,
                        uint32_t number, const std::string &prefix, LayerDescription &layer) {
  layer.attentionNorm.reset();
  layer.networkNorm.reset();
  layer.attentionGate = streamGate(config, prefix + "attn_hyper_connection.");
  layer.networkGate = streamGate(config, prefix + "mlp_hyper_connection.");
  const auto found = std::find(config.ngramLayers.begin(), config.ngramLayers.end(), number + 1);
  if (found != config.ngramLayers.end()) {
    MOERT_ASSIGN_OR_RETURN(layer.ngrams,
                           describeNgrams(input, config,
                                          static_cast<uint32_t>(found - config.ngramLayers.begin()),
                                          prefix + "ple."));
  }
  const std::string mixer = prefix + "linear_attn.";
  if (config.gated.isRecurrent[number]) {
    setSplitSources(config.gated, mixer, describeDeltaNet(config.gated, mixer, layer));
    layer.deltaNet->gatesBySigmoid = config.gatesBySigmoid;
  } else {
    describeGatedAttention(config.gated, prefix, layer);
    layer.attention.indexer = describeIndexer(config, prefix + "self_attn.indexer.");
  }
  return describeGatedNetwork(input, config.gated, prefix + "mlp.", layer);
}

} // namespace

Result<ModelDescription> describeQwen4Exp(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(StreamedConfig config, readStreamed(input.config));
  DecoderConfig &decoder = config.gated.decoder;
  if (input.outer) { // The reference implementation reads the outer flag.
    MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, input.outer->boolean("tie_word_embeddings"));
  }
  if (input.outer || input.hasTensor("model.language_model.embed_tokens.weight"))
    decoder.prefix = "model.language_model.";
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    return describeStreamed(input, config, number, prefix, layer);
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.finalNorm = {};
  model.streams.emplace().count = config.streams;
  model.streams->headGate =
      streamGate(config, decoder.prefix + "hyper_connection_mixer.", /*isHead=*/true);
  if (input.outer)
    model.modelType = "qwen4_exp";
  for (const char *part : {"model.visual.", "mtp."})
    model.otherParts.emplace_back(part);
  for (const uint32_t layer : config.ngramLayers)
    for (const char *part : {"layer_multipliers", "ngram_heads_"})
      model.otherParts.push_back(
          strCat(decoder.prefix, "layers.", layer - 1, ".ple.ple_embedding.", part));
  return model;
}

} // namespace moec
