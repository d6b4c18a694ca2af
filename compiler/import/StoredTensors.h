// The tensors of a checkpoint as they are stored, and their bytes.
//
// Not here: their meaning; a weight may be coded in several stored tensors (TensorStore.h).
#pragma once

#include "compiler/import/ShardSet.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moec {

/// Owns the shards, which the locations point into. Reading is const and thread-safe.
class StoredTensors {
public:
  explicit StoredTensors(ShardSet set) : shardSet(std::move(set)) {}

  const ShardSet &shards() const { return shardSet; }
  std::optional<TensorLocation> find(std::string_view name) const { return shardSet.find(name); }

  /// "FILE: tensor "NAME"", to begin a message.
  std::string subject(const TensorLocation &location) const;

  /// Bytes of the tensor's data from `offset` on; the range must end within the tensor.
  moert::Status read(const TensorLocation &location, uint64_t offset,
                     std::span<std::byte> out) const;

private:
  ShardSet shardSet;
  mutable std::atomic<uint64_t> readSinceDrop = 0;
};

} // namespace moec
