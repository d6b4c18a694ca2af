// The kernels of KernelList.h for NVIDIA GPUs, and the functions by which the engine uses them.
#include "runtime/exec/cuda/CudaDevice.h"
#include "runtime/exec/cuda/KernelList.h"

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <new>
#include <string>

namespace moert::device {
namespace {

constexpr uint32_t kThreadsPerBlock = 256;

struct CudaThreads {
  uint32_t block;

  template <typename Function> __device__ void forEach(uint32_t count, Function function) const {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
      function(i);
    __syncthreads();
  }
};

template <typename Kernel>
__global__ void __launch_bounds__(kThreadsPerBlock) execute(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel.run(CudaThreads{blockIdx.x}, shared);
}

template <typename Kernel>
cudaError_t launchKernel(const void *arguments, uint32_t blocks, cudaStream_t stream) {
  execute<<<blocks, kThreadsPerBlock, 0, stream>>>(*static_cast<const Kernel *>(arguments));
  return cudaGetLastError();
}

/// The launch of each kernel, by number.
template <typename List> struct Launches;
template <typename... Kernels> struct Launches<KernelList<Kernels...>> {
  static constexpr decltype(&launchKernel<EmbedRows>) kOf[] = {&launchKernel<Kernels>...};
};

/// An open GPU. The last error's text stays until the next call.
struct CudaDevice {
  std::array<cudaStream_t, kStreams> streams = {};
  std::array<cudaEvent_t, kEvents> events = {};
  int number = 0;
  std::string error;

  const char *check(cudaError_t code) {
    if (code == cudaSuccess)
      return nullptr;
    error = cudaGetErrorString(code);
    return error.c_str();
  }
  cudaError_t open(int wanted) {
    number = wanted;
    cudaError_t code = cudaSetDevice(number);
    for (cudaStream_t &stream : streams)
      code = code == cudaSuccess ? cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) : code;
    for (cudaEvent_t &event : events)
      code = code == cudaSuccess ? cudaEventCreateWithFlags(&event, cudaEventDisableTiming) : code;
    return code;
  }
};

CudaDevice &of(void *state) {
  auto &device = *static_cast<CudaDevice *>(state);
  (void)cudaSetDevice(device.number); // For the calling thread.
  return device;
}

const char *allocate(void *state, uint64_t bytes, void **memory) {
  CudaDevice &device = of(state);
  return device.check(cudaMalloc(memory, bytes));
}

const char *release(void *state, void *memory) {
  CudaDevice &device = of(state);
  return device.check(cudaFree(memory));
}

const char *pin(void *state, const void *bytesOfHost, uint64_t bytes) {
  void *const memory = const_cast<void *>(bytesOfHost);
  CudaDevice &device = of(state);
  return device.check(bytes > 0 ? cudaHostRegister(memory, bytes, cudaHostRegisterDefault)
                                : cudaHostUnregister(memory));
}

const char *copy(void *state, uint32_t stream, void *to, const void *from, uint64_t bytes) {
  CudaDevice &device = of(state);
  return device.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device.streams[stream]));
}

const char *launch(void *state, uint32_t stream, uint32_t kernel, const void *arguments, uint32_t,
                   uint32_t blocks) {
  CudaDevice &device = of(state);
  return device.check(Launches<AllKernels>::kOf[kernel](arguments, blocks, device.streams[stream]));
}

const char *record(void *state, uint32_t stream, uint32_t event) {
  CudaDevice &device = of(state);
  return device.check(cudaEventRecord(device.events[event], device.streams[stream]));
}

const char *wait(void *state, uint32_t stream, uint32_t event) {
  CudaDevice &device = of(state);
  return device.check(cudaStreamWaitEvent(device.streams[stream], device.events[event]));
}

const char *finish(void *state, uint32_t event) {
  CudaDevice &device = of(state);
  return device.check(cudaEventSynchronize(device.events[event]));
}

} // namespace
const char *openCuda(uint32_t number, DeviceFunctions &functions) {
  static std::string error; // One thread opens devices.
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && number >= static_cast<uint32_t>(count)) {
    error = "there are " + std::to_string(count);
    return error.c_str();
  }
  auto device = std::make_unique<CudaDevice>();
  cudaDeviceProp properties;
  size_t freeBytes = 0, totalBytes = 0;
  code = code == cudaSuccess ? device->open(static_cast<int>(number)) : code;
  code = code == cudaSuccess ? cudaGetDeviceProperties(&properties, device->number) : code;
  code = code == cudaSuccess ? cudaMemGetInfo(&freeBytes, &totalBytes) : code;
  if (code != cudaSuccess)
    return cudaGetErrorString(code);
  functions = {device.release(), {},     freeBytes, allocate, release, pin, copy,
               launch,           record, wait,      finish};
  snprintf(functions.name, sizeof functions.name, "%s", properties.name);
  return nullptr;
}

} // namespace moert::device
