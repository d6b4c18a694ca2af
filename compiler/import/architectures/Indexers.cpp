#include "compiler/import/architectures/Indexers.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::strCat;

Result<std::vector<bool>> readIndexed(const ConfigObject &config,
                                      const std::vector<bool> &hasAttention) {
  const auto layers = static_cast<uint32_t>(hasAttention.size());
  const char *typesKey = "indexer_types", *patternKey = "index_topk_pattern";
  std::vector<bool> isIndexed;
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"full", "shared"}, typesKey));
  isIndexed.reserve(types.size());
  for (const std::string &type : types)
    isIndexed.push_back(type == "full");
  if (types.empty() && config.has(patternKey)) {
    MOERT_ASSIGN_OR_RETURN(const std::string pattern, config.string(patternKey));
    if (pattern.size() != layers || pattern.find_first_not_of("FS") != std::string::npos)
      return config.mismatch(patternKey, strCat("F or S for each of ", layers, " layers"));
    for (const char type : pattern)
      isIndexed.push_back(type == 'F');
    typesKey = patternKey;
  }
  if (isIndexed.empty()) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t period,
                           config.integer("index_topk_freq", 0, kMaxLayerNumber));
    MOERT_ASSIGN_OR_RETURN(const uint32_t skipped,
                           config.integer("index_skip_topk_offset", 0, kMaxLayerNumber));
    for (uint32_t layer = 0; layer < layers; ++layer)
      isIndexed.push_back((layer + 1 > skipped ? layer + 1 - skipped : 0) % std::max(period, 1u) ==
                          0);
    typesKey = "index_skip_topk_offset";
  }
  for (uint32_t layer = 0; layer < layers; ++layer)
    if (hasAttention[layer] && !isIndexed[layer] && (layer == 0 || !hasAttention[layer - 1]))
      return config.mismatch(typesKey, "a first layer with an indexer: none before it to share");
  return isIndexed;
}

Result<IndexerConfig> readIndexer(const ConfigObject &config, uint32_t rotated) {
  IndexerConfig indexer;
  MOERT_ASSIGN_OR_RETURN(indexer.heads, config.integer("index_n_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(indexer.headDim, config.integer("index_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(indexer.most, config.integer("index_topk", 1, kMaxWidth));
  if (indexer.headDim < rotated)
    return config.mismatch("index_head_dim",
                           strCat("at least qk_rope_head_dim, ", rotated, ", which rotates"));
  return indexer;
}

IndexerDescription describeIndexer(const IndexerConfig &config, const DecoderConfig &decoder,
                                   uint32_t queryRank, const std::string &module) {
  IndexerDescription indexer;
  indexer.heads = config.heads;
  indexer.most = config.most;
  indexer.query = linearLayer(module + "wq_b.", config.heads * config.headDim, queryRank);
  indexer.key = linearLayer(module + "wk.", config.headDim, decoder.hiddenSize);
  indexer.weights = linearLayer(module + "weights_proj.", config.heads, decoder.hiddenSize);
  indexer.keyNorm = {NormKind::kLayer, 1e-6f,
                     vectorSource(module + "k_norm.weight", config.headDim),
                     vectorSource(module + "k_norm.bias", config.headDim)};
  indexer.rope = config.rope;
  return indexer;
}

} // namespace moec
