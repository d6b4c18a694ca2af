// What was made before the emission: records and resident weights, which it copies instead of
// quantizing, and factors, with which it quantizes resident matrices.
#pragma once

#include "compiler/quantize/Feedback.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace moec {

/// In place of a MoE layer's number: the resident section, one slice.
constexpr size_t kResidentRecord = SIZE_MAX;

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

  /// True if kResidentRecord is among the records.
  virtual bool hasResidents() const { return false; }

  /// The error for bytes without their checksum.
  virtual moert::Status damaged(const std::string &found) const { return moert::failed(found); }
};

/// Borrowed by an EmitPlan, which it must outlive. Several threads may use it at the same time.
class FeedbackSource {
public:
  virtual ~FeedbackSource() = default;

  /// The factors for a resident matrix, by its name in the artifact; null: it is rounded to
  /// nearest.
  virtual moert::Result<std::shared_ptr<const Feedback>> feedbackFor(const std::string &weight,
                                                                     bool hasHadamard) const = 0;

  /// Hash of all that the factors depend on.
  virtual uint64_t fingerprint() const = 0;
};

} // namespace moec
