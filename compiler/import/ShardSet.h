// The files of a checkpoint that hold its tensors: model.safetensors alone, or the shards that
// model.safetensors.index.json names, or the parts of a GGUF file.
//
// The shards' content decides, not the index, as in transformers and vLLM: a tensor that is in
// another shard than the index says, or that the index does not list, is used. The index decides
// only from which of several shards a repeated tensor is read. Disagreements are kept for a
// warning, and as the reason if a tensor is missing.
#pragma once

#include "compiler/import/ShardFile.h"
#include "compiler/import/ShardIndex.h"
#include "compiler/import/StoredTensor.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Location of a tensor: the shard's index and the entry in that shard's header.
struct TensorLocation {
  size_t shard = 0;
  const StoredTensor *tensor = nullptr;
};

/// A tensor that the index lists but no shard holds.
struct AbsentTensor {
  std::string name;
  std::string file; // The shard named by the index.
};

/// Opened once, then constant. Owns the shards, which the locations point into, even after a move.
class ShardSet {
public:
  static moert::Result<ShardSet> open(const std::string &directory);
  /// Shards without an index, which must not repeat a tensor. `path` names them in messages.
  static moert::Result<ShardSet> of(const std::string &path, std::vector<ShardFile> shards);

  const std::string &directoryPath() const { return directory; }
  size_t size() const { return shards.size(); }
  const ShardFile &operator[](size_t shard) const { return shards[shard]; }

  /// nullopt if no shard holds it.
  std::optional<TensorLocation> find(std::string_view tensor) const;
  /// All tensors that the shards hold, ascending.
  std::vector<std::string_view> tensorNames() const;

  /// The reason why find() has no such tensor, as the end of a message; empty if unknown.
  std::string absenceText(std::string_view tensor) const;
  /// One line that lists the disagreements of index and shards; empty if there are none.
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
  std::vector<std::string> namedFiles;  // Named by the index.
  std::vector<std::string> absentFiles; // Those of namedFiles that do not exist.
  std::vector<size_t> shardOfFile;      // For each of namedFiles; kNoShard if absent.
  std::vector<AbsentTensor> absent;     // Sorted by name.
  std::vector<std::string> elsewhere;   // Held by another shard than the index names.
  std::vector<std::string> unlisted;    // Held by a shard, not listed by the index.
};

} // namespace moec
