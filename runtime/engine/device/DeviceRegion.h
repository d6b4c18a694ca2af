// Memory of a device, counted by a ledger.
#pragma once

#include "runtime/engine/SequenceSession.h"
#include "runtime/exec/cuda/DeviceFunctions.h"
#include "runtime/memory/Ledger.h"

#include <cstddef>
#include <utility>

namespace moert {

/// The device must outlive it. Movable.
class DeviceRegion final : public DeviceMemory {
public:
  DeviceRegion() = default;
  /// Takes over memory that the device allocated.
  DeviceRegion(Reservation claim, const device::DeviceFunctions &of, std::byte *allocated)
      : DeviceMemory(allocated), reservation(std::move(claim)), functions(&of) {}
  DeviceRegion(DeviceRegion &&other) noexcept { *this = std::move(other); }
  DeviceRegion &operator=(DeviceRegion &&other) noexcept {
    std::swap(reservation, other.reservation);
    std::swap(functions, other.functions);
    std::swap(memory, other.memory);
    return *this;
  }
  ~DeviceRegion() override {
    if (memory)
      (void)functions->release(functions->state, memory);
  }

  template <typename T> T *as() const { return reinterpret_cast<T *>(memory); }

private:
  Reservation reservation;
  const device::DeviceFunctions *functions = nullptr;
};

} // namespace moert
