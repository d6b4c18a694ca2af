// The kernel interface that io_uring's queue needs, so that tests can replace the kernel.
#pragma once

#include "runtime/io/ReadTable.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

struct RingCompletion {
  uint32_t request = 0;
  int result = 0; // Bytes read, or -errno.
};

struct RegisteredRegions {
  std::vector<MemoryPiece> chunks; // Ascending; a request names one by its index. Empty: none.
  std::string note;                // For people: ", registered buffers", or why there are none.
};

/// A request is prepared, then in flight, then completed, then taken. Used by one thread, except
/// that the kernel completes requests in flight. Allocates nothing, except to register regions.
class RequestRing {
public:
  RequestRing() = default;
  RequestRing(const RequestRing &) = delete;
  RequestRing &operator=(const RequestRing &) = delete;
  virtual ~RequestRing() = default;

  /// At most as many requests as the ring has entries may be prepared and not yet taken.
  virtual void prepare(uint32_t index, const ReadRequest &request) = 0;

  /// Hands prepared requests to the kernel and, if it took all of them and `waits`, waits for a
  /// completion. Returns the number taken, which may be smaller, or -errno.
  virtual int submit(bool waits) = 0;
  /// Waits for a completion without submitting: 0 or -errno.
  virtual int wait() = 0;
  /// Pauses before a request that the kernel had no resources for is submitted again.
  virtual void pause() = 0;

  /// Requests that the kernel has not taken.
  virtual uint32_t prepared() const = 0;
  virtual uint32_t completed() const = 0;
  virtual size_t take(std::span<RingCompletion> out) = 0;

  /// Has the kernel pin these regions instead of those before, while no request is in flight.
  virtual RegisteredRegions registerRegions(std::span<const MemoryPiece> regions) = 0;
};

} // namespace moert
