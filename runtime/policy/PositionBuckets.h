// Buckets of relative positions, as T5 has them (Raffel et al. 2020, arXiv 1910.10683, section
// 2.1): near positions have a bucket each, farther ones share them logarithmically.
#pragma once

#include <array>
#include <cstdint>

namespace moert {

constexpr uint32_t kMaxPositionBuckets = 256;
constexpr uint32_t kMaxPositionDistance = 1024;

/// The buckets of all distances, computed once for the attentions that share them.
class PositionBuckets {
public:
  /// `buckets` is a multiple of 4, at most kMaxPositionBuckets; maxDistance exceeds half of them
  /// and is at most kMaxPositionDistance. bothWays: later positions have the second half of the
  /// buckets; otherwise they count as the token's own.
  void prepare(uint32_t buckets, uint32_t maxDistance, bool bothWays);

  /// The bucket of a key at position `key` for a token at position `token`.
  uint32_t of(uint32_t token, uint32_t key) const {
    if (key > token)
      return bothWays ? later + nearest(key - token) : 0;
    return nearest(token - key);
  }

private:
  uint32_t nearest(uint32_t distance) const {
    return byDistance[distance < maxDistance ? distance : maxDistance];
  }

  uint32_t buckets = 0, maxDistance = 0, later = 0;
  bool bothWays = false;
  std::array<uint8_t, kMaxPositionDistance + 1> byDistance = {};
};

} // namespace moert
