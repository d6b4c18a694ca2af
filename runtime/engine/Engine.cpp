// Loads a model and executes the steps of its sessions.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/FloatMode.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/ModelImpl.h"
#include "runtime/engine/PlannedCache.h"
#include "runtime/memory/MemoryRoom.h"

#include <algorithm>
#include <array>

namespace moert {

namespace {

using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Reads the resident section in file order, several pieces at a time, and updates the checksum as
/// pieces complete.
class ResidentLoader {
public:
  ResidentLoader(const Model::Impl &opened, ReadQueue &readQueue, HostRegion &memory)
      : model(opened), queue(readQueue), region(memory),
        pieces(divideUp(opened.artifact.residentBytes, kResidentReadBytes)), isRead(pieces, false) {
  }

  Status load(const LoadProgress &progress) {
    uint64_t submitted = 0;
    while (checked < pieces) {
      while (submitted < pieces && queue.readsUnderWay() < queue.maxReads())
        MOERT_RETURN_IF_ERROR(submit(submitted++));
      MOERT_RETURN_IF_ERROR(takeFinished());
      if (progress)
        progress(std::min(checked * kResidentReadBytes, total()), total());
    }
    if (uint64_t found = checksum.digest(); found != model.artifact.residentChecksum)
      return invalidInput(model.file.path(), ": the resident weights have checksum ",
                          formatChecksum(found), ", expected ",
                          formatChecksum(model.artifact.residentChecksum));
    return {};
  }

private:
  uint64_t total() const { return model.artifact.residentBytes; }
  uint64_t bytesOf(uint64_t piece) const {
    return std::min(kResidentReadBytes, total() - piece * kResidentReadBytes);
  }

  Status submit(uint64_t piece) {
    MemoryPiece memory = {region.data() + piece * kResidentReadBytes,
                          roundUp(bytesOf(piece), ArtifactFile::kAlignment)};
    return queue.submit(piece, model.artifact.residentOffset + piece * kResidentReadBytes,
                        {&memory, 1});
  }

  Status takeFinished() {
    std::array<ReadCompletion, 8> completions;
    MOERT_ASSIGN_OR_RETURN(size_t count, queue.poll(completions, true));
    for (size_t i = 0; i < count; ++i) {
      MOERT_RETURN_IF_ERROR(std::move(completions[i].status).withContext("resident weights"));
      isRead[completions[i].tag] = true;
    }
    for (; checked < pieces && isRead[checked]; ++checked)
      checksum.update({region.data() + checked * kResidentReadBytes, bytesOf(checked)});
    return {};
  }

  const Model::Impl &model;
  ReadQueue &queue;
  HostRegion &region;
  const uint64_t pieces;
  std::vector<bool> isRead;
  uint64_t checked = 0;
  ChecksumStream checksum;
};

const Program *findProgram(const Artifact &artifact, const char *name) {
  for (const Program &program : artifact.programs)
    if (program.name == name)
      return &program;
  return nullptr;
}

void makeResidentViews(Engine::Impl &engine) {
  const std::vector<ResidentWeight> &weights = engine.artifact->residents;
  // Views point into the list of pages, which must not be reallocated from here on.
  engine.residentPages.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    engine.residentPages[i] = engine.residentMemory.data() + weights[i].offset;
    engine.residents.push_back({weights[i].shape, weights[i].format,
                                layoutOf(weights[i].shape, weights[i].format).value(),
                                PagedBytes::contiguous(&engine.residentPages[i])});
  }
}

} // namespace

uint64_t Engine::Impl::arenaBytesFor(uint32_t tokens) const {
  return arenaBytesPerToken(*artifact, mayLose).total() * tokens;
}

void Engine::Impl::useArena(uint32_t tokens) {
  const ArenaBytes bytes = arenaBytesPerToken(*artifact, mayLose);
  lowCopyRows = {arena.data() + bytes.buffers * tokens, bytes.lowCopyRows};
  chunk = tokens;
}

StepTables Engine::Impl::makeStepTables(uint32_t tokens, bool usesPathTable) const {
  uint64_t topK = 1;
  for (const MoeLayer &layer : artifact->moeLayers)
    topK = std::max<uint64_t>(topK, layer.topK);
  StepTables tables;
  tables.batch.reserve(tokens);
  tables.ropeTables.resize(uint64_t(ropeFloatsPerRow) * tokens);
  tables.expertRows.resize(topK * tokens);
  tables.inputNorms.resize(mayWeigh ? tokens : 0, 1.0f);
  for (std::vector<int32_t> &layer : tables.chosen)
    layer.reserve(usesPathTable ? topK * tokens : 0);
  return tables;
}

Status Engine::Impl::makeStepMemory(bool usesPathTable) {
  uint64_t widest = 0;
  for (const MoeLayer &layer : artifact->moeLayers)
    widest = std::max<uint64_t>(widest, layer.experts.size());
  ropeFloatsPerRow = ropeFloatsOf(*artifact, ropeOffsets);
  MOERT_RETURN_IF_ERROR(arena.resize(arenaBytesFor(chunk)));
  useArena(chunk);
  static_cast<StepTables &>(*this) = makeStepTables(chunk, usesPathTable);
  attentionScratchFloats = attentionScratchFloatsOf(*artifact, contextTokens);
  MOERT_ASSIGN_OR_RETURN(
      scratch, HostRegion::create(attentionScratchFloats * sizeof(float) * threads->threads()));
  logitsStride = roundUp(artifact->model.vocabularySize, kBufferAlignment / sizeof(float));
  MOERT_ASSIGN_OR_RETURN(logits, HostRegion::create(logitsStride * sizeof(float) * logitsRows));
  probabilities.resize(roundUp(widest, 16));
  expertBegin.resize(widest + 1);
  wanted.resize(widest);
  wantedUses.resize(widest);
  if (mayLose)
    misses.resize(*artifact, std::max(mostSessions, options.decodesInBatches ? chunk : 0),
                  options.decodesInBatches);
  if (mayWeigh)
    importances.resize(widest);
  prefetchProbabilities.resize(widest);
  prefetchCandidates.reserve(widest);
  prefetchSlices.reserve(widest);
  profile.resize(artifact->model.layers + 1);
  return {};
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

Result<std::unique_ptr<Engine>> Engine::load(const Model &model, const EngineOptions &options,
                                             const MemoryAccount &account,
                                             const LoadProgress &progress) {
  const DefaultFloatMode mode;
  const Artifact &artifact = model.artifact();
  MOERT_RETURN_IF_ERROR(checkAccount(artifact, options, account).withContext(model.path()));
  if (options.memory) {
    const SystemMemory system = systemMemory();
    MOERT_RETURN_IF_ERROR(checkBudgetLimit(*options.memory, system));
    MOERT_RETURN_IF_ERROR(checkRoom(account, system));
  }
  auto engine = std::make_unique<Impl>();
  engine->options = options;
  engine->account = account;
  engine->model = &model;
  engine->artifact = &artifact;
  engine->kernels = &bestKernels();
  if (options.isa) {
    MOERT_ASSIGN_OR_RETURN(engine->kernels, kernelsFor(*options.isa));
  }
  engine->contextTokens = account.contextTokens;
  engine->sequenceTokens = options.contextTokens;
  engine->mostSessions = account.sessions;
  engine->mostSessionTokens = account.sessionTokens;
  engine->sessions.reserve(account.sessions);
  engine->chunk = account.prefillChunk;
  engine->logitsRows = options.logitsRows;
  const Plan &plan = artifact.plans[account.plan];
  engine->mayWeigh = weighsWithAny(artifact.plans);
  engine->mayLose = !options.isExact && losesWithAny(artifact.plans);
  if (engine->mayLose)
    engine->missRule = plan.miss;
  engine->decode = findProgram(artifact, "decode");
  engine->prefill = findProgram(artifact, "prefill");
  for (const Instruction &instruction : engine->decode->instructions)
    if (const auto *route = std::get_if<RouteInstruction>(&instruction))
      engine->routes.push_back(route); // They are in the order of the layers.
  for (const Instruction &instruction : engine->prefill->instructions)
    if (const auto *route = std::get_if<RouteInstruction>(&instruction))
      engine->prefillRoutes.push_back(route);
  engine->weighAsPlanned(plan);

  const auto shortage =
      options.takesFewerThreads ? ThreadPool::Shortage::kTakesFewer : ThreadPool::Shortage::kFails;
  MOERT_ASSIGN_OR_RETURN(engine->threads, ThreadPool::create(account.threads, shortage));
  uint64_t residentBytes = roundUp(artifact.residentBytes, ArtifactFile::kAlignment);
  MOERT_ASSIGN_OR_RETURN(engine->residentMemory, HostRegion::create(residentBytes, Populate::kNo));
  MOERT_ASSIGN_OR_RETURN(engine->poolMemory,
                         HostRegion::create(account.poolPages * artifact.pageBytes, Populate::kNo));
  MOERT_RETURN_IF_ERROR(engine->makeStepMemory(usesPaths(plan)));

  MemoryPiece pool = {engine->poolMemory.data(), engine->poolMemory.bytes()};
  const auto makeQueue = options.readQueue ? options.readQueue : createReadQueue;
  MOERT_ASSIGN_OR_RETURN(
      engine->queue,
      makeQueue(model.impl->file, readQueueOptions(artifact, options.io, {&pool, 1})));
  const uint64_t startBytes = startBytesOf(artifact, plan, account.poolPages);
  auto hear = [&](uint64_t done) {
    if (progress)
      progress(done, artifact.residentBytes + startBytes);
  };
  MOERT_RETURN_IF_ERROR(ResidentLoader(*model.impl, *engine->queue, engine->residentMemory)
                            .load([&](uint64_t done, uint64_t) { hear(done); }));
  makeResidentViews(*engine);

  Result<std::vector<MoeLayerTables>> tables = makeLayerTables(artifact, engine->mayLose);
  if (!tables.isOk())
    return tables.status().withContext(model.path());
  engine->moeLayers = std::move(tables).value();
  engine->prefetchRules = plan.prefetches;
  if (usesPaths(plan)) {
    MOERT_ASSIGN_OR_RETURN(engine->paths, engine->loadPaths());
  }
  MOERT_RETURN_IF_ERROR(engine->startCache(
      [&](uint64_t done) { hear(artifact.residentBytes + std::min(done, startBytes)); }));
  hear(artifact.residentBytes + startBytes); // Some experts of the start may not fit.
  return std::unique_ptr<Engine>(new Engine(std::move(engine)));
}

Status Engine::Impl::startCache(const std::function<void(uint64_t done)> &progress) {
  const Plan &plan = artifact->plans[account.plan];
  const CacheConfig config = cacheConfigOf(plan, account.poolPages, poolMemory.span(), cacheLayers);
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ExpertCache> made, ExpertCache::create(config, *queue));
  cache.reset(); // Waits for its reads.
  cache = std::move(made);
  MOERT_RETURN_IF_ERROR(pinAsPlanned(
      plan, [this](uint32_t layer, uint32_t expert) { return cache->pin(layer, expert); }));
  MOERT_RETURN_IF_ERROR(fillAsPlanned(plan, *cache, progress));
  if (options.decodesInBatches && account.sessions == 1 && missRule.changesDecoding() &&
      isByLayers(plan) && !cache->state().hasCopies())
    decodedCache = std::make_unique<CacheMachine>(cache->decisions());
  return {};
}

Status Engine::restartCache() {
  const DefaultFloatMode mode;
  if (impl->isStepping)
    return failed("a new cache within a step: an observer must not call the engine");
  return impl->startCache([](uint64_t) {});
}

const Model &Engine::model() const {
  return *impl->model;
}
const KernelTable &Engine::kernels() const {
  return *impl->kernels;
}
const std::string &Engine::ioDescription() const {
  return impl->queue->describe();
}
uint32_t Engine::prefillChunk() const {
  return impl->chunk;
}
bool Engine::isLossy() const {
  return impl->missRule.isLossy();
}
bool Engine::losesDecoding() const {
  return impl->missRule.changesDecoding();
}
bool Engine::decodesInBatches() const {
  return impl->decodedCache != nullptr;
}
std::span<const LayerProfile> Engine::lastStep() const {
  return impl->profile;
}
const StepReads &Engine::lastStepReads() const {
  return impl->stepReads;
}
const PartNumbers &Engine::lastStepParts() const {
  return impl->partNs;
}

} // namespace moert
