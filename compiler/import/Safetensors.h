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

#include "compiler/import/StoredTensor.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace moec {

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
moert::Result<ShardHeader> parseSafetensorsHeader(std::string_view fileName, std::string_view text,
                                                  uint64_t fileSize);

} // namespace moec
