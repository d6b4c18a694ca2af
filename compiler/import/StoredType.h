// The types in which weights of a checkpoint may be stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec {

enum class StoredType { kF32, kF16, kBf16 };

constexpr size_t storedTypeBytes(StoredType type) {
  return type == StoredType::kF32 ? 4 : 2;
}

constexpr std::string_view storedTypeName(StoredType type) {
  switch (type) {
  case StoredType::kF32:
    return "F32";
  case StoredType::kF16:
    return "F16";
  case StoredType::kBf16:
    return "BF16";
  }
  return "";
}

} // namespace moec
