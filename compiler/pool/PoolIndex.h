// What the pool of one layer holds, as text beside its records: a line for each expert, in order.
//
//   moec-pool 1 FINGERPRINT
//   expert INDEX NORM (ERROR CHECKSUM...)...       for each grid its error and its slices'
//   checksums
//
// Numbers but the index are 16 hexadecimal digits, those of errors the bits of a double. A line is
// written after the bytes that it speaks of; a last line without its end counts as absent. After a
// power failure a line may be there without its bytes, so whoever goes on holds them against the
// checksums.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// An expert on one grid.
struct PooledGrid {
  double squaredError = 0; // As ExpertOnGrid has it.
  std::vector<uint64_t> sliceChecksums;
  friend bool operator==(const PooledGrid &, const PooledGrid &) = default;
};

struct PooledExpert {
  double squaredNorm = 0;
  std::vector<PooledGrid> grids;
  friend bool operator==(const PooledExpert &, const PooledExpert &) = default;
};

/// The first line, with its end.
std::string poolIndexHeader(uint64_t fingerprint);
/// A line, with its end.
std::string poolIndexLine(size_t expert, const PooledExpert &pooled);

/// Experts as long as whole, fitting lines go on; none where the file is absent or another's.
/// slices: of each grid.
std::vector<PooledExpert> readPoolIndex(const std::string &path, uint64_t fingerprint,
                                        const std::vector<size_t> &slices);

} // namespace moec
