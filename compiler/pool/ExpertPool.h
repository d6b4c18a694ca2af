// Every expert, finished at every width that the search may give it: quantized once, written as the
// bytes of its records, with what each width costs. The artifacts that the search measures, and the
// one that comes of it, are copies of some of them.
//
// A file of records and an index (PoolIndex.h) for each MoE layer, in a directory of its own. What
// an unfinished run leaves is gone on with: an expert whose bytes are what the index says is kept.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/emit/RecordSource.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/pool/PoolIndex.h"
#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/session/Progress.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace moec {

struct PoolOptions {
  std::string directory; // Is there, and is the pool's own.
  QuantizeMethod method = QuantizeMethod::kGptq;
  std::vector<Grid> grids; // Bits descending.
  uint32_t activationGroup = 32;
  bool nested = true;
  CheckpointHash checkpointHash;
  unsigned threads = 1;
  const std::atomic<bool> *stop = nullptr;
  Progress *progress = nullptr;
};

/// Owns the open files. Reading may be done from several threads at once.
class ExpertPool {
public:
  /// Quantizes what the directory does not hold yet, the same bytes whatever the number of threads.
  /// Layers and sources are the plan's, whatever its formats are. Ends with kInterrupted, keeping
  /// what is done, once *stop is set.
  static moert::Result<std::unique_ptr<ExpertPool>> fill(const EmitPlan &plan,
                                                         const Checkpoint &checkpoint,
                                                         const CalibrationProfile &profile,
                                                         const PoolOptions &options);
  ~ExpertPool();

  size_t layers() const;
  size_t expertsOf(size_t layer) const;
  const std::vector<Grid> &grids() const;
  const PooledExpert &expert(size_t layer, size_t expert) const;
  /// How an expert of a grid is stored.
  const std::vector<moert::WeightFormat> &formatsOf(size_t grid) const;
  /// Bytes of the slices' payloads, and of the record with its padding.
  uint64_t payloadBytesOf(size_t layer, size_t grid) const;
  uint64_t recordBytesOf(size_t layer, size_t grid) const;

  moert::Status read(size_t layer, size_t expert, size_t grid, uint64_t offset,
                     std::span<std::byte> out) const;

private:
  struct Impl;
  explicit ExpertPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// A grid for each [layer][expert].
using GridChoice = std::vector<std::vector<uint32_t>>;

/// The records of a choice. Borrows the pool, which outlives it; any number of threads may read.
class PooledRecords final : public RecordSource {
public:
  PooledRecords(const ExpertPool &from, GridChoice grids) : pool(from), choice(std::move(grids)) {}

  moert::Status read(size_t moeLayer, size_t expert, uint64_t offset,
                     std::span<std::byte> out) const override {
    return pool.read(moeLayer, expert, choice[moeLayer][expert], offset, out);
  }
  uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const override {
    return pool.expert(moeLayer, expert).grids[choice[moeLayer][expert]].sliceChecksums[slice];
  }

private:
  const ExpertPool &pool;
  GridChoice choice;
};

} // namespace moec
