#include "compiler/import/Checkpoint.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/OptionalFile.h"
#include "compiler/import/TensorStore.h"
#include "compiler/import/WeightReader.h"
#include "compiler/import/tokenizer/RankedTokenizer.h"
#include "runtime/base/ArtifactPath.h"

#include <fstream>
#include <sys/stat.h>

namespace moec {

using moert::foreignFileText;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

struct Checkpoint::Impl {
  Status openFiles(const std::string &path);
  Status openGgufFile(const std::string &path);

  std::string directory;
  std::optional<Config> config;
  std::optional<Config> generationConfig;
  std::optional<std::string> tokenizer;
  std::vector<std::string_view> otherTokenizers; // Filled if there is no tokenizer.json.
  std::unique_ptr<TensorStore> store;            // Never null once open.
  std::optional<MadeFiles> made;                 // For a GGUF file.
};

// The largest known tokenizer.json files have 35 MB.
static constexpr uint64_t kMaxTokenizerBytes = uint64_t(256) << 20;
static constexpr std::string_view kKimiFile = "/tiktoken.model", kTekkenFile = "/tekken.json";

/// The file with a tokenizer of ranks. A tiktoken.model is that of the class in
/// tokenizer_config.json, whose pattern is in its code; only Kimi's is known.
static Result<std::optional<std::string>> rankedTokenizerFile(const std::string &directory) {
  for (const std::string_view name : {kTekkenFile, kKimiFile}) {
    const std::string path = strCat(directory, name), about = directory + "/tokenizer_config.json";
    MOERT_ASSIGN_OR_RETURN(const bool isThere, hasReadableFile(path));
    MOERT_ASSIGN_OR_RETURN(const bool isDescribed, hasReadableFile(about));
    if (!isThere || (name == kKimiFile && !isDescribed))
      continue;
    if (name == kTekkenFile)
      return std::optional(path);
    MOERT_ASSIGN_OR_RETURN(const Config config, Config::read(about));
    MOERT_ASSIGN_OR_RETURN(const std::string kind, config.root().string("tokenizer_class", ""));
    if (kind == "TikTokenTokenizer")
      return std::optional(path);
  }
  return std::optional<std::string>();
}

static std::string firstBytesOf(const std::string &path) {
  std::string bytes(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

Status Checkpoint::Impl::openGgufFile(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(GgufCheckpoint file, openGguf(path));
  config = std::move(file.config);
  made = std::move(file.files);
  if (made->tokenizer)
    tokenizer = path;
  MOERT_ASSIGN_OR_RETURN(store, TensorStore::of(std::move(file.shards), std::move(file.codec)));
  return Status();
}

Status Checkpoint::Impl::openFiles(const std::string &path) {
  directory = path;
  if (beginsAsGguf(path))
    return openGgufFile(path);
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISREG(info.st_mode) && moert::beginsAsArtifact(path))
    return invalidInput(path,
                        ": found an artifact, which is compiled already, expected the folder "
                        "of a checkpoint; moert run ",
                        path, " executes it, moec replan ", path, " plans it for other memory");
  if (exists && S_ISREG(info.st_mode))
    if (const std::string found = foreignFileText(firstBytesOf(path)); !found.empty())
      return invalidInput(path, ": ", found);
  if (!exists || !S_ISDIR(info.st_mode))
    return invalidInput(path, ": found ", exists ? "a file" : "no such directory",
                        ", expected a GGUF file or a checkpoint directory with config.json and "
                        "model.safetensors",
                        exists ? "" : moert::hubHint(path));
  MOERT_RETURN_IF_ERROR(checkHasConfig(path));
  MOERT_ASSIGN_OR_RETURN(config, Config::read(path + "/config.json"));
  MOERT_ASSIGN_OR_RETURN(const bool hasGeneration,
                         hasReadableFile(path + "/generation_config.json"));
  if (hasGeneration) {
    MOERT_ASSIGN_OR_RETURN(generationConfig, Config::read(path + "/generation_config.json"));
  }
  MOERT_ASSIGN_OR_RETURN(const bool hasTokenizer, hasReadableFile(path + "/tokenizer.json"));
  if (hasTokenizer) {
    tokenizer = path + "/tokenizer.json";
  } else {
    MOERT_ASSIGN_OR_RETURN(tokenizer, rankedTokenizerFile(path));
    if (!tokenizer) {
      MOERT_ASSIGN_OR_RETURN(otherTokenizers, otherTokenizerFiles(path));
    }
  }
  MOERT_ASSIGN_OR_RETURN(store, TensorStore::open(path, config->root()));
  return Status();
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> content) : impl(std::move(content)) {}
Checkpoint::Checkpoint(Checkpoint &&) noexcept = default;
Checkpoint &Checkpoint::operator=(Checkpoint &&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::string &directory) {
  auto impl = std::make_unique<Impl>();
  MOERT_RETURN_IF_ERROR(impl->openFiles(directory));
  return Checkpoint(std::move(impl));
}

const std::string &Checkpoint::directory() const {
  return impl->directory;
}

const MadeFiles *Checkpoint::madeFiles() const {
  return impl->made ? &*impl->made : nullptr;
}

ConfigObject Checkpoint::config() const {
  return impl->config->root();
}

std::optional<ConfigObject> Checkpoint::generationConfig() const {
  return impl->generationConfig ? std::optional(impl->generationConfig->root()) : std::nullopt;
}

const std::optional<std::string> &Checkpoint::tokenizerPath() const {
  return impl->tokenizer;
}

Result<std::string> Checkpoint::tokenizerText() const {
  if (impl->made)
    return *impl->made->tokenizer;
  const std::string &path = *impl->tokenizer;
  MOERT_ASSIGN_OR_RETURN(std::string text, readTextFile(path, kMaxTokenizerBytes));
  if (path.ends_with(kTekkenFile))
    return moert::makeTekkenTokenizer(text, path);
  if (!path.ends_with(kKimiFile))
    return text;
  MOERT_ASSIGN_OR_RETURN(
      const std::string config,
      readTextFile(impl->directory + "/tokenizer_config.json", kMaxTokenizerBytes));
  return moert::makeKimiTokenizer(text, config, path);
}

bool Checkpoint::has(std::string_view weight) const {
  return impl->store->has(weight);
}

std::vector<std::string_view> Checkpoint::weightNames() const {
  return impl->store->names();
}

Result<WeightTensor> Checkpoint::weight(std::string_view name) const {
  return impl->store->weight(name);
}

std::string Checkpoint::quantizationText() const {
  return impl->store->codec() ? impl->store->codec()->text() : "";
}

std::optional<TensorLocation> Checkpoint::find(std::string_view tensor) const {
  return impl->store->stored().find(tensor);
}

std::vector<std::string_view> Checkpoint::tensorNames() const {
  return impl->store->stored().shards().tensorNames();
}

std::string Checkpoint::absenceText(std::string_view tensor) const {
  return impl->store->stored().shards().absenceText(tensor);
}

std::vector<std::string> Checkpoint::warnings() const {
  std::vector<std::string> lines;
  if (std::string text = impl->store->stored().shards().disagreementText(); !text.empty())
    lines.push_back(std::move(text));
  if (!impl->otherTokenizers.empty() || (impl->made && !impl->tokenizer))
    lines.push_back(strCat("warning: ", impl->directory, ": ", tokenizerAdvice(),
                           ". The artifact will have no tokenizer, so that moert takes and prints ",
                           "token ids"));
  return lines;
}

std::string Checkpoint::tokenizerAdvice() const {
  if (impl->tokenizer)
    return "";
  if (impl->made)
    return impl->made->tokenizerAdvice;
  std::string names;
  bool hasVocabulary = false;
  for (const std::string_view name : impl->otherTokenizers) {
    names += strCat(names.empty() ? "" : ", ", name);
    hasVocabulary = hasVocabulary || !name.ends_with(".json") || name == "vocab.json";
  }
  if (!hasVocabulary)
    return strCat("found ", names, names.empty() ? "" : " and ",
                  "no tokenizer.json, which is the form that is read; if the model is ",
                  "published with one, download it too");
  return strCat("found ", names, " and no tokenizer.json, which is the form that is read; to ",
                "write it, run in Python with transformers, sentencepiece and tiktoken: ",
                "AutoTokenizer.from_pretrained(\"", impl->directory, "\").save_pretrained(\"",
                impl->directory, "\")");
}

const std::string &Checkpoint::shardPath(size_t shard) const {
  return impl->store->stored().shards()[shard].path();
}

std::vector<std::string> Checkpoint::shardPaths() const {
  const ShardSet &shards = impl->store->stored().shards();
  std::vector<std::string> paths;
  for (size_t shard = 0; shard < shards.size(); ++shard)
    paths.push_back(shards[shard].path());
  return paths;
}

Status Checkpoint::readBytes(const TensorLocation &location, uint64_t offset,
                             std::span<std::byte> out) const {
  return impl->store->stored().read(location, offset, out);
}

Result<StoredType> Checkpoint::storedType(const WeightSource &source) const {
  return WeightReader(*impl->store).storedType(source);
}

Status Checkpoint::readStoredRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                                  std::span<std::byte> out) const {
  return WeightReader(*impl->store).readStoredRows(source, firstRow, rowCount, out);
}

Status Checkpoint::readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                            std::span<float> out) const {
  return WeightReader(*impl->store).readRows(source, firstRow, rowCount, out);
}

} // namespace moec
