// What config.json says of a model, without its weights: enough to size and plan it.
#pragma once

#include "compiler/import/ModelDescription.h"
#include "compiler/import/StoredType.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct ConfigOnly {
  ModelDescription description;
  StoredType type = StoredType::kBf16; // Of all weights, as the config has it.
};

/// Reads config.json of a checkpoint's directory, in which nothing else has to be. Refuses what
/// importCheckpoint() refuses of a config.
moert::Result<ConfigOnly> describeConfig(const std::string &directory);

} // namespace moec
