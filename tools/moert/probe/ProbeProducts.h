// Products as decoding has them, for the probe's measurements: matrices of every stored width, one
// behind the other in more memory than the caches hold, and rows of activations.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/base/ThreadPool.h"
#include "runtime/kernels/Kernels.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace moert::probe {

/// An expert's matrix, as models of 30 billion parameters have it.
constexpr MatrixShape kShape = {768, 2048};
constexpr uint32_t kPanels = kShape.rows / kPanelRows;
constexpr uint32_t kManyTokens = 32;

/// What the products read: one memory for all widths. No f16, bf16 or f32 of it is subnormal,
/// infinite or NaN, which some processors take longer for.
struct WeightMemory {
  /// More than the last-level cache holds, so that weights come from memory. Systems name caches of
  /// whole servers at times, of which a process has a part: 128 to 256 MiB.
  static Result<WeightMemory> create();

  HostRegion region;
  std::vector<const std::byte *> pages;
};

struct StoredWidth {
  const char *name;
  WeightFormat format;
  std::array<WeightKind, kMaxPlanes - 1> planes;
  uint32_t planeCount;
};

/// All that a device profile may name, as moec stores them by default: a scale for each 32 inputs.
std::span<const StoredWidth> storedWidths();

/// Rows of activations and of results; aligned as kernels want them.
struct ProductRows {
  static Result<ProductRows> create();

  HostRegion region;
  float *x, *y;
  QuantizedRows quantized;
};

/// One width of weights, many matrices of it one behind the other. Borrows the memory.
class Matrices {
public:
  Matrices(const StoredWidth &stored, const WeightMemory &weights);

  uint64_t bytes() const { return storedBytes; }

  /// The next one in memory, after the last one the first.
  WeightView next();

private:
  const WeightMemory &memory;
  WeightView first;
  uint64_t storedBytes = 0, step = 0, index = 0;
};

/// What products are computed with: kernels, their operands, one thread and all of them.
struct Processor {
  /// Takes 128 to 256 MiB of memory, by the last-level cache.
  static Result<Processor> create(const KernelTable &kernels, uint32_t threads);

  ThreadPool &allThreads() const { return many ? *many : *one; }

  /// Some of a matrix's panels, from the first one on, shared out as the engine does.
  void multiply(ThreadPool &pool, const WeightView &w, uint32_t tokens,
                uint32_t panels = kPanels) const;

  const KernelTable &kernels;
  WeightMemory weights;
  ProductRows rows;
  std::unique_ptr<ThreadPool> one, many; // many: null where all threads are one.
};

} // namespace moert::probe
