#include "compiler/import/ImportCheckpoint.h"

#include "compiler/import/Architecture.h"
#include "compiler/import/ConfigOnly.h"
#include "compiler/import/JsonScan.h"
#include "compiler/import/TensorCheck.h"
#include "compiler/import/TensorValues.h"
#include "compiler/import/codecs/Codec.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

// Published checkpoints without either key are bf16.
static Result<StoredType> typeOf(const ConfigObject &config) {
  for (const std::string_view key : {"torch_dtype", "dtype"}) {
    if (!config.has(key))
      continue;
    MOERT_ASSIGN_OR_RETURN(const std::string type, config.string(key));
    return type == "float32"   ? StoredType::kF32
           : type == "float16" ? StoredType::kF16
                               : StoredType::kBf16;
  }
  return StoredType::kBf16;
}

/// A GGUF file has all in one, so that its weights are there too.
static Result<ConfigOnly> describeGguf(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(path));
  ConfigOnly result;
  result.file = std::make_shared<const Checkpoint>(std::move(model.checkpoint));
  result.description = std::move(model.description);
  return result;
}

Result<ConfigOnly> describeConfig(const std::string &directory) {
  if (beginsAsGguf(directory))
    return describeGguf(directory);
  MOERT_ASSIGN_OR_RETURN(const Config config, Config::read(directory + "/config.json"));
  const ArchitectureInput input{config.root(), std::nullopt,
                                [](std::string_view) { return false; }};
  ConfigOnly result;
  MOERT_ASSIGN_OR_RETURN(result.description, describeModel(input));
  MOERT_ASSIGN_OR_RETURN(result.type, typeOf(config.root()));
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<WeightCodec> codec,
                         readCodec(config.root(), directory));
  result.expertType = codec ? codec->exactType().value_or(result.type) : result.type;
  return result;
}

static std::string zeroText(const std::string &directory, const std::vector<std::string> &names) {
  constexpr size_t kShown = 3;
  std::string text =
      strCat("warning: ", directory, ": ", names.size(), names.size() == 1 ? " tensor" : " tensors",
             " of the model ", names.size() == 1 ? "is" : "are", " all zero: ");
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += strCat(i == 0 ? "" : ", ", quoted(names[i]));
  if (names.size() > kShown)
    text += strCat(" and ", names.size() - kShown, " more");
  return text + "; an interrupted download leaves such files: compare them with their source";
}

/// A tensor that does not fit may be the fault of a default: names the keys that have one.
static Status withDefaultedKeys(Status status, const std::string &directory,
                                const ModelDescription &description) {
  constexpr size_t kShown = 8;
  const std::vector<std::string> &keys = description.defaultedKeys;
  if (status.isOk() || keys.empty())
    return status;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, keys.size()); ++i)
    text += strCat(i == 0 ? "" : ", ", keys[i]);
  if (keys.size() > kShown)
    text += strCat(" and ", keys.size() - kShown, " more");
  return moert::invalidInput(status.message(), "; ",
                             beginsAsGguf(directory) ? directory : directory + "/config.json",
                             " lacks ", text, ": the defaults in parentheses are taken");
}

Result<ImportedModel> importCheckpoint(const std::string &directory,
                                       const std::function<void(std::string_view)> &warn) {
  MOERT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(directory));
  const ArchitectureInput input{
      checkpoint.config(),
      checkpoint.generationConfig(),
      [&checkpoint](std::string_view tensor) { return checkpoint.has(tensor); },
      [&checkpoint](std::string_view tensor) -> Result<std::vector<uint64_t>> {
        MOERT_ASSIGN_OR_RETURN(WeightTensor weight, checkpoint.weight(tensor));
        return std::move(weight.shape);
      },
      [&checkpoint](const WeightSource &a, const WeightSource &b) {
        return areEqualMatrices(checkpoint, a, b);
      },
      warn,
      std::nullopt,
      [&checkpoint](std::string_view tensor) { return readIntegers(checkpoint, tensor); }};
  MOERT_ASSIGN_OR_RETURN(ModelDescription description, describeModel(input));
  MOERT_RETURN_IF_ERROR(
      withDefaultedKeys(checkTensors(checkpoint, description), directory, description));
  if (!warn)
    return ImportedModel{std::move(description), std::move(checkpoint)};
  for (const std::string &line : checkpoint.warnings())
    warn(line);
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> zero,
                         allZeroTensors(checkpoint, description));
  if (!zero.empty())
    warn(zeroText(directory, zero));
  return ImportedModel{std::move(description), std::move(checkpoint)};
}

} // namespace moec
