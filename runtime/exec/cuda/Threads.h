// How kernels of a device are written: a kernel is a struct of its arguments, whose run() is what
// one block of threads does, in phases. Threads::forEach(count, f) is a phase: it calls f(i) for
// each i below count, in any order and by any thread, and all threads have finished it before the
// next one begins. So the same function is compiled for a GPU, where a phase ends with a barrier,
// and for the host, where it is a loop (HostThreads).
//
// A kernel has
//   struct Shared                 what the threads of a block share; plain, without initial values
//   uint32_t blocks() const       how many blocks there are
//   run(threads, shared) const    the work of block threads.block
// and is copied to the device as it is: it is trivially copyable and has at most kMostKernelBytes.
//
// Sums keep the order of docs/numbers.md: one thread adds the terms of an ordered sum.
#pragma once

#include "runtime/exec/ExpConstants.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#ifdef __CUDACC__
#define MOERT_DEVICE __host__ __device__
#else
#define MOERT_DEVICE
#endif

namespace moert::device {

/// The most bytes of arguments that every GPU takes.
constexpr size_t kMostKernelBytes = 4096;

/// The threads of a block on the host. Phases run backwards, so that a kernel that depends on the
/// order within one gives other bits than its reference.
struct HostThreads {
  uint32_t block;

  template <typename Function> void forEach(uint32_t count, Function function) const {
    for (uint32_t i = count; i-- > 0;)
      function(i);
  }
};

/// Runs all blocks of a kernel on the calling thread.
template <typename Kernel> void runOnHost(const Kernel &kernel) {
  typename Kernel::Shared shared;
  for (uint32_t block = kernel.blocks(); block-- > 0;)
    kernel.run(HostThreads{block}, shared);
}

/// What the threads of a block share that share nothing.
struct NothingShared {};

/// Elements of a row that one block computes, for operations on single elements.
constexpr uint32_t kElementsPerBlock = 1024;

/// Calls f(row, element) for the elements of rows of `cols` that are the block's; there are
/// rowBlocks(rows, cols) blocks.
constexpr uint32_t rowBlocks(uint32_t rows, uint32_t cols) {
  return rows * ((cols + kElementsPerBlock - 1) / kElementsPerBlock);
}
template <typename Threads, typename Function>
MOERT_DEVICE void forElements(const Threads &threads, uint32_t cols, Function function) {
  const uint32_t perRow = rowBlocks(1, cols);
  const uint32_t row = threads.block / perRow, first = threads.block % perRow * kElementsPerBlock;
  const uint32_t count = cols - first < kElementsPerBlock ? cols - first : kElementsPerBlock;
  threads.forEach(count, [&](uint32_t i) { function(row, first + i); });
}

/// The tree 8-4-2-1 of 16 partial sums, in place.
MOERT_DEVICE inline float treeOf(float *sums) {
  for (uint32_t half = 8; half >= 1; half /= 2)
    for (uint32_t i = 0; i < half; ++i)
      sums[i] = sums[i] + sums[i + half];
  return sums[0];
}

/// The same bits as moert::exponential().
MOERT_DEVICE inline float exponentialOf(float x) {
  constexpr float kPolynomial[] = {kExpPolynomial[0], kExpPolynomial[1], kExpPolynomial[2],
                                   kExpPolynomial[3], kExpPolynomial[4], kExpPolynomial[5]};
  if (x != x)
    return x;
  if (x > kExpOverflow)
    return std::numeric_limits<float>::infinity();
  if (x < kExpUnderflow)
    return 0;
  const float shifted = std::fma(x, kLog2E, kRoundingShift);
  const float n = shifted - kRoundingShift;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float polynomial = kPolynomial[0];
  for (int i = 1; i < 6; ++i)
    polynomial = std::fma(polynomial, r, kPolynomial[i]);
  const float mantissa = std::fma(r * r, polynomial, r) + 1.0f;
  const uint32_t exponent =
      (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundingShift)) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(mantissa) + exponent);
}

MOERT_DEVICE inline float sigmoidOf(float x) {
  return 1.0f / (1.0f + exponentialOf(-x));
}

} // namespace moert::device
