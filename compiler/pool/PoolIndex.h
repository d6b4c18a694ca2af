// The index of one layer's pool, a log beside its records: a line per expert, in order. A line is
// written after the bytes that it describes. After a power failure a line may exist without its
// bytes, so a resumed run checks them against the checksums.
#pragma once

#include "compiler/session/AppendLog.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec {

/// An expert on one grid.
struct PooledGrid {
  double squaredError = 0; // Equal to ExpertOnGrid's.
  std::vector<uint64_t> sliceChecksums;
  friend bool operator==(const PooledGrid &, const PooledGrid &) = default;
};

struct PooledExpert {
  double squaredNorm = 0;
  std::vector<PooledGrid> grids;
  friend bool operator==(const PooledExpert &, const PooledExpert &) = default;
};

constexpr std::string_view kPoolIndex = "moec-pool 2";

/// The words of an expert's line: the bits of its norm, and per grid those of its error and its
/// slices' checksums.
std::vector<uint64_t> poolIndexWords(const PooledExpert &pooled);

/// The experts of an index, up to the first line whose words are not those of one. slices: number
/// of slices per grid.
std::vector<PooledExpert> readPoolIndex(const AppendLog &index, const std::vector<size_t> &slices);

} // namespace moec
