// Identifies a checkpoint without reading all its weights; kept in artifacts and profiles.
// docs/calibration-profile.md defines the hashed bytes.
#pragma once

#include <cstdint>

namespace moec {

struct CheckpointHash {
  uint64_t first = 0; // Hash of the headers' content and of each tensor's first 64 bytes.
  // Also hashes places spread over each tensor; 0: written before this field existed.
  uint64_t sample = 0;
  friend bool operator==(const CheckpointHash &, const CheckpointHash &) = default;
};

/// Compares the fields that both have.
inline bool mayBeSame(const CheckpointHash &a, const CheckpointHash &b) {
  return a.first == b.first && (a.sample == 0 || b.sample == 0 || a.sample == b.sample);
}

} // namespace moec
