// The tensors of a GGUF file as the weights of the published checkpoint: under its names, in its
// order of rows.
#pragma once

#include "compiler/import/codecs/Codec.h"
#include "compiler/import/gguf/GgufFamilies.h"

#include <memory>

namespace moec {

/// `config` is makeGgufConfig()'s. Every tensor with a name of the family is a weight of this
/// codec, whatever its type; others keep their names.
moert::Result<std::unique_ptr<WeightCodec>>
makeGgufCodec(const GgufFamily &family, const ConfigObject &config, const ShardSet &shards);

} // namespace moec
