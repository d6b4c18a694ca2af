// Tensors as the header of a file of weights lists them: types, shapes and byte ranges.
//
// Not here: the formats of the files (Safetensors.h, gguf/GgufHeader.h), and the data, which
// Checkpoint reads piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Every type of safetensors, then those that only GGUF has, which are blocks of codes with their
/// scales. The importer decides which of them a model may use.
enum class TensorType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
  kQ4x0,
  kQ4x1,
  kQ5x0,
  kQ5x1,
  kQ8x0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
  kIq1S,
  kIq1M,
  kIq4Nl,
  kIq4Xs,
  kTq1x0,
  kTq2x0,
  kMxfp4,
  kNvfp4,
  kQ1x0,
  kQ2x0,
};

/// The type's name in the file: "BF16", "Q4_K".
std::string_view tensorTypeName(TensorType type);

/// The fewest elements of a row that have bits of their own, and those bits.
struct TensorBlock {
  uint32_t elements, bits;
};
TensorBlock tensorBlock(TensorType type);

/// One tensor: elements in C order, little-endian, at [begin, end) of the data section.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape; // Empty: a scalar.
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// A header that passed every check of its format. Invariants: tensors are sorted by name, names
/// are unique; their ranges do not overlap and lie in the data section, which reaches from
/// dataOffset to the end of the file. Those of safetensors tile it.
struct ShardHeader {
  uint64_t dataOffset = 0; // File offset of the data section.
  std::vector<StoredTensor> tensors;

  /// nullptr if there is no tensor with this name.
  const StoredTensor *find(std::string_view name) const;
};

/// "[2, 3]", for messages.
std::string shapeText(const std::vector<uint64_t> &shape);

} // namespace moec
