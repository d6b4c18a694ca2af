// From a checkpoint directory to a described and checked model.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <string>
#include <string_view>

namespace moec {

/// A checkpoint and what its config makes of it; every tensor that the description names is there,
/// in the shape and a type that it needs.
struct ImportedModel {
  ModelDescription description;
  Checkpoint checkpoint;
};

/// Opens, describes and checks. Tensors that no part of the model uses are left out, as the model's
/// own implementation does; warn, if there is one, gets a line that counts them, Checkpoint's own
/// warnings, a line on a head that is not tied although the config says so, and one on tensors that
/// are all zero.
moert::Result<ImportedModel>
importCheckpoint(const std::string &directory,
                 const std::function<void(std::string_view)> &warn = {});

} // namespace moec
