// model.safetensors.index.json: which shard holds which tensor. Its metadata (total_size) is often
// stale and is not read.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct ShardIndex {
  struct Entry {
    std::string tensor;
    uint32_t file = 0; // Index into `files`.
  };
  std::vector<std::string> files; // Plain file names, unique.
  std::vector<Entry> entries;     // Sorted by tensor, unique, not empty.
};

/// fileName is for messages. Refuses shard names that are not plain names in the same directory.
moert::Result<ShardIndex> parseShardIndex(std::string_view fileName, std::string_view text);

} // namespace moec
