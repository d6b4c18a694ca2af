// The kernels of KernelList.h for NVIDIA GPUs: libmoert_cuda.so.
#include "runtime/exec/cuda/KernelList.h"

#include <cuda_runtime.h>

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

} // namespace
} // namespace moert::device

/// Launches kernel `number` of KernelList.h with its bytes; returns a cudaError_t.
extern "C" __attribute__((visibility("default"))) int
moertLaunch(uint32_t number, const void *arguments, uint32_t blocks, cudaStream_t stream) {
  using namespace moert::device;
  return Launches<AllKernels>::kOf[number](arguments, blocks, stream);
}
