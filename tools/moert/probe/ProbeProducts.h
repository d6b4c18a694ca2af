// Products as in decoding, for the probe's measurements: consecutive matrices of every stored
// width, in more memory than the caches hold, and rows of activations.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/exec/Kernels.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace moert::probe {

/// Typical for an expert's matrix in models of 30 billion parameters.
constexpr MatrixShape kShape = {768, 2048};
constexpr uint32_t kPanels = kShape.rows / kPanelRows;
constexpr uint32_t kManyTokens = 32;

/// The weights, one memory for all widths. Read as any float kind, no value is subnormal,
/// infinite or NaN, which some processors process more slowly.
struct WeightMemory {
  /// Allocates 128 to 256 MiB, more than the last-level cache holds, so that weights come from
  /// memory. The upper limit: virtual machines sometimes report the cache of the whole server.
  static Result<WeightMemory> create();

  HostRegion region;
  std::vector<const std::byte *> pages;
};

struct StoredWidth {
  const char *name;
  WeightFormat format;
  std::array<WeightKind, kMaxExpertSlices - 1> upperSlices;
  uint32_t upperSliceCount;
};

/// All widths that a device profile may name, as moec stores them by default: one scale per 32
/// inputs.
std::span<const StoredWidth> storedWidths();

/// Rows of activations and of results, aligned for the kernels.
struct ProductRows {
  static Result<ProductRows> create();

  HostRegion region;
  float *x, *y;
  QuantizedRows quantized;
};

/// Consecutive matrices of one stored width. Borrows the memory.
class Matrices {
public:
  Matrices(const StoredWidth &stored, const WeightMemory &weights);

  uint64_t bytes() const { return storedBytes; }

  /// The next matrix in memory; after the last one, the first.
  WeightView next();

private:
  const WeightMemory &memory;
  WeightView first;
  uint64_t storedBytes = 0, step = 0, index = 0;
};

/// Kernels, operands and threads for products, with one thread and with all of them.
struct Processor {
  /// Allocates 128 to 256 MiB of memory, by the size of the last-level cache.
  static Result<Processor> create(const KernelTable &kernels, uint32_t threads);

  ThreadPool &allThreads() const { return many ? *many : *one; }

  /// Multiplies a number of the matrix's panels from the first on, divided among threads as in the
  /// engine.
  void multiply(ThreadPool &pool, const WeightView &w, uint32_t tokens,
                uint32_t panels = kPanels) const;

  const KernelTable &kernels;
  WeightMemory weights;
  ProductRows rows;
  std::unique_ptr<ThreadPool> one, many; // many: null if there is only one thread.
};

} // namespace moert::probe
