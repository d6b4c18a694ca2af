#include "compiler/import/ShardIndex.h"

#include "compiler/import/JsonScan.h"

#include <algorithm>
#include <map>
#include <new>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// A shard must be in the index's directory: refuses names that could lead elsewhere.
Status checkShardName(const std::string &name, const std::string &tensor) {
  const bool plain = !name.empty() && name != "." && name.find('/') == std::string::npos &&
                     name.find('\\') == std::string::npos && name.find("..") == std::string::npos &&
                     name.find('\0') == std::string::npos;
  if (plain)
    return Status();
  return invalidInput("weight_map of ", quoted(tensor), ": found ", quoted(name),
                      ", expected the name of a file in the same directory");
}

class IndexHandler final : public JsonEventHandler {
public:
  explicit IndexHandler(ShardIndex &output) : index(output) {}

  Status handle(const JsonEvent &event) override {
    const bool isEnd =
        event.kind == JsonEventKind::kEndObject || event.kind == JsonEventKind::kEndArray;
    const bool isStart =
        event.kind == JsonEventKind::kStartObject || event.kind == JsonEventKind::kStartArray;
    if (isEnd)
      --depth;
    const Status status = inMap ? handleMap(event) : handleOutside(event);
    if (isStart)
      ++depth;
    return status;
  }

  bool seenMap = false;

private:
  Status handleOutside(const JsonEvent &event) {
    if (depth == 0 && event.kind != JsonEventKind::kStartObject &&
        event.kind != JsonEventKind::kEndObject)
      return invalidInput("found ", describeEvent(event), ", expected an object");
    if (depth != 1)
      return Status(); // Inside the value of another key.
    if (event.kind == JsonEventKind::kKey) {
      mapIsNext = *event.text == "weight_map";
      if (mapIsNext && seenMap)
        return invalidInput("found weight_map twice, expected it once");
      seenMap = seenMap || mapIsNext;
    } else if (mapIsNext) {
      if (event.kind != JsonEventKind::kStartObject)
        return invalidInput("weight_map: found ", describeEvent(event), ", expected an object");
      inMap = true;
      mapIsNext = false;
    }
    return Status();
  }

  Status handleMap(const JsonEvent &event) {
    if (event.kind == JsonEventKind::kEndObject) {
      inMap = false;
      return Status();
    }
    if (event.kind == JsonEventKind::kKey) {
      index.entries.push_back({std::move(*event.text), 0});
      return Status();
    }
    const std::string &tensor = index.entries.back().tensor;
    if (event.kind != JsonEventKind::kString)
      return invalidInput("weight_map of ", quoted(tensor), ": found ", describeEvent(event),
                          ", expected a file name");
    MOERT_RETURN_IF_ERROR(checkShardName(*event.text, tensor));
    const auto [entry, isNew] =
        files.emplace(*event.text, static_cast<uint32_t>(index.files.size()));
    if (isNew)
      index.files.push_back(*event.text);
    index.entries.back().file = entry->second;
    return Status();
  }

  ShardIndex &index;
  std::map<std::string, uint32_t> files;
  size_t depth = 0;
  bool mapIsNext = false;
  bool inMap = false;
};

Status finishIndex(ShardIndex &index, bool seenMap) {
  if (!seenMap)
    return invalidInput("found no weight_map, expected an object that names a file per tensor");
  if (index.entries.empty())
    return invalidInput("found an empty weight_map, expected a file name per tensor");
  std::sort(index.entries.begin(), index.entries.end(),
            [](const auto &a, const auto &b) { return a.tensor < b.tensor; });
  const auto twin =
      std::adjacent_find(index.entries.begin(), index.entries.end(),
                         [](const auto &a, const auto &b) { return a.tensor == b.tensor; });
  if (twin != index.entries.end())
    return invalidInput("weight_map: found ", quoted(twin->tensor), " twice, expected it once");
  return Status();
}

} // namespace

Result<ShardIndex> parseShardIndex(std::string_view fileName, std::string_view text) {
  try {
    ShardIndex index;
    IndexHandler handler(index);
    MOERT_RETURN_IF_ERROR(scanJson(fileName, text, handler));
    MOERT_RETURN_IF_ERROR(finishIndex(index, handler.seenMap).withContext(fileName));
    return index;
  } catch (const std::bad_alloc &) {
    return moert::failed(fileName, ": out of memory while reading ", text.size(), " bytes");
  }
}

} // namespace moec
