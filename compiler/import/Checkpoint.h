// A checkpoint directory as published: config.json, optionally generation_config.json and
// tokenizer.json, and the weights (TensorStore.h); or a GGUF file, which is read as if it were one
// (gguf/GgufCheckpoint.h). Opening it reads and checks every header.
// Weights are read and decoded in pieces, through a bounded buffer, so that a checkpoint larger
// than memory can be imported. An optional file that exists but cannot be read is refused, not
// skipped.
//
// Not here: the meaning of the weights (Architecture.h).
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/import/StoredType.h"
#include "compiler/import/TensorStore.h"
#include "compiler/import/gguf/GgufCheckpoint.h"
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
/// ConfigObjects that it returns are valid while it lives, even after a move. Reading is const and
/// thread-safe.
class Checkpoint {
public:
  /// Opens a directory or a GGUF file.
  static moert::Result<Checkpoint> open(const std::string &path);

  Checkpoint(Checkpoint &&) noexcept;
  Checkpoint &operator=(Checkpoint &&) noexcept;
  ~Checkpoint();

  /// The directory, or the GGUF file.
  const std::string &directory() const;
  /// What the files of a directory would say; null for a directory, which has them.
  const MadeFiles *madeFiles() const;
  /// config.json.
  ConfigObject config() const;
  /// generation_config.json, if there is one.
  std::optional<ConfigObject> generationConfig() const;
  /// The path of tokenizer.json, or else of Kimi's tiktoken.model or of tekken.json, if there is
  /// one, or of the GGUF file that has a tokenizer. Opening a checkpoint does not open it.
  const std::optional<std::string> &tokenizerPath() const;
  /// The text of tokenizer.json, or the one made from another form. Requires a tokenizerPath().
  moert::Result<std::string> tokenizerText() const;
  /// Without tokenizer.json, what is there instead and what helps, as a part of a message.
  std::string tokenizerAdvice() const;

  /// Whether there is a weight of this name, plain or quantized.
  bool has(std::string_view weight) const;
  /// All names of weights, in ascending order.
  std::vector<std::string_view> weightNames() const;
  /// A weight's shape and how it is stored. An error for a missing weight, and for a quantized one
  /// whose parts are missing or do not fit.
  moert::Result<WeightTensor> weight(std::string_view name) const;
  /// The quantization method and its parameters; empty if no weight is quantized.
  std::string quantizationText() const;

  /// A stored tensor, whether it is a weight or a part of one; nullopt if no shard holds it.
  std::optional<TensorLocation> find(std::string_view tensor) const;
  /// All tensors that find() can find, in ascending order.
  std::vector<std::string_view> tensorNames() const;
  /// The reason why there is no such tensor, to append to a message; may be empty.
  std::string absenceText(std::string_view tensor) const;
  /// Warnings for the user, one line each: an index that disagrees with its shards, a tokenizer in
  /// an unsupported form.
  std::vector<std::string> warnings() const;
  /// A shard's path, for messages.
  const std::string &shardPath(size_t shard) const;
  /// The paths of all shards.
  std::vector<std::string> shardPaths() const;

  /// The smallest type that holds the part's values exactly: that of its tensor; that in which it
  /// is kept (codecs/KeptRows.h) if the part has whole blocks; BF16 or F32 if it is quantized
  /// otherwise (CodedWeight::plainType). An error for a missing tensor and for types other than
  /// these.
  moert::Result<StoredType> storedType(const WeightSource &source) const;

  /// Rows [firstRow, firstRow + rowCount) of the part that `source` describes, as f32, row by row:
  /// out.size() == rowCount * source.cols. The conversion is exact; a quantized weight's values are
  /// those of codecs/CodedWeight.h; then 1 is added if the source says so. Row 0 is the part's
  /// first row, wherever it is in the tensor. For a vector (one dimension besides the index),
  /// firstRow and rowStep of the source count elements. A transposed source costs one small read
  /// per input and call, so request many rows at once.
  moert::Status readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                         std::span<float> out) const;

  /// The same rows as they are stored, unconverted: out.size() == storedBytes(storedType(source),
  /// rowCount * source.cols). Kept rows are those of readKept(); any other quantized weight,
  /// and any other of a GGUF file, is refused.
  moert::Status readStoredRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                               std::span<std::byte> out) const;

  /// Bytes of a tensor's data from `offset` on; the range must end within the tensor.
  moert::Status readBytes(const TensorLocation &location, uint64_t offset,
                          std::span<std::byte> out) const;

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
