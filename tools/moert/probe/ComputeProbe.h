// How fast this machine computes what a token needs, with the kernels and threads that the runtime
// uses: products of stored weights, attention, reads of memory, the start of an operation.
#pragma once

#include "runtime/kernels/Kernels.h"
#include "tools/moert/probe/ProbeRun.h"

#include <string>
#include <vector>

namespace moert::probe {

struct ThreadNumbers {
  Number oneThread, allThreads;
};

struct ProductRate {
  std::string weights; // "int4", "int2+1", "bf16".
  uint32_t tokens = 0, threads = 0;
  Number weightBytesPerSecond; // Stored bytes.
  Number multiplyAddsPerSecond;
};

struct ComputeReport {
  std::string isa;
  uint32_t threads = 0; // All of them.
  Number dispatchNs;    // To hand an operation to all threads and wait for them.
  ThreadNumbers memoryBytesPerSecond;
  // Keys and values, for each query head that reads them, from the caches; and what they take in
  // addition where they come from memory, counted once.
  ThreadNumbers attentionBytesPerSecond, attentionMemoryBytesPerSecond;
  std::vector<ProductRate> products;
  /// What the measuring thread had of a core while it multiplied alone: less than 1 where other
  /// programs ran.
  double coreShare = 1;
};

uint64_t plannedComputeNs();

/// Measures with one thread and with `threads` of them. Takes 128 to 256 MiB of memory,
/// by the last-level cache.
Result<ComputeReport> probeCompute(ProbeRun &run, const KernelTable &kernels, uint32_t threads);

} // namespace moert::probe
