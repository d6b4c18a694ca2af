// The parts of an engine, and what is fixed once it is loaded.
#pragma once

#include "runtime/engine/DeviceBackend.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/Executor.h"
#include "runtime/memory/EngineMemory.h"

#include <memory>
#include <vector>

namespace moert {

/// Parts that exist before the executor that works with them.
struct EngineParts {
  std::unique_ptr<Ledger> ledger; // Counts the whole process; outlives all that reserves.
  Reservation held;               // By others before loading.
  EngineMemory memory;            // Less the regions that other parts have.
  std::unique_ptr<ThreadPool> threads;
  ResidentWeights weights;
  std::unique_ptr<ExpertStore> experts;
  Step step;
  std::unique_ptr<MissDecisions> misses;        // Null where every expert is waited for.
  std::unique_ptr<ImportanceMeter> importances; // Null where no plan's eviction is by importance.
};

struct Engine::Impl : EngineParts {
  Impl(const Model &loadedModel, const EngineOptions &engineOptions,
       const MemoryAccount &memoryAccount, const KernelTable &kernels, EngineParts parts);

  const Artifact &artifact() const { return model.artifact(); }
  const Plan &plan() const { return artifact().plans[account.plan]; }
  /// Tokens of a batch, at most.
  uint32_t chunk() const { return step.shape().tokens; }
  /// Makes the cache of the account's plan anew; passes on the bytes read so far.
  Status startCache(const std::function<void(uint64_t done)> &progress);
  /// Changes to another account of the same options (Engine::setBudget). After an error all is as
  /// before, apart from experts in memory and from activation paths (BudgetChange).
  Status takeAccount(const MemoryAccount &next);
  Status changeBudget(const BudgetSize &budget);

  /// Computes on the device of the options from now on.
  Status moveToDevice();

  Result<std::unique_ptr<Session>> createSession(uint32_t capacity, Populate populate);
  /// The checks of step() on one session, in a batch of any size.
  Status checkTokens(const SessionTokens &tokens) const;
  Status checkBatch(std::span<const SessionTokens> parts) const;
  Status executeBatch(std::span<const SessionTokens> parts, const Program &program);
  Status checkImages(const Session &session, std::span<const float> pixels, uint32_t images) const;
  Status executeImages(Session &session, std::span<const float> pixels, uint32_t images);
  /// Calls execute() as a step of these sessions.
  template <typename Execute>
  Status inStep(std::span<const SessionTokens> batch, StepObserver &observer, Execute execute);
  /// Null: it is not one of this engine, or has ended. A foreign session is only compared by
  /// address: it may have been destroyed.
  SequenceSession *find(const Session *session) const;
  ExecutorParts executorParts(const KernelTable &kernels) {
    return {artifact(), kernels,      *threads,          weights,
            *experts,   misses.get(), importances.get(), decode};
  }

  const Model &model;
  const EngineOptions options;
  // Null: the model has none.
  const Program *const decode, *const prefill, *const classify, *const encode;
  MemoryAccount account;
  Ledger sequences; // What `memory` has for sessions.
  std::unique_ptr<Executor> executor;
  BackendExecutor *onDevice = nullptr;     // The executor, if it is that of a device.
  std::vector<SequenceSession *> sessions; // All existing ones; capacity account.sessions.
  bool isStepping = false;
};

} // namespace moert
