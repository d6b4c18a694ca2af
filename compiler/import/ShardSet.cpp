#include "compiler/import/ShardSet.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/OptionalFile.h"
#include "compiler/import/Safetensors.h"

#include <algorithm>
#include <filesystem>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

static constexpr size_t kNoShard = SIZE_MAX;
/// Enough for an index of about a million tensors.
static constexpr uint64_t kMaxIndexBytes = kSafetensorsMaxHeaderBytes;

static Status refuseWithoutWeights(const std::string &directory) {
  for (const char *name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    MOERT_ASSIGN_OR_RETURN(const bool isThere, hasEntry(strCat(directory, "/", name)));
    if (isThere)
      return invalidInput(directory, ": found ", name,
                          ", which is not read, since a pickle may run any code, expected "
                          "model.safetensors; to write it, run in Python with transformers and "
                          "torch: AutoModelForCausalLM.from_pretrained(\"",
                          directory,
                          "\", torch_dtype=\"auto\").save_pretrained(\"DIR\"), and copy the "
                          "tokenizer's files to DIR");
  }
  return invalidInput(directory, ": found neither model.safetensors nor "
                                 "model.safetensors.index.json, expected one of them");
}

Result<ShardSet> ShardSet::open(const std::string &directory) {
  const std::string single = directory + "/model.safetensors";
  const std::string indexPath = directory + "/model.safetensors.index.json";
  MOERT_ASSIGN_OR_RETURN(const bool isSingle, hasReadableFile(single));
  if (isSingle) {
    MOERT_ASSIGN_OR_RETURN(ShardFile shard, ShardFile::open(single));
    std::vector<ShardFile> shards;
    shards.push_back(std::move(shard));
    return of(directory, std::move(shards));
  }
  MOERT_ASSIGN_OR_RETURN(const bool isIndexed, hasReadableFile(indexPath));
  if (!isIndexed)
    return refuseWithoutWeights(directory);
  ShardSet set;
  set.directory = directory;
  set.indexPath = indexPath;
  MOERT_ASSIGN_OR_RETURN(const std::string text, readTextFile(indexPath, kMaxIndexBytes));
  MOERT_ASSIGN_OR_RETURN(const ShardIndex index, parseShardIndex(indexPath, text));
  MOERT_RETURN_IF_ERROR(set.openNamed(index).withContext(indexPath));
  MOERT_RETURN_IF_ERROR(set.locateTensors(index).withContext(indexPath));
  return set;
}

Result<ShardSet> ShardSet::of(const std::string &path, std::vector<ShardFile> shards) {
  ShardSet set;
  set.directory = path;
  set.shards = std::move(shards);
  for (size_t shard = 0; shard < set.shards.size(); ++shard)
    for (const StoredTensor &tensor : set.shards[shard].header().tensors)
      set.tensors.push_back({tensor.name, {shard, &tensor}});
  std::sort(set.tensors.begin(), set.tensors.end(),
            [](const Entry &a, const Entry &b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(set.tensors.begin(), set.tensors.end(),
                         [](const Entry &a, const Entry &b) { return a.name == b.name; });
  if (twin != set.tensors.end())
    return invalidInput(set.shards[twin[1].location.shard].path(), ": found tensor ",
                        quoted(twin->name), ", which ", set.shards[twin->location.shard].path(),
                        " has too, expected it once");
  return set;
}

Status ShardSet::openNamed(const ShardIndex &index) {
  namedFiles = index.files;
  for (const std::string &file : index.files) {
    const std::string path = strCat(directory, "/", file);
    MOERT_ASSIGN_OR_RETURN(const bool isThere, hasReadableFile(path));
    shardOfFile.push_back(isThere ? shards.size() : kNoShard);
    if (!isThere) {
      absentFiles.push_back(file);
      continue;
    }
    MOERT_ASSIGN_OR_RETURN(ShardFile shard, ShardFile::open(path));
    shards.push_back(std::move(shard));
  }
  if (shards.empty())
    return invalidInput(directory, "/", absentFiles.front(), ": found no such file, expected the ",
                        "shards that weight_map names");
  return Status();
}

Status ShardSet::locateTensors(const ShardIndex &index) {
  std::vector<Entry> held; // A tensor in several shards has several entries.
  for (size_t shard = 0; shard < shards.size(); ++shard)
    for (const StoredTensor &tensor : shards[shard].header().tensors)
      held.push_back({tensor.name, {shard, &tensor}});
  std::stable_sort(held.begin(), held.end(),
                   [](const Entry &a, const Entry &b) { return a.name < b.name; });
  auto listed = index.entries.begin();
  const auto addAbsentBefore = [&](const std::string_view *name) {
    for (; listed != index.entries.end() && (!name || listed->tensor < *name); ++listed)
      absent.push_back({listed->tensor, index.files[listed->file]});
  };
  for (auto first = held.begin(); first != held.end();) {
    const auto last = std::find_if(first, held.end(),
                                   [&](const Entry &each) { return each.name != first->name; });
    addAbsentBefore(&first->name);
    const bool isListed = listed != index.entries.end() && listed->tensor == first->name;
    const size_t wanted = isListed ? shardOfFile[listed->file] : kNoShard;
    auto chosen =
        std::find_if(first, last, [&](const Entry &each) { return each.location.shard == wanted; });
    if (chosen == last && last - first > 1)
      return invalidInput("found tensor ", quoted(first->name), " in ",
                          shards[first->location.shard].path(), " and in ",
                          shards[first[1].location.shard].path(),
                          ", expected weight_map to name one of them");
    if (chosen == last) {
      (isListed ? elsewhere : unlisted).emplace_back(first->name);
      chosen = first;
    }
    tensors.push_back(*chosen);
    listed += isListed ? 1 : 0;
    first = last;
  }
  addAbsentBefore(nullptr);
  return Status();
}

std::optional<TensorLocation> ShardSet::find(std::string_view tensor) const {
  const auto entry =
      std::lower_bound(tensors.begin(), tensors.end(), tensor,
                       [](const Entry &a, std::string_view name) { return a.name < name; });
  if (entry == tensors.end() || entry->name != tensor)
    return std::nullopt;
  return entry->location;
}

std::vector<std::string_view> ShardSet::tensorNames() const {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const Entry &entry : tensors)
    names.push_back(entry.name);
  return names;
}

/// Up to three names, and how many more there are.
static std::string listText(const std::vector<std::string> &names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += strCat(i == 0 ? "" : ", ", quoted(names[i]));
  if (names.size() > kShown)
    text += strCat(" and ", names.size() - kShown, " more");
  return text;
}

static std::string countText(size_t count, std::string_view noun) {
  return strCat(count, " ", noun, count == 1 ? "" : "s");
}

std::vector<std::string> ShardSet::unnamedFiles() const {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors") &&
        std::find(namedFiles.begin(), namedFiles.end(), name) == namedFiles.end())
      files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ShardSet::absenceText(std::string_view tensor) const {
  if (indexPath.empty())
    return "";
  const auto entry = std::lower_bound(
      absent.begin(), absent.end(), tensor,
      [](const AbsentTensor &each, std::string_view name) { return each.name < name; });
  if (entry == absent.end() || entry->name != tensor) {
    const std::vector<std::string> others = unnamedFiles();
    if (others.empty())
      return strCat("; neither ", indexPath, " nor a shard that it names has it");
    return strCat("; neither ", indexPath, " nor a shard that it names has it, and it does not ",
                  "name ", listText(others), ", which is not read");
  }
  const std::string path = strCat(directory, "/", entry->file);
  if (std::find(absentFiles.begin(), absentFiles.end(), entry->file) != absentFiles.end())
    return strCat("; ", indexPath, " places it in ", path, ", and there is no such file");
  return strCat("; ", indexPath, " places it in ", path, ", which does not hold it");
}

std::string ShardSet::disagreementText() const {
  std::string text;
  const auto add = [&](std::string part) { text += (text.empty() ? "" : "; ") + std::move(part); };
  if (!absentFiles.empty())
    add(strCat("it names ", countText(absentFiles.size(), "file"), " that ",
               absentFiles.size() == 1 ? "is" : "are", " not there: ", listText(absentFiles)));
  if (!absent.empty()) {
    std::vector<std::string> names;
    for (const AbsentTensor &each : absent)
      names.push_back(each.name);
    add(strCat("it lists ", countText(absent.size(), "tensor"),
               " that no shard holds and the model does not need: ", listText(names)));
  }
  if (!elsewhere.empty())
    add(strCat(countText(elsewhere.size(), "tensor"),
               " found in another shard than it says: ", listText(elsewhere)));
  if (!unlisted.empty())
    add(strCat(countText(unlisted.size(), "tensor"),
               " that the shards hold and it does not list: ", listText(unlisted)));
  if (text.empty())
    return "";
  return strCat("warning: ", indexPath,
                " and the shards disagree; what the shards hold is used: ", text);
}

} // namespace moec
