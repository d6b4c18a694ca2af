// The header of a safetensors file: its tensors with their types, shapes and byte ranges. The
// checks are those of the reference reader, in its order; a valid file has no overlap, no gap and
// no trailing bytes. https://github.com/huggingface/safetensors, "Format".
//
// Stricter than the reference reader in two points: duplicate names are refused (the format forbids
// them, but the reference reader silently keeps one), and so are more than kSafetensorsMaxRank
// dimensions.
//
// Not here: the data, which Checkpoint reads piece by piece.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Every type of the format. The importer decides which of them a model may use.
enum class SafetensorsType {
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
};

/// The type's name in the file: "BF16".
std::string_view safetensorsTypeName(SafetensorsType type);

/// One tensor: elements in C order, little-endian, at [begin, end) of the data section.
struct SafetensorsTensor {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<uint64_t> shape; // Empty: a scalar.
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// A header that passed every check. Invariants: tensors are sorted by name, names are unique;
/// sorted by (begin, end) they tile the data section, which reaches from dataOffset to the end of
/// the file.
struct SafetensorsHeader {
  uint64_t dataOffset = 0; // File offset of the data section.
  std::vector<SafetensorsTensor> tensors;

  /// nullptr if there is no tensor with this name.
  const SafetensorsTensor *find(std::string_view name) const;
};

/// The reference reader's limit for the JSON text.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
/// More dimensions than any library supports (NumPy: 64). Bounds the memory that a hostile shape
/// can use.
inline constexpr size_t kSafetensorsMaxRank = 64;

/// The length of the JSON text, from the file's first 8 bytes and its size. Makes the checks that
/// must precede reading the text.
moert::Result<uint64_t> safetensorsHeaderLength(std::string_view fileName,
                                                std::string_view firstBytes, uint64_t fileSize);

/// Parses and checks the JSON text (without the eight bytes before it). fileName is for messages.
moert::Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view fileName,
                                                        std::string_view text, uint64_t fileSize);

/// "[2, 3]", for messages.
std::string shapeText(const std::vector<uint64_t> &shape);

} // namespace moec
