// The emulated device as a library like libmoert_cuda.so: tests of whole programs put it in its
// place.
#include "tests/unit/engine/EmulatedDevice.h"

#include <cstdlib>

using namespace moert;

/// $EMULATED_DEVICE_BYTES is its memory.
extern "C" __attribute__((visibility("default"))) const char *
moertOpenDevice(uint64_t version, uint32_t number, DeviceBackend **backend) {
  if (version != kBackendVersion)
    return "it is of another version than the program";
  const char *const bytes = std::getenv("EMULATED_DEVICE_BYTES");
  if (number != 0 || !bytes || *bytes == 0)
    return "there are 0";
  // It lives as long as the process.
  *backend = &(new test::EmulatedDevice(std::strtoull(bytes, nullptr, 10), 20000))->backend();
  return nullptr;
}
