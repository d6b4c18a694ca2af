// Helpers for the rules in several files of the validation. Internal to runtime/format.
#pragma once

#include "runtime/format/FieldCheck.h"
#include "runtime/policy/Plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace moert {

inline Status checkRange(std::string_view what, uint64_t value, uint64_t low, uint64_t high) {
  if (value < low || value > high)
    return invalidInput(what, " is ", value, ", expected ", low, " to ", high);
  return {};
}

Status checkQuantile(const std::optional<QuantileBound> &quantile);

/// A range of the file and what it belongs to, for finding overlaps.
struct FileRange {
  uint64_t offset, bytes;
  uint32_t layer, index;
};

inline void sortByOffset(std::vector<FileRange> &ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const FileRange &a, const FileRange &b) { return a.offset < b.offset; });
}

} // namespace moert
