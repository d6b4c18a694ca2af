// A device beside the processor: its memory, counted by a ledger of its own, and its streams.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/device/DeviceRegion.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

/// Used by one thread. Errors name the device.
class Device {
public:
  /// With so much of its memory, at most. Borrows the functions.
  Device(const device::DeviceFunctions &opened, uint64_t capacity)
      : functions(opened), ledger(capacity) {}
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// owner: as of Ledger::reserve().
  Result<DeviceRegion> allocate(const char *owner, uint64_t bytes);
  /// Copies from and to pinned memory of the host do not wait. Where the system refuses, they do.
  void pin(std::span<const std::byte> memory);
  void unpin(std::span<const std::byte> memory);

  // What follows is done in the order of the calls, stream by stream.
  Status copy(uint32_t stream, void *to, const void *from, uint64_t bytes);
  /// A kernel by its number, with its bytes, in the compute stream; 0 blocks: nothing to do.
  Status launch(uint32_t number, const void *kernel, uint32_t bytes, uint32_t blocks);
  Status record(uint32_t stream, uint32_t event);
  Status wait(uint32_t stream, uint32_t event);
  /// Blocks until the event is done.
  Status finish(uint32_t event);

private:
  Status check(const char *error) const;

  const device::DeviceFunctions &functions;
  Ledger ledger;
};

} // namespace moert
