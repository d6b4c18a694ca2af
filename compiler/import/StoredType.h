// The types in which weights of a checkpoint may be kept without loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec {

/// kMxfp4: codes of four bits, and a power of two for each 32 inputs (codecs/Mxfp4Codes.h). The
/// others hold one number after the other.
enum class StoredType { kF32, kF16, kBf16, kMxfp4 };

/// The fewest elements of a row that have bytes of their own, and those bytes.
struct StoredBlock {
  size_t elements, bytes;
};
constexpr StoredBlock storedBlock(StoredType type) {
  switch (type) {
  case StoredType::kF32:
    return {1, 4};
  case StoredType::kF16:
  case StoredType::kBf16:
    return {1, 2};
  case StoredType::kMxfp4:
    return {32, 17};
  }
  return {};
}

/// `elements` are whole blocks.
constexpr uint64_t storedBytes(StoredType type, uint64_t elements) {
  return elements / storedBlock(type).elements * storedBlock(type).bytes;
}

constexpr std::string_view storedTypeName(StoredType type) {
  switch (type) {
  case StoredType::kF32:
    return "F32";
  case StoredType::kF16:
    return "F16";
  case StoredType::kBf16:
    return "BF16";
  case StoredType::kMxfp4:
    return "MXFP4";
  }
  return "";
}

} // namespace moec
