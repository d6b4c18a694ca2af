// A model's description from config.json alone, without its weights: enough to size and plan it.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/import/StoredType.h"
#include "runtime/base/Status.h"

#include <memory>
#include <string>

namespace moec {

struct ConfigOnly {
  ModelDescription description;
  /// The types of weights, from the config: those of experts, and all others.
  StoredType expertType = StoredType::kBf16, type = StoredType::kBf16;
  /// A GGUF file, which has the types of its weights: then those above are not set.
  std::shared_ptr<const Checkpoint> file;

  moert::Result<StoredType> typeOf(const WeightSource &source, bool isOfExpert) const {
    return file ? file->storedType(source) : isOfExpert ? expertType : type;
  }
};

/// Reads config.json from a checkpoint's directory, which needs no other file. Refuses the same
/// configs as importCheckpoint().
moert::Result<ConfigOnly> describeConfig(const std::string &directory);

} // namespace moec
