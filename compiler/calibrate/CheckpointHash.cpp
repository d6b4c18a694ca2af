// What tells checkpoints from each other without reading all their weights, as profiles record it.
#include "compiler/calibrate/Calibrate.h"

#include "compiler/emit/FieldChecksum.h"
#include "compiler/import/Checkpoint.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <array>
#include <map>

using namespace moert;

namespace moec {

// Of each tensor. A fine-tuned checkpoint has the headers of the one that it was made from, and
// other weights nearly everywhere.
static constexpr uint64_t kFirstBytes = 64;

namespace {

/// An open shard and where its tensors' bytes begin.
struct Shard {
  FileSource file;
  uint64_t dataOffset = 0;
};

Result<Shard> openShard(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  uint64_t headerBytes = 0;
  MOERT_RETURN_IF_ERROR(
      file.read(0, std::as_writable_bytes(std::span(&headerBytes, 1))).withContext(path));
  std::optional<uint64_t> offset = checkedAdd(headerBytes, sizeof(headerBytes));
  if (!offset)
    return invalidInput(path, ": the header has ", headerBytes, " bytes");
  return Shard{std::move(file), *offset};
}

Status feedFile(FieldChecksum &feed, const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  feed.number(file.bytes());
  std::vector<std::byte> piece(std::min<uint64_t>(file.bytes(), 1 << 20));
  for (uint64_t done = 0; done < file.bytes();) {
    auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), file.bytes() - done));
    MOERT_RETURN_IF_ERROR(file.read(done, part).withContext(path));
    feed.bytes(part);
    done += part.size();
  }
  return {};
}

} // namespace

Result<uint64_t> checkpointHash(const Checkpoint &checkpoint) {
  FieldChecksum feed;
  MOERT_RETURN_IF_ERROR(feedFile(feed, checkpoint.directory() + "/config.json"));
  if (checkpoint.tokenizerPath())
    MOERT_RETURN_IF_ERROR(feedFile(feed, *checkpoint.tokenizerPath()));
  std::map<size_t, Shard> shards;
  for (std::string_view name : checkpoint.tensorNames()) {
    auto location = checkpoint.find(name);
    if (!location)
      continue;
    const SafetensorsTensor &tensor = *location->tensor;
    feed.text(name);
    feed.text(safetensorsTypeName(tensor.type));
    feed.number(tensor.shape.size());
    for (uint64_t dimension : tensor.shape)
      feed.number(dimension);
    auto shard = shards.find(location->shard);
    if (shard == shards.end()) {
      MOERT_ASSIGN_OR_RETURN(Shard opened, openShard(checkpoint.shardPath(location->shard)));
      shard = shards.emplace(location->shard, std::move(opened)).first;
    }
    std::array<std::byte, kFirstBytes> first;
    auto bytes = std::span(first).first(std::min(kFirstBytes, tensor.end - tensor.begin));
    MOERT_RETURN_IF_ERROR(shard->second.file.read(shard->second.dataOffset + tensor.begin, bytes)
                              .withContext(shard->second.file.name()));
    feed.bytes(bytes);
  }
  return feed.digest();
}

} // namespace moec
