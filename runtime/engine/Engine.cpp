// Loads a model and executes the steps of its sessions.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/FloatMode.h"
#include "runtime/engine/EngineAccount.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/memory/MemoryRoom.h"

#include <algorithm>

namespace moert {

Engine::Impl::Impl(const Model &loadedModel, const EngineOptions &engineOptions,
                   const MemoryAccount &memoryAccount, const KernelTable &kernels,
                   EngineParts parts)
    : EngineParts(std::move(parts)), model(loadedModel), options(engineOptions),
      decode(findProgram(artifact().programs, programs::kDecode)),
      prefill(findProgram(artifact().programs, programs::kPrefill)),
      classify(findProgram(artifact().programs, programs::kClassify)),
      encode(findProgram(artifact().programs, programs::kEncode)), account(memoryAccount),
      sequences(memory.keysAndValues.bytes() + memory.states.bytes()),
      executor(std::make_unique<Executor>(executorParts(kernels))) {
  sessions.reserve(account.sessions);
}

// The loaded model must be the one that the account was made for.
static Status checkAccount(const Artifact &artifact, const EngineOptions &options,
                           const MemoryAccount &account) {
  if (account.plan >= artifact.plans.size())
    return invalidInput("an account for plan ", account.plan, ", expected one of the ",
                        artifact.plans.size(), ", counted from 0");
  if (account.sessions != options.sessions ||
      account.contextTokens != roundUp(options.contextTokens, kKvBlockTokens))
    return invalidInput("an account for ", account.sessions, " sessions with a context of ",
                        account.contextTokens, " tokens, the options have ", options.sessions,
                        " with ", options.contextTokens,
                        "; expected the account of the same options");
  if (options.sessionTokens != 0 && account.sessionTokens != options.sessionTokens)
    return invalidInput("an account for ", account.sessionTokens,
                        " tokens of all sessions, the options have ", options.sessionTokens,
                        "; expected the account of the same options");
  if (account.prefillChunk == 0 || account.logitsRows != options.logitsRows)
    return invalidInput("an account for batches of ", account.prefillChunk, " tokens and ",
                        account.logitsRows, " rows of logits, the options have ",
                        options.logitsRows, "; expected the account of the same options");
  return {};
}

Engine::Engine(std::unique_ptr<Impl> loaded) : impl(std::move(loaded)) {}

static StepShape stepShapeOf(const Artifact &artifact, const EngineOptions &options,
                             const MemoryAccount &account) {
  StepShape shape;
  shape.tokens = account.prefillChunk;
  shape.contextTokens = account.contextTokens;
  shape.sequenceTokens = options.contextTokens;
  shape.logitsRows = options.logitsRows;
  shape.mayLose = !options.isExact && losesWithAny(artifact.plans);
  return shape;
}

/// Takes the memory of the account, by whose constructors it was counted.
static Status takeMemory(const Model &model, const EngineOptions &options,
                         const MemoryAccount &account, EngineParts &parts) {
  MOERT_ASSIGN_OR_RETURN(AccountInput input, accountInputOf(model, options));
  input.request.threads = account.threads;
  parts.ledger = std::make_unique<Ledger>(account.totalBytes());
  MOERT_ASSIGN_OR_RETURN(parts.held, parts.ledger->reserve("held before", account.heldBytes()));
  MOERT_ASSIGN_OR_RETURN(
      parts.memory, EngineMemory::create(*parts.ledger, input.footprint, input.process,
                                         input.request, account.prefillChunk, account.poolPages));
  return {};
}

Result<std::unique_ptr<Engine>>
Engine::load(const Model &model, const EngineOptions &options, const MemoryAccount &account,
             const std::function<void(uint64_t done, uint64_t total)> &progress) {
  const DefaultFloatMode mode;
  const Artifact &artifact = model.artifact();
  MOERT_RETURN_IF_ERROR(checkAccount(artifact, options, account).withContext(model.path()));
  if (options.memory) {
    const SystemMemory system = systemMemory();
    MOERT_RETURN_IF_ERROR(checkBudgetLimit(*options.memory, system));
    MOERT_RETURN_IF_ERROR(checkRoom(account, system));
  }
  const KernelTable *kernels = &bestKernels();
  if (options.isa) {
    MOERT_ASSIGN_OR_RETURN(kernels, kernelsFor(*options.isa));
  }
  const Plan &plan = artifact.plans[account.plan];
  EngineParts parts;
  const auto shortage =
      options.takesFewerThreads ? ThreadPool::Shortage::kTakesFewer : ThreadPool::Shortage::kFails;
  MOERT_ASSIGN_OR_RETURN(parts.threads, ThreadPool::create(account.threads, shortage));
  MOERT_RETURN_IF_ERROR(takeMemory(model, options, account, parts));
  parts.weights = ResidentWeights(artifact, std::move(parts.memory.weights));
  const StepShape shape = stepShapeOf(artifact, options, account);
  parts.step = Step(artifact, shape, std::move(parts.memory.step));
  MOERT_ASSIGN_OR_RETURN(
      parts.experts,
      ExpertStore::create(model, {options.io, options.readQueue, shape.mayLose, options.isExact},
                          *parts.threads, std::move(parts.memory.pool)));
  if (shape.mayLose) {
    const uint32_t rows =
        std::max(account.sessions, options.decodesInBatches ? account.prefillChunk : 0);
    parts.misses = std::make_unique<MissDecisions>(artifact, rows, options.decodesInBatches);
    parts.misses->setRule(plan.miss);
  }
  if (weighsWithAny(artifact.plans) && !imagesOf(artifact)) {
    parts.importances = std::make_unique<ImportanceMeter>(artifact);
    parts.importances->takePlan(plan);
  }
  const uint64_t startBytes = startBytesOf(artifact, plan, account.poolPages);
  auto hear = [&](uint64_t done) {
    if (progress)
      progress(done, artifact.residentBytes + startBytes);
  };
  MOERT_RETURN_IF_ERROR(parts.weights.load(model, parts.experts->reads(), hear));
  auto impl = std::make_unique<Impl>(model, options, account, *kernels, std::move(parts));
  if (options.device)
    MOERT_RETURN_IF_ERROR(impl->moveToDevice());
  MOERT_RETURN_IF_ERROR(impl->startCache(
      [&](uint64_t done) { hear(artifact.residentBytes + std::min(done, startBytes)); }));
  hear(artifact.residentBytes + startBytes); // Some experts of the start may not fit.
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Status Engine::Impl::moveToDevice() {
  const Result<MemoryAccount> taken = options.device->account(model, options, account);
  if (!taken.isOk())
    return options.isDeviceOptional ? Status() : taken.status();
  MOERT_ASSIGN_OR_RETURN(
      std::unique_ptr<BackendExecutor> made,
      options.device->createExecutor(executorParts(executor->kernels()), *taken, step));
  onDevice = made.get();
  executor = std::move(made);
  return {};
}

Status Engine::Impl::startCache(const std::function<void(uint64_t done)> &progress) {
  MOERT_RETURN_IF_ERROR(experts->start(plan(), progress));
  if (onDevice)
    MOERT_RETURN_IF_ERROR(onDevice->restart());
  if (options.decodesInBatches && account.sessions == 1 && misses &&
      misses->rule().changesDecoding() && isByLayers(plan()) &&
      !experts->cache().state().hasCopies())
    misses->decodeFrom(experts->cache().decisions());
  return {};
}

Status Engine::restartCache() {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a new cache within a step: an observer must not call the engine");
  return impl->startCache([](uint64_t) {});
}

const Model &Engine::model() const {
  return impl->model;
}
const KernelTable &Engine::kernels() const {
  return impl->executor->kernels();
}
const std::string &Engine::ioDescription() const {
  return impl->experts->reads().describe();
}
uint32_t Engine::prefillChunk() const {
  return impl->chunk();
}
bool Engine::isLossy() const {
  return impl->misses && impl->misses->rule().isLossy();
}
bool Engine::losesDecoding() const {
  return impl->misses && impl->misses->rule().changesDecoding();
}
bool Engine::decodesInBatches() const {
  return impl->misses && impl->misses->decoded();
}
std::span<const LayerProfile> Engine::lastStep() const {
  return impl->step.profile;
}
const StepReads &Engine::lastStepReads() const {
  return impl->step.reads;
}
const PartNumbers &Engine::lastStepParts() const {
  return impl->step.partNs;
}

} // namespace moert
