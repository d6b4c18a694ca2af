// The model families that can be imported, and describeModel(), which turns a config into a
// ModelDescription. Each family is one file in architectures/ with one function, listed in
// Architecture.cpp; code that families share is in architectures/LlamaDecoder.h.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ConfigTable.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// The input of a family's function. Tensor names distinguish the layouts of one family (one tensor
/// per expert, or all experts fused); shapes are checked afterwards, against the description.
struct ArchitectureInput {
  ConfigObject config; ///< For a family's function: of the text model, read through its table.
  std::optional<ConfigObject> generationConfig;
  std::function<bool(std::string_view tensor)> hasTensor;
  /// The shape of a weight that exists.
  std::function<moert::Result<std::vector<uint64_t>>(std::string_view tensor)> shapeOf = {};
  /// Whether two stored matrices have equal values; called only for tensors that exist.
  std::function<moert::Result<bool>(const WeightSource &, const WeightSource &)> areEqual = {};
  std::function<void(std::string_view line)> warn = {}; // May be empty.
  /// For a family's function: the config that has the text model's as text_config, if one does.
  std::optional<ConfigObject> outer = {};
  /// The elements of a stored tensor of I64; called only for one that exists.
  std::function<moert::Result<std::vector<int64_t>>(std::string_view tensor)> readIntegers = {};
};

/// A model_type with its config classes.
struct Family {
  std::string_view modelType;
  std::string_view className; ///< The value in `architectures`.
  moert::Result<ModelDescription> (*describe)(const ArchitectureInput &input);
  ConfigKeys keys;                        ///< Of the text model's class.
  ConfigKeys outerKeys = {};              ///< Not empty: `keys` are those of text_config,
  std::string_view textType = {};         ///< whose model_type is this.
  std::string_view otherName = className; ///< As transformers' own class is called.
  std::string_view textHolder = {};       ///< Not empty: the object that holds text_config.
};

/// All families, ascending by model_type.
std::span<const Family> supportedFamilies();

/// Finds the family by model_type and calls its function. Refuses an unknown model_type, and an
/// `architectures` entry that is not the family's, with a list of the supported ones.
moert::Result<ModelDescription> describeModel(const ArchitectureInput &input);

} // namespace moec
