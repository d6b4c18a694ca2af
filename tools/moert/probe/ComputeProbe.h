// Measures how fast this machine computes what a token needs, with the runtime's kernels and
// threads: products of stored weights, attention, reads of memory, the start of an operation.
#pragma once

#include "runtime/base/HostMemory.h"
#include "tools/moert/probe/ProbeProducts.h"
#include "tools/moert/probe/ProbeRun.h"

#include <array>
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
  uint32_t threads = 0; // The number of all threads.
  Number dispatchNs;    // To hand an operation to all threads and wait for them.
  ThreadNumbers memoryBytesPerSecond;
  // Bytes of keys and values per second from the caches, counted for each query head that reads
  // them; and the additional cost if they come from memory, counted once.
  ThreadNumbers attentionBytesPerSecond, attentionMemoryBytesPerSecond;
  std::vector<ProductRate> products;
  /// The fraction of a core that the measuring thread got while it multiplied alone; below 1 if
  /// other programs ran.
  double coreFraction = 1;
};

/// Borrows the run and the processor.
class ComputeProbe {
public:
  static Result<ComputeProbe> create(ProbeRun &run, const Processor &processor);

  Status measureRound();
  ComputeReport report() const;

  static uint64_t plannedNs();

private:
  /// One measurement per round, with one thread and with all of them.
  using ThreadSamples = std::array<std::vector<double>, 2>;

  ComputeProbe(ProbeRun &probeRun, const Processor &computes, HostRegion attentionMemory)
      : run(probeRun), processor(computes), scratch(std::move(attentionMemory)) {}

  Status measureDispatch();
  template <typename Measure>
  Status measureThreads(const char *step, uint64_t roundNs, ThreadSamples &samples,
                        Measure measure);
  Status measureMemory();
  Status measureAttention();
  Status measureProducts();
  void measureCoreFraction();
  double productsPerSecond(Matrices &matrices, uint32_t tokens, uint32_t panels, ThreadPool &pool,
                           uint64_t durationNs) const;
  template <typename Once> double nsPerCall(ThreadPool &pool, uint64_t durationNs, Once once) const;

  ProbeRun &run;
  const Processor &processor;
  HostRegion scratch; // For attention, used by all threads.
  double dispatchNs = 0;
  std::vector<double> dispatches, coreFractions;
  ThreadSamples memory, attentionNear, attentionFar; // Bytes per second.
  std::vector<ProductRate> products;                 // Without rates,
  std::vector<std::vector<double>>
      productRates;                   // which are kept here, in whole matrices per second.
  std::vector<uint64_t> productBytes; // Bytes of one matrix.
  uint64_t productsSpentNs = 0;
};

} // namespace moert::probe
