// What libmoert_cuda.so exports.
#include "runtime/engine/device/FunctionBackend.h"
#include "runtime/exec/cuda/CudaDevice.h"

using namespace moert;

extern "C" __attribute__((visibility("default"))) const char *
moertOpenDevice(uint64_t version, uint32_t number, DeviceBackend **backend) {
  if (version != kBackendVersion)
    return "libmoert_cuda.so is of another version than the program";
  device::DeviceFunctions functions = {};
  if (const char *error = device::openCuda(number, functions))
    return error;
  *backend = new FunctionBackend(functions); // It lives as long as the process.
  return nullptr;
}
