// Opens a checkpoint, a directory or a GGUF file, describes the model and checks the two against
// each other.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <string>
#include <string_view>

namespace moec {

/// A checkpoint and its description; every tensor that the description names exists, with the right
/// shape and a supported type.
struct ImportedModel {
  ModelDescription description;
  Checkpoint checkpoint;
};

/// Opens, describes and checks. Tensors that no part of the model uses are ignored, as in the
/// model's own implementation. `warn`, if set, receives one line each for: the number of unused
/// tensors, Checkpoint's own warnings, a head that is not tied although the config says so, and
/// tensors that are all zero.
moert::Result<ImportedModel>
importCheckpoint(const std::string &directory,
                 const std::function<void(std::string_view)> &warn = {});

} // namespace moec
