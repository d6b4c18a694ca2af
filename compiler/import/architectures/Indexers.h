// The indexers of GLM-5 and DeepSeek-V3.2 in configs and checkpoints, with the keys and tensor
// names that GLM-5.3 took over.
#pragma once

#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

/// Which layers have an indexer of their own, by indexer_types, or else index_topk_pattern, or else
/// index_topk_freq and index_skip_topk_offset. Of the layers with attention, those without one
/// share the choice of the layer before them, which must have attention too.
moert::Result<std::vector<bool>> readIndexed(const ConfigObject &config,
                                             const std::vector<bool> &hasAttention);

/// The indexer of a layer, without what depends on the layer.
struct IndexerConfig {
  uint32_t heads = 0, headDim = 0, most = 0;
  std::optional<uint32_t> rope = 0;
};

/// rotated: elements of a head that rotate.
moert::Result<IndexerConfig> readIndexer(const ConfigObject &config, uint32_t rotated);

/// The tensors' names begin with `module` ("model.layers.3.self_attn.indexer.").
IndexerDescription describeIndexer(const IndexerConfig &config, const DecoderConfig &decoder,
                                   uint32_t queryRank, const std::string &module);

} // namespace moec
