// A checkpoint's weights by their plain names, whatever they are stored as: a weight in F32, F16 or
// BF16 is its tensor; a quantized one is what its codec makes of several stored tensors
// (codecs/Codec.h). Readers of weights need no other view; hashes of a checkpoint use the stored
// tensors.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/StoredTensors.h"
#include "compiler/import/StoredType.h"
#include "compiler/import/codecs/Codec.h"
#include "runtime/base/Status.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// A weight as the model names it.
struct WeightTensor {
  TensorLocation location; // Its tensor; of a quantized weight, that of the codes.
  std::vector<uint64_t> shape;
  std::optional<StoredType> type;   // If quantized, plainType(). Absent: a type that is not read.
  std::optional<CodedWeight> coded; // Absent: the tensor holds the values.
};

/// Opened once, then constant. Reading is const and thread-safe.
class TensorStore {
public:
  /// `config` is config.json.
  static moert::Result<std::unique_ptr<TensorStore>> open(const std::string &directory,
                                                          const ConfigObject &config);

  /// A store over open shards; a null codec if no weight is quantized.
  static moert::Result<std::unique_ptr<TensorStore>> of(ShardSet shards,
                                                        std::unique_ptr<WeightCodec> codec);

  const StoredTensors &stored() const { return storedTensors; }
  /// Null if no weight is quantized.
  const WeightCodec *codec() const { return weightCodec.get(); }

  bool has(std::string_view name) const;
  /// All names of weights, ascending: not those of scales and other parts of quantized weights.
  std::vector<std::string_view> names() const;
  /// An error for a missing weight, and for a quantized one whose parts are missing or do not fit.
  moert::Result<WeightTensor> weight(std::string_view name) const;

private:
  /// A quantized weight.
  struct Coded {
    std::string name;
    TensorLocation codes;
  };

  TensorStore(ShardSet shards, std::unique_ptr<WeightCodec> codec)
      : storedTensors(std::move(shards)), weightCodec(std::move(codec)) {}
  moert::Status findCoded();
  const Coded *findCoded(std::string_view name) const;
  bool isPart(std::string_view stored) const;

  StoredTensors storedTensors;
  std::unique_ptr<WeightCodec> weightCodec;
  std::vector<Coded> coded;            // Sorted by name, unique.
  std::vector<std::string_view> parts; // Stored names that are no weight's name; sorted.
};

} // namespace moec
