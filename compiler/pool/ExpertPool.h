// Every expert, quantized once at every width that the search may choose, stored as the bytes of
// its records, with the error at each width. The artifacts that the search measures, and the final
// one, are assembled from copies.
//
// Each MoE layer has a file of records and an index (PoolIndex.h), in the pool's directory. An
// interrupted run resumes: experts whose bytes match the index are reused.
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
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moec {

struct PoolOptions {
  std::string directory; // Must exist; used by the pool alone.
  QuantizeMethod method = QuantizeMethod::kGptq;
  std::vector<ExpertGrid> grids; // In descending order of bits; those of one gateUp together.
  uint32_t activationGroup = 32;
  bool nested = true;
  CheckpointHash checkpointHash;
  unsigned threads = 1;
  const std::atomic<bool> *stop = nullptr;
  Progress *progress = nullptr; // For fill().
};

/// The label of fill()'s step.
constexpr const char *kQuantizingExperts = "quantizing experts";

/// Owns the open files. Reading is thread-safe.
class ExpertPool {
public:
  /// Layers and sources come from the plan; its formats are not used. No layer is filled yet.
  static moert::Result<std::unique_ptr<ExpertPool>>
  open(const EmitPlan &plan, const CalibrationInfo &info, const PoolOptions &options);
  /// After each expert, and whether it is of an earlier run.
  using OnExpert = std::function<void(bool isRestored)>;
  /// Quantizes a layer's experts that the directory does not hold yet, with the same bytes for any
  /// number of threads. Once *stop is set, returns kInterrupted and keeps the finished experts.
  moert::Status fillLayer(const EmitPlan &plan, const Checkpoint &checkpoint,
                          const CalibrationProfile &profile, size_t layer,
                          const OnExpert &onExpert);
  /// Memory that it takes at least, for so many tokens.
  static uint64_t layerBytes(const moert::MoeLayer &layer, uint64_t tokens);
  /// All layers that are not filled yet, as a step.
  moert::Status fill(const EmitPlan &plan, const Checkpoint &checkpoint,
                     const CalibrationProfile &profile);
  /// The pool with all layers filled.
  static moert::Result<std::unique_ptr<ExpertPool>> fill(const EmitPlan &plan,
                                                         const Checkpoint &checkpoint,
                                                         const CalibrationProfile &profile,
                                                         const PoolOptions &options);
  ~ExpertPool();

  size_t layers() const;
  size_t expertsOf(size_t layer) const;
  const std::vector<ExpertGrid> &grids() const;
  const PooledExpert &expert(size_t layer, size_t expert) const;
  /// The formats of an expert's slices on a grid.
  const std::vector<moert::ExpertFormat> &formatsOf(size_t grid) const;
  /// Bytes of the slices' payloads; and of the record with its padding.
  uint64_t payloadBytesOf(size_t layer, size_t grid) const;
  uint64_t recordBytesOf(size_t layer, size_t grid) const;

  moert::Status read(size_t layer, size_t expert, size_t grid, uint64_t offset,
                     std::span<std::byte> out) const;

private:
  struct Impl;
  explicit ExpertPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// A grid index per [layer][expert].
using GridChoice = std::vector<std::vector<uint32_t>>;
constexpr uint32_t kNoGrid = UINT32_MAX;

/// The records of a choice. Borrows the pool. Reading is thread-safe.
class PooledRecords final : public RecordSource {
public:
  PooledRecords(const ExpertPool &from, GridChoice grids) : pool(from), choice(std::move(grids)) {}

  /// With the low copies that the artifact's experts have; refuses formats that the pool lacks.
  static moert::Result<PooledRecords> withLowCopies(const ExpertPool &from, GridChoice grids,
                                                    const moert::Artifact &artifact);

  moert::Status read(size_t moeLayer, size_t expert, uint64_t offset,
                     std::span<std::byte> out) const override;
  uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const override;

private:
  uint32_t lowCopyOf(size_t moeLayer, size_t expert) const {
    return lowCopies.empty() ? kNoGrid : lowCopies[moeLayer][expert];
  }
  const PooledGrid &pooledOn(size_t moeLayer, size_t expert, uint32_t grid) const {
    return pool.expert(moeLayer, expert).grids[grid];
  }

  const ExpertPool &pool;
  GridChoice choice;
  GridChoice lowCopies; // Empty, or kNoGrid for those that have none.
  uint64_t pageBytes = 0;
};

} // namespace moec
