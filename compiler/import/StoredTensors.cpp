#include "compiler/import/StoredTensors.h"

#include "compiler/import/JsonScan.h"
#include "runtime/base/CheckedMath.h"

namespace moec {

using moert::invalidInput;
using moert::Status;
using moert::strCat;

/// After this many bytes, the pages read are dropped from the page cache: an import reads every
/// byte once, and in a container the page cache counts against the memory limit.
static constexpr uint64_t kDropAfterBytes = 64 << 20;

std::string StoredTensors::subject(const TensorLocation &location) const {
  return strCat(shardSet[location.shard].path(), ": tensor ", quoted(location.tensor->name));
}

Status StoredTensors::read(const TensorLocation &location, uint64_t offset,
                           std::span<std::byte> out) const {
  const StoredTensor &tensor = *location.tensor;
  const uint64_t bytes = tensor.end - tensor.begin;
  if (!moert::rangeFits(offset, out.size(), bytes))
    return invalidInput(subject(location), ": found ", bytes, " bytes, expected ", out.size(),
                        " from byte ", offset);
  const ShardFile &shard = shardSet[location.shard];
  MOERT_RETURN_IF_ERROR(shard.read(shard.header().dataOffset + tensor.begin + offset, out));
  if (readSinceDrop.fetch_add(out.size()) + out.size() < kDropAfterBytes)
    return Status();
  readSinceDrop = 0;
  for (size_t each = 0; each < shardSet.size(); ++each)
    shardSet[each].dropCache();
  return Status();
}

} // namespace moec
