#include "runtime/engine/DeviceBackend.h"

#include <array>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace moert {

Result<DeviceBackend *> openCudaDevice(uint32_t number) {
  std::array<char, 4096> program;
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size());
  std::string path(program.data(), length > 0 ? static_cast<size_t>(length) : 0);
  path.resize(path.rfind('/') + 1);
  path += "libmoert_cuda.so";
  void *const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *error = library ? nullptr : ::dlerror();
  DeviceBackend *backend = nullptr;
  if (library) {
    const auto open = reinterpret_cast<OpenDevice>(::dlsym(library, kOpenDeviceName));
    error = open ? open(kBackendVersion, number, &backend) : "it opens no devices";
  }
  if (error)
    return invalidInput("GPU ", number, " cannot be used: ", error);
  return backend;
}

} // namespace moert
