// Text that calibration or a search has read, and the units of acceptance texts that it does not
// overlap. Compiling and replanning to a target choose their units here.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/evaluation/TextWindows.h"

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
  bool contains(std::span<const int32_t> window) const;
  bool containsRun(uint64_t hash) const { return hashes.contains(hash); }
  bool isEmpty() const { return hashes.empty(); }

  static constexpr size_t kRun = 16;
  static uint64_t hashOf(std::span<const int32_t> run) {
    return moert::checksum64(std::as_bytes(run));
  }

private:
  std::unordered_set<uint64_t> hashes;
};

/// The windows of a unit.
struct UnitPlace {
  size_t text, firstWindow, windows;
};

/// Every unit of which `seen` overlaps no window, in the order of the texts. A document that
/// calibration or the search has read in part is not an independent test, and neither is a copy of
/// a unit.
std::vector<UnitPlace> freeUnits(std::span<const moert::TextWindows *const> texts,
                                 const SeenText &seen);

} // namespace moec
