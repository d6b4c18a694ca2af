// The types in which weights of a checkpoint may be kept without loss.
#pragma once

#include "runtime/format/WeightLayout.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec {

/// kMxfp4: codes of four bits, and a power of two for each 32 inputs (codecs/KeptRows.h). kI32 and
/// kI64: integers, whose values a matrix has as f32. From kQ4x0 on: blocks of ggml's types, in the
/// order of moert::WeightKind. The others hold one number after the other.
enum class StoredType {
  kF32,
  kF16,
  kBf16,
  kMxfp4,
  kI32,
  kI64,
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
  kIq4Nl,
  kIq4Xs,
};

constexpr bool hasBlocks(StoredType type) {
  return type >= StoredType::kQ4x0;
}

constexpr bool isInteger(StoredType type) {
  return type == StoredType::kI32 || type == StoredType::kI64;
}

/// The kind of the matrix that holds the same values.
constexpr moert::WeightKind weightKindOf(StoredType type) {
  constexpr moert::WeightKind kKinds[] = {moert::WeightKind::kF32,  moert::WeightKind::kF16,
                                          moert::WeightKind::kBF16, moert::WeightKind::kMxfp4,
                                          moert::WeightKind::kF32,  moert::WeightKind::kF32};
  if (!hasBlocks(type))
    return kKinds[static_cast<int>(type)];
  return static_cast<moert::WeightKind>(static_cast<int>(moert::WeightKind::kQ4x0) +
                                        static_cast<int>(type) -
                                        static_cast<int>(StoredType::kQ4x0));
}

/// The fewest elements of a row that have bytes of their own, and those bytes.
struct StoredBlock {
  size_t elements, bytes;
};
constexpr StoredBlock storedBlock(StoredType type) {
  constexpr StoredBlock kBlocks[] = {{1, 4}, {1, 2}, {1, 2}, {32, 17}, {1, 4}, {1, 8}};
  if (!hasBlocks(type))
    return kBlocks[static_cast<int>(type)];
  const moert::WeightBlock block = moert::blockOf(weightKindOf(type));
  return {block.elements, block.bytes};
}

/// `elements` are whole blocks.
constexpr uint64_t storedBytes(StoredType type, uint64_t elements) {
  return elements / storedBlock(type).elements * storedBlock(type).bytes;
}

constexpr std::string_view storedTypeName(StoredType type) {
  constexpr std::string_view kNames[] = {"F32",  "F16",  "BF16", "MXFP4", "I32",    "I64",
                                         "Q4_0", "Q4_1", "Q5_0", "Q5_1",  "Q8_0",   "Q2_K",
                                         "Q3_K", "Q4_K", "Q5_K", "Q6_K",  "IQ4_NL", "IQ4_XS"};
  return kNames[static_cast<int>(type)];
}

} // namespace moec
