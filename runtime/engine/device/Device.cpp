#include "runtime/engine/device/Device.h"

namespace moert {

Status Device::check(const char *error) const {
  return error ? failed(functions.name, ": ", error) : Status();
}

Result<DeviceRegion> Device::allocate(const char *owner, uint64_t bytes) {
  Result<Reservation> claim = ledger.reserve(owner, bytes);
  if (!claim.isOk())
    return claim.status().withContext(functions.name);
  void *memory = nullptr;
  if (bytes > 0)
    MOERT_RETURN_IF_ERROR(
        check(functions.allocate(functions.state, bytes, &memory)).withContext(owner));
  return DeviceRegion(std::move(claim).value(), functions, static_cast<std::byte *>(memory));
}

void Device::pin(std::span<const std::byte> memory) {
  if (!memory.empty())
    (void)functions.pin(functions.state, memory.data(), memory.size());
}

void Device::unpin(std::span<const std::byte> memory) {
  if (!memory.empty())
    (void)functions.pin(functions.state, memory.data(), 0);
}

Status Device::copy(uint32_t stream, void *to, const void *from, uint64_t bytes) {
  return bytes == 0 ? Status() : check(functions.copy(functions.state, stream, to, from, bytes));
}

Status Device::launch(uint32_t number, const void *kernel, uint32_t bytes, uint32_t blocks) {
  return blocks == 0 ? Status()
                     : check(functions.launch(functions.state, device::kComputeStream, number,
                                              kernel, bytes, blocks));
}

Status Device::record(uint32_t stream, uint32_t event) {
  return check(functions.record(functions.state, stream, event));
}

Status Device::wait(uint32_t stream, uint32_t event) {
  return check(functions.wait(functions.state, stream, event));
}

Status Device::finish(uint32_t event) {
  return check(functions.finish(functions.state, event));
}

} // namespace moert
