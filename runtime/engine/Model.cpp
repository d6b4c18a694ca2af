// Opening an artifact.
#include "runtime/engine/Engine.h"

#include "runtime/base/FloatMode.h"
#include "runtime/format/Reader.h"
#include "runtime/format/Validate.h"
#include "runtime/io/ArtifactFile.h"

#include <algorithm>
#include <vector>

namespace moert {

struct Model::Impl {
  ArtifactFile file;
  Artifact artifact;
  std::vector<std::byte> tokenizerTable; // The tokenizer reads it in place.
  std::optional<Tokenizer> tokenizer;
};

Model::Model(std::unique_ptr<Impl> opened) : impl(std::move(opened)) {}
Model::~Model() = default;

const std::string &Model::path() const {
  return impl->file.path();
}
const Artifact &Model::artifact() const {
  return impl->artifact;
}
const ArtifactFile &Model::file() const {
  return impl->file;
}
const Tokenizer *Model::tokenizer() const {
  return impl->tokenizer ? &*impl->tokenizer : nullptr;
}

/// Adds the end token that tokenizer_config.json names: chats end with it.
static void addEndToken(const Tokenizer &tokenizer, Artifact &artifact) {
  std::vector<int32_t> &ends = artifact.model.eosTokens;
  if (artifact.chat)
    for (const auto &[name, text] : artifact.chat->specialTokens)
      if (const auto id = tokenizer.idOf(text);
          name == "eos_token" && id && static_cast<uint32_t>(*id) < artifact.model.vocabularySize &&
          std::find(ends.begin(), ends.end(), *id) == ends.end())
        ends.push_back(*id);
}

Result<std::unique_ptr<Model>> Model::open(const std::string &path) {
  const DefaultFloatMode mode;
  // The file is opened once, so that engines read the file that was checked.
  MOERT_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::open(path));
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::fromOpen(path, file.directDescriptor(),
                                                                 file.bufferedDescriptor()));
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(source));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, readTokenizerTable(source, artifact));
  auto opened = std::make_unique<Impl>(
      Impl{std::move(file), std::move(artifact), std::move(table), std::nullopt});
  if (!opened->tokenizerTable.empty()) {
    Result<Tokenizer> tokenizer =
        Tokenizer::load(opened->tokenizerTable, opened->artifact.model.vocabularySize);
    if (!tokenizer.isOk())
      return tokenizer.status().withContext(path);
    opened->tokenizer.emplace(std::move(tokenizer).value());
    addEndToken(*opened->tokenizer, opened->artifact);
  }
  return std::unique_ptr<Model>(new Model(std::move(opened)));
}

Result<std::unique_ptr<Model>> Model::openText(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open(path));
  if (imagesOf(model->artifact()))
    return invalidInput(path, ": found a vision model (", model->artifact().model.modelType,
                        "), expected a model of text; moert classify ", path, " IMAGE... runs it");
  return model;
}

Result<std::unique_ptr<Model>> Model::openWith(const std::string &path, std::vector<Plan> plans) {
  const DefaultFloatMode mode;
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, open(path));
  model->impl->artifact.plans = std::move(plans);
  MOERT_RETURN_IF_ERROR(validateArtifact(model->impl->artifact).withContext(path));
  return model;
}

} // namespace moert
