// The model families that can be imported, and the way from a config to a ModelDescription. A
// family is one file in architectures/ with one function, listed in Architecture.cpp; everything
// that families share is in architectures/LlamaDecoder.h.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// What a family may look at. Tensor names tell apart the layouts of one family (one tensor per
/// expert, or all experts fused); shapes are checked afterwards, against the description.
struct ArchitectureInput {
  ConfigObject config;
  std::optional<ConfigObject> generationConfig;
  std::function<bool(std::string_view tensor)> hasTensor;
  /// Whether two stored matrices of the model hold the same; asked only of tensors that are there.
  std::function<moert::Result<bool>(const WeightSource &, const WeightSource &)> areEqual = {};
  std::function<void(std::string_view line)> warn = {}; // May be empty.
};

/// Finds the family by model_type and lets it describe the model. An unknown model_type, or an
/// `architectures` entry that is not the family's, is refused with the list of what is supported.
moert::Result<ModelDescription> describeModel(const ArchitectureInput &input);

/// The model_type of every family, ascending.
std::vector<std::string_view> supportedModelTypes();

} // namespace moec
