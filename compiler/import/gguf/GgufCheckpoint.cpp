#include "compiler/import/gguf/GgufCheckpoint.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/gguf/GgufCodec.h"
#include "compiler/import/gguf/GgufConfig.h"
#include "compiler/import/gguf/GgufHeader.h"
#include "compiler/import/gguf/GgufTokenizer.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;
using Json = nlohmann::json;

namespace {

constexpr uint64_t kMostParts = 1 << 12;

struct OpenFile {
  ShardFile file;
  Json keys;
};

Result<OpenFile> openFile(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(ShardFile file, ShardFile::openWithoutHeader(path));
  const auto read = [&](uint64_t offset, std::span<std::byte> out) {
    return file.read(offset, out);
  };
  MOERT_ASSIGN_OR_RETURN(GgufHeader header, parseGgufHeader(path, read, file.bytes()));
  file.setHeader(std::move(header.shard));
  return OpenFile{std::move(file), std::move(header.keys)};
}

/// A key with a small number; nullopt without it.
Result<std::optional<uint64_t>> countAt(const std::string &path, const Json &keys,
                                        const char *name) {
  const auto found = keys.find(name);
  if (found == keys.end())
    return std::optional<uint64_t>();
  if (!found->is_number_integer() || *found < 0 || *found > UINT32_MAX)
    return invalidInput(path, ": key ", quoted(name), ": found ", found->dump(-1, ' ', true),
                        ", expected a number that is not negative");
  return std::optional(found->get<uint64_t>());
}

/// "00001-of-00003.gguf".
std::string partEnding(uint64_t part, uint64_t parts) {
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "%05llu-of-%05llu.gguf",
                static_cast<unsigned long long>(part + 1), static_cast<unsigned long long>(parts));
  return text.data();
}

/// The other parts of a split file, whose names differ in their numbers only.
Status addParts(const std::string &path, const Json &keys, std::vector<ShardFile> &files) {
  MOERT_ASSIGN_OR_RETURN(const auto parts, countAt(path, keys, "split.count"));
  if (parts.value_or(1) <= 1)
    return Status();
  MOERT_ASSIGN_OR_RETURN(const auto number, countAt(path, keys, "split.no"));
  if (number.value_or(0) != 0)
    return invalidInput(path, ": found part ", *number + 1, " of ", *parts,
                        ", expected the first part, which leads to the others");
  const std::string first = partEnding(0, *parts);
  if (*parts > kMostParts || !path.ends_with(first))
    return invalidInput(path, ": found the first of ", *parts, " parts, expected at most ",
                        kMostParts, " and a name that ends in ", first);
  for (uint64_t part = 1; part < *parts; ++part) {
    const std::string name = path.substr(0, path.size() - first.size()) + partEnding(part, *parts);
    MOERT_ASSIGN_OR_RETURN(OpenFile next, openFile(name));
    MOERT_ASSIGN_OR_RETURN(const auto itsNumber, countAt(name, next.keys, "split.no"));
    MOERT_ASSIGN_OR_RETURN(const auto itsParts, countAt(name, next.keys, "split.count"));
    if (itsNumber != part || itsParts != parts)
      return invalidInput(name, ": found split.no ", itsNumber.value_or(0), " of ",
                          itsParts.value_or(0), ", expected ", part, " of ", *parts);
    files.push_back(std::move(next.file));
  }
  uint64_t tensors = 0;
  for (const ShardFile &file : files)
    tensors += file.header().tensors.size();
  MOERT_ASSIGN_OR_RETURN(const auto stated, countAt(path, keys, "split.tensors.count"));
  if (stated.value_or(tensors) != tensors)
    return invalidInput(path, ": found ", tensors, " tensors in all parts, expected ", *stated,
                        ", as split.tensors.count says");
  return Status();
}

} // namespace

bool beginsAsGguf(const std::string &path) {
  std::array<char, 4> first = {};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return false;
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  return std::string_view(first.data(), first.size()) == "GGUF";
}

Result<GgufCheckpoint> openGguf(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(OpenFile first, openFile(path));
  const Json &keys = first.keys;
  std::vector<ShardFile> files;
  files.push_back(std::move(first.file));
  MOERT_RETURN_IF_ERROR(addParts(path, keys, files));
  MOERT_ASSIGN_OR_RETURN(const GgufFamily *const family, ggufFamilyOf(path, keys));
  MOERT_ASSIGN_OR_RETURN(ShardSet shards, ShardSet::of(path, std::move(files)));
  MOERT_ASSIGN_OR_RETURN(const Json made, makeGgufConfig(*family, path, keys, shards));
  MadeFiles texts;
  texts.config = made.dump();
  texts.tokenizerConfig = makeGgufTokenizerConfig(keys).dump();
  Result<Json> tokenizer = makeGgufTokenizer(keys);
  if (tokenizer.isOk())
    texts.tokenizer = tokenizer->dump();
  else
    texts.tokenizerAdvice = tokenizer.status().message();
  MOERT_ASSIGN_OR_RETURN(Config config,
                         Config::parse(strCat(path, ", read as config.json"), texts.config));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<WeightCodec> codec,
                         makeGgufCodec(*family, config.root(), shards));
  return GgufCheckpoint{std::move(shards), std::move(config), std::move(codec), std::move(texts)};
}

} // namespace moec
