// The index of one layer's pool, as text beside its records: a line per expert, in order.
//
//   moec-pool 1 FINGERPRINT
//   expert INDEX NORM (ERROR CHECKSUM...)...       per grid its error and its slices'
//   checksums
//
// All numbers except INDEX are 16 hexadecimal digits; errors are the bits of a double. A line is
// written after the bytes that it describes; a last line without a line end is ignored. After a
// power failure a line may exist without its bytes, so a resumed run checks them against the
// checksums.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
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

/// The first line, with its line end.
std::string poolIndexHeader(uint64_t fingerprint);
/// The line of one expert, with its line end.
std::string poolIndexLine(size_t expert, const PooledExpert &pooled);

/// Returns the experts up to the first incomplete or invalid line; none if the file is absent or
/// has another fingerprint. slices: number of slices per grid.
std::vector<PooledExpert> readPoolIndex(const std::string &path, uint64_t fingerprint,
                                        const std::vector<size_t> &slices);

} // namespace moec
