// Tensor names as the classes of transformers 5 have them, where they differ from those of
// published checkpoints. transformers renames tensors on loading and back on saving;
// save_pretrained(save_original_format=False) leaves out the second step. Families describe the
// published names only. Source: transformers 5.24, conversion_mapping.py.
#pragma once

#include "compiler/import/ModelDescription.h"

#include <functional>
#include <string>
#include <string_view>

namespace moec {

/// `name`, a published one, if it is stored; otherwise the class's name for the same tensor if that
/// is stored; otherwise `name`.
std::string storedName(std::string_view modelType, std::string_view name,
                       const std::function<bool(std::string_view)> &isStored);

/// Replaces every weight's name by its storedName().
void useStoredNames(ModelDescription &model, const std::function<bool(std::string_view)> &isStored);

} // namespace moec
