// How the KV cache stores a row: the key, or the value, of one head and token. docs/numbers.md
// defines how a row is rounded.
//
//   f32, f16   the elements
//   int8       a code for each element, then an f32 scale for each block of 32 elements, of which
//              the last may have fewer
#pragma once

#include <cstdint>

namespace moert {

enum class KvKind : uint8_t { kF32 = 0, kF16 = 1, kInt8 = 2 };

/// The largest f16. Larger magnitudes are stored as it: an infinite key would make every sum NaN.
constexpr float kMaxKvF16 = 65504;

/// Elements of a row of int8 that share a scale.
constexpr uint32_t kKvGroup = 32;

/// An element's bits, without its part of a scale.
constexpr uint32_t bitsOf(KvKind kind) {
  return kind == KvKind::kF32 ? 32 : kind == KvKind::kF16 ? 16 : 8;
}

/// From the row's start to an element, or to the scales.
constexpr uint64_t kvElementOffset(KvKind kind, uint32_t element) {
  return uint64_t(element) * (bitsOf(kind) / 8);
}

constexpr uint64_t kvRowBytes(KvKind kind, uint32_t elements) {
  const uint64_t scales =
      kind == KvKind::kInt8 ? (uint64_t(elements) + kKvGroup - 1) / kKvGroup : 0;
  return kvElementOffset(kind, elements) + scales * sizeof(float);
}

} // namespace moert
