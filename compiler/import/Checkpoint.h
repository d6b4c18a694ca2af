// A checkpoint directory as it is downloaded: config.json, optionally generation_config.json and
// tokenizer.json, and the weights in model.safetensors or in the shards that
// model.safetensors.index.json lists. Opening reads and checks every header; weights are read in
// pieces, through a bounded buffer, so that a checkpoint larger than memory can be imported.
//
// Not here: what the weights mean (Architecture.h).
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/import/Safetensors.h"
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

/// Where a tensor lies: the shard's index and its entry in that shard's header.
struct TensorLocation {
  size_t shard = 0;
  const SafetensorsTensor *tensor = nullptr;
};

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

  /// nullopt if no shard has it (or, with an index, if the index does not name it).
  std::optional<TensorLocation> find(std::string_view tensor) const;
  /// All tensors that find() knows, by name, ascending.
  std::vector<std::string_view> tensorNames() const;
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

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// A checkpoint and what its config makes of it; every tensor that the description names is there,
/// in the shape and a type that it needs.
struct ImportedModel {
  ModelDescription description;
  Checkpoint checkpoint;
};

/// Opens, describes and checks. Tensors that no part of the model uses are left out, as the model's
/// own implementation does; warn, if there is one, gets a line that counts them.
moert::Result<ImportedModel>
importCheckpoint(const std::string &directory,
                 const std::function<void(std::string_view)> &warn = {});

} // namespace moec
