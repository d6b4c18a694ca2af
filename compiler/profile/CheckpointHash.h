// What tells checkpoints from each other without reading all their weights: artifacts and profiles
// keep it. docs/calibration-profile.md says what it is of.
#pragma once

#include <cstdint>

namespace moec {

struct CheckpointHash {
  uint64_t first = 0;  // Of what the headers say and of each tensor's first 64 bytes.
  uint64_t sample = 0; // With places all over each tensor; 0: made before there was one.
  friend bool operator==(const CheckpointHash &, const CheckpointHash &) = default;
};

/// As far as both tell.
inline bool mayBeSame(const CheckpointHash &a, const CheckpointHash &b) {
  return a.first == b.first && (a.sample == 0 || b.sample == 0 || a.sample == b.sample);
}

} // namespace moec
