// Text that calibration or a search has read, so that no loss is accepted on it. The trace of an
// artifact keeps it, as hashes (TraceSection.h).
#pragma once

#include "runtime/base/Checksum.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace moec {

/// The text seen so far, as the hashes of every 16 tokens in a row. A window that shares no hash
/// does not overlap it, wherever the seen windows began.
class SeenText {
public:
  /// Windows, one after another.
  void add(std::span<const int32_t> tokens, uint32_t windowTokens);
  /// What runs() gave of other text.
  void add(std::span<const uint64_t> runs) { hashes.insert(runs.begin(), runs.end()); }
  bool contains(std::span<const int32_t> window) const;
  bool containsRun(uint64_t hash) const { return hashes.contains(hash); }
  bool isEmpty() const { return hashes.empty(); }
  /// All hashes, ascending.
  std::vector<uint64_t> runs() const;

  static constexpr size_t kRun = 16;
  static uint64_t hashOf(std::span<const int32_t> run) {
    return moert::checksum64(std::as_bytes(run));
  }

private:
  std::unordered_set<uint64_t> hashes;
};

} // namespace moec
