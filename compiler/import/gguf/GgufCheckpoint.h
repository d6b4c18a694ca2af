// A GGUF file as a checkpoint: its parts, and what the other files of a published checkpoint say,
// made from its keys.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ShardSet.h"
#include "compiler/import/codecs/Codec.h"
#include "runtime/base/Status.h"

#include <memory>
#include <optional>
#include <string>

namespace moec {

/// The texts of files of a checkpoint.
struct MadeFiles {
  std::string config;                   // config.json.
  std::string tokenizerConfig;          // tokenizer_config.json.
  std::optional<std::string> tokenizer; // tokenizer.json; absent if the keys' is not read.
  std::string tokenizerAdvice;          // Then why, as a part of a message.
};

struct GgufCheckpoint {
  ShardSet shards;
  Config config; // That of the files.
  std::unique_ptr<WeightCodec> codec;
  MadeFiles files;
};

/// True for a regular file whose first bytes are those of GGUF.
bool beginsAsGguf(const std::string &path);

/// Opens a file, or all parts of a split one by its first part.
moert::Result<GgufCheckpoint> openGguf(const std::string &path);

} // namespace moec
