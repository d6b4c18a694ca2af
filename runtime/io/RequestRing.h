// What io_uring's queue needs of the kernel, so that tests can answer in its place.
#pragma once

#include "runtime/io/ReadTable.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

struct RingCompletion {
  uint32_t request = 0;
  int result = 0; // Bytes read, or -errno.
};

/// Requests go from prepared to in flight to completed, and are then taken. One thread, except that
/// the kernel completes what is in flight. Nothing here allocates.
class RequestRing {
public:
  RequestRing() = default;
  RequestRing(const RequestRing &) = delete;
  RequestRing &operator=(const RequestRing &) = delete;
  virtual ~RequestRing() = default;

  /// The caller prepares no more than the ring has entries before they are taken.
  virtual void prepare(uint32_t index, const ReadRequest &request) = 0;

  /// Hands prepared requests to the kernel and, if it took all of them and `waits`, waits for a
  /// completion. How many it took, which may be fewer than there are, or -errno.
  virtual int submit(bool waits) = 0;
  /// Waits for a completion and hands over nothing: 0 or -errno.
  virtual int wait() = 0;
  /// Before the kernel is asked again for what it had no room for.
  virtual void pause() = 0;

  /// Requests that the kernel has not taken.
  virtual uint32_t prepared() const = 0;
  virtual uint32_t completed() const = 0;
  virtual size_t take(std::span<RingCompletion> out) = 0;
};

} // namespace moert
