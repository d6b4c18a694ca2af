// The safetensors files of a checkpoint: model.safetensors alone, or the shards that
// model.safetensors.index.json names.
//
// What the shards hold decides, not what the index says of them, as in transformers and vLLM: a
// tensor that lies in another shard than the index says, or that the index does not list, is used
// all the same. The index decides one thing: which of several shards a repeated tensor is read
// from. Where the two disagree is kept for a warning, and for the reason when a tensor is missing.
#pragma once

#include "compiler/import/Safetensors.h"
#include "compiler/import/ShardFile.h"
#include "compiler/import/ShardIndex.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Where a tensor lies: the shard's index and its entry in that shard's header.
struct TensorLocation {
  size_t shard = 0;
  const SafetensorsTensor *tensor = nullptr;
};

/// A tensor that the index lists and no shard holds.
struct AbsentTensor {
  std::string name;
  std::string file; // Where the index says it is.
};

/// Opened once, then constant. Owns the shards, which the locations point into, also after a move.
class ShardSet {
public:
  static moert::Result<ShardSet> open(const std::string &directory);

  size_t size() const { return shards.size(); }
  const ShardFile &operator[](size_t shard) const { return shards[shard]; }

  /// nullopt if no shard holds it.
  std::optional<TensorLocation> find(std::string_view tensor) const;
  /// All tensors that the shards hold, ascending.
  std::vector<std::string_view> tensorNames() const;

  /// Why find() has no such tensor, as the end of a message; empty where nothing is known of it.
  std::string absenceText(std::string_view tensor) const;
  /// A line that says where the index and the shards disagree; empty where they agree.
  std::string disagreementText() const;

private:
  struct Entry {
    std::string_view name; // The shard header's string.
    TensorLocation location;
  };

  moert::Status openNamed(const ShardIndex &index);
  moert::Status locateTensors(const ShardIndex &index);
  std::vector<std::string> unnamedFiles() const;

  std::string directory;
  std::string indexPath; // Empty without an index.
  std::vector<ShardFile> shards;
  std::vector<Entry> tensors;           // Sorted by name, unique.
  std::vector<std::string> namedFiles;  // By the index.
  std::vector<std::string> absentFiles; // Of them, those that are not there.
  std::vector<size_t> shardOfFile;      // By namedFiles; kNoShard for an absent one.
  std::vector<AbsentTensor> absent;     // Sorted by name.
  std::vector<std::string> elsewhere;   // Held by another shard than the index says.
  std::vector<std::string> unlisted;    // Held by a shard, not listed by the index.
};

} // namespace moec
