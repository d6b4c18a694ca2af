// A checkpoint directory as it is downloaded: config.json, optionally generation_config.json and
// tokenizer.json, and the weights (ShardSet.h). Opening reads and checks every header; weights are
// read in pieces, through a bounded buffer, so that a checkpoint larger than memory can be
// imported. An optional file that is there and cannot be read is refused, not skipped.
//
// Not here: what the weights mean (Architecture.h).
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/import/ShardSet.h"
#include "compiler/import/StoredType.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// An open checkpoint. Owns the file descriptors and the headers; the TensorLocations and
/// ConfigObjects that it hands out are valid while it lives, also after a move. Reading is const
/// and may be done from several threads at once.
class Checkpoint {
public:
  static moert::Result<Checkpoint> open(const std::string &directory);

  Checkpoint(Checkpoint &&) noexcept;
  Checkpoint &operator=(Checkpoint &&) noexcept;
  ~Checkpoint();

  const std::string &directory() const;
  /// config.json.
  ConfigObject config() const;
  /// generation_config.json, if there is one.
  std::optional<ConfigObject> generationConfig() const;
  /// The path of tokenizer.json, if there is one. It is not opened here.
  const std::optional<std::string> &tokenizerPath() const;

  /// nullopt if no shard has it.
  std::optional<TensorLocation> find(std::string_view tensor) const;
  /// All tensors that find() knows, by name, ascending.
  std::vector<std::string_view> tensorNames() const;
  /// Why find() has no such tensor, to be put after a message's end; may be empty.
  std::string absenceText(std::string_view tensor) const;
  /// What a user has to be told of the files: an index that disagrees with its shards, a tokenizer
  /// in a form that is not read. One line each.
  std::vector<std::string> warnings() const;
  /// The path of a shard, for messages.
  const std::string &shardPath(size_t shard) const;

  /// How the elements of a weight are stored; refuses a tensor that is missing or of a type that is
  /// not BF16, F16 or F32.
  moert::Result<StoredType> storedType(const WeightSource &source) const;

  /// Rows [firstRow, firstRow + rowCount) of the part that source names, as f32, row by row:
  /// out.size() == rowCount * source.cols. The conversion is exact. Rows are the source's own: row
  /// 0 is its first, wherever that lies in the tensor. In a vector (one dimension besides the
  /// index) firstRow and rowStep of the source count elements. A transposed source costs one small
  /// read per input and call, so ask for many rows at once.
  moert::Status readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                         std::span<float> out) const;

  /// The same rows as the stored elements, unconverted: out.size() == rowCount * source.cols *
  /// storedTypeBytes(storedType(source)).
  moert::Status readStoredRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                               std::span<std::byte> out) const;

  /// Bytes of a tensor's data, from `offset` on; out ends within the tensor.
  moert::Status readBytes(const TensorLocation &location, uint64_t offset,
                          std::span<std::byte> out) const;

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
