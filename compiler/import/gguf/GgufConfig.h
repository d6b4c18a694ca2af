// The keys of a GGUF file as the config.json of the published checkpoint.
#pragma once

#include "compiler/import/ShardSet.h"
#include "compiler/import/gguf/GgufFamilies.h"
#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <string>

namespace moec {

/// The family of a file with these keys. Refuses files that hold no model of a supported family:
/// adapters, vision encoders, dense models.
moert::Result<const GgufFamily *> ggufFamilyOf(const std::string &fileName,
                                               const nlohmann::json &keys);

/// config.json. A key that the file lacks has the value that llama.cpp takes, or else that of the
/// family's published models.
moert::Result<nlohmann::json> makeGgufConfig(const GgufFamily &family, const std::string &fileName,
                                             const nlohmann::json &keys, const ShardSet &shards);

} // namespace moec
