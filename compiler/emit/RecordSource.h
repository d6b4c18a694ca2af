// Records that were made before the emission: it copies them instead of quantizing.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

/// Borrowed by an EmitPlan, which it outlives with everything that was promised of it. Reading may
/// be done from several threads at once.
class RecordSource {
public:
  virtual ~RecordSource() = default;

  /// Bytes [offset, offset + out.size()) of a record: its slices as the artifact has them, from the
  /// first one's offset, padding included. MoE layers count from 0.
  virtual moert::Status read(size_t moeLayer, size_t expert, uint64_t offset,
                             std::span<std::byte> out) const = 0;

  /// XXH3-64 of a slice's payload, as it was when the record was made: what is read is held against
  /// it.
  virtual uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const = 0;
};

} // namespace moec
