// Records that were made before the emission, which copies them instead of quantizing.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

/// Borrowed by an EmitPlan, which it must outlive; it must not change meanwhile. Several threads
/// may read at the same time.
class RecordSource {
public:
  virtual ~RecordSource() = default;

  /// Bytes [offset, offset + out.size()) of a record: its slices with the layout of the artifact,
  /// from the first slice's offset, padding included. MoE layers count from 0.
  virtual moert::Status read(size_t moeLayer, size_t expert, uint64_t offset,
                             std::span<std::byte> out) const = 0;

  /// XXH3-64 of a slice's payload when the record was made; the bytes that are read are checked
  /// against it.
  virtual uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const = 0;
};

} // namespace moec
