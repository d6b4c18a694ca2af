// Loading a model, and the steps of its sessions.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/ModelImpl.h"
#include "runtime/engine/PlannedCache.h"

#include <algorithm>
#include <array>

namespace moert {

namespace {

using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Reads the resident section in order of the file, several pieces at once, and checks it as the
/// pieces come in.
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
  // Views point into the list of pages, which must not move any more.
  engine.residentPages.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    engine.residentPages[i] = engine.residentMemory.data() + weights[i].offset;
    engine.residents.push_back({weights[i].shape, weights[i].format,
                                layoutOf(weights[i].shape, weights[i].format).value(),
                                PagedBytes::contiguous(&engine.residentPages[i])});
  }
}

} // namespace

Status Engine::Impl::makeStepMemory() {
  uint64_t arenaBytes = 0, widest = 0, topK = 1;
  for (const Program &one : artifact->programs)
    arenaBytes = std::max(arenaBytes, one.arenaBytesPerToken);
  for (const CacheShape::Layer &layer : cacheShapeOf(*artifact).layers) {
    widest = std::max<uint64_t>(widest, layer.experts);
    topK = std::max<uint64_t>(topK, layer.topK);
  }
  MOERT_ASSIGN_OR_RETURN(arena, HostRegion::create(arenaBytes * chunk));
  attentionScratchFloats = attentionScratchFloatsOf(*artifact, contextTokens);
  MOERT_ASSIGN_OR_RETURN(
      scratch, HostRegion::create(attentionScratchFloats * sizeof(float) * threads->threads()));
  logitsStride = roundUp(artifact->model.vocabularySize, kBufferAlignment / sizeof(float));
  MOERT_ASSIGN_OR_RETURN(logits, HostRegion::create(logitsStride * sizeof(float) * logitsRows));
  batch.reserve(chunk);
  ropeFloatsPerRow = ropeFloatsOf(*artifact, ropeOffsets);
  ropeTables.resize(uint64_t(ropeFloatsPerRow) * chunk);
  probabilities.resize(roundUp(widest, 16));
  expertRows.resize(topK * chunk);
  expertBegin.resize(widest + 1);
  wanted.resize(widest);
  wantedUses.resize(widest);
  guessShares.resize(widest);
  guessCandidates.reserve(widest);
  profile.resize(artifact->model.layers + 1);
  return {};
}

Engine::Engine(std::unique_ptr<Impl> loaded) : impl(std::move(loaded)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const Model &model, const EngineOptions &options,
                                             const MemoryAccount &account,
                                             const LoadProgress &progress) {
  auto engine = std::make_unique<Impl>();
  const Artifact &artifact = model.artifact();
  engine->model = &model;
  engine->artifact = &artifact;
  engine->kernels = &bestKernels();
  if (options.isa) {
    MOERT_ASSIGN_OR_RETURN(engine->kernels, kernelsFor(*options.isa));
  }
  engine->contextTokens = static_cast<uint32_t>(roundUp(options.contextTokens, kKvBlockTokens));
  engine->chunk = account.prefillChunk;
  engine->logitsRows = options.logitsRows;
  engine->decode = findProgram(artifact, "decode");
  engine->prefill = findProgram(artifact, "prefill");
  engine->decodeParts = partsOf(*engine->decode);
  engine->prefillParts = partsOf(*engine->prefill);

  const auto shortage =
      options.takesFewerThreads ? ThreadPool::Shortage::kTakesFewer : ThreadPool::Shortage::kFails;
  MOERT_ASSIGN_OR_RETURN(engine->threads, ThreadPool::create(options.threads, shortage));
  uint64_t residentBytes = roundUp(artifact.residentBytes, ArtifactFile::kAlignment);
  MOERT_ASSIGN_OR_RETURN(engine->residentMemory, HostRegion::create(residentBytes, Populate::kNo));
  MOERT_ASSIGN_OR_RETURN(engine->poolMemory,
                         HostRegion::create(account.poolPages * artifact.pageBytes, Populate::kNo));
  MOERT_RETURN_IF_ERROR(engine->makeStepMemory());

  MemoryPiece pool = {engine->poolMemory.data(), engine->poolMemory.bytes()};
  MOERT_ASSIGN_OR_RETURN(
      engine->queue,
      createReadQueue(model.impl->file, readQueueOptions(artifact, options.io, {&pool, 1})));
  const Plan &plan = artifact.plans[account.plan];
  const uint64_t startBytes = startBytesOf(artifact, plan, account.poolPages);
  auto hear = [&](uint64_t done) {
    if (progress)
      progress(done, artifact.residentBytes + startBytes);
  };
  MOERT_RETURN_IF_ERROR(ResidentLoader(*model.impl, *engine->queue, engine->residentMemory)
                            .load([&](uint64_t done, uint64_t) { hear(done); }));
  makeResidentViews(*engine);

  Result<std::vector<MoeLayerTables>> tables = makeLayerTables(artifact);
  if (!tables.isOk())
    return tables.status().withContext(model.path());
  engine->moeLayers = std::move(tables).value();
  CacheConfig config =
      makeCacheConfig(model, engine->moeLayers, plan, account.poolPages, engine->cacheLayers);
  config.pool = engine->poolMemory.span();
  config.isSettled = options.isSettled;
  config.threads = engine->threads.get();
  MOERT_ASSIGN_OR_RETURN(engine->cache, ExpertCache::create(config, *engine->queue));
  engine->guessRules = plan.guesses;
  if (usesPaths(plan))
    MOERT_RETURN_IF_ERROR(engine->loadPaths(model.impl->file));
  MOERT_RETURN_IF_ERROR(pinAsPlanned(plan, *engine->cache));
  MOERT_RETURN_IF_ERROR(fillAsPlanned(plan, *engine->cache, [&](uint64_t done) {
    hear(artifact.residentBytes + std::min(done, startBytes));
  }));
  hear(artifact.residentBytes + startBytes); // Some of the start may not have fitted.
  return std::unique_ptr<Engine>(new Engine(std::move(engine)));
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
std::span<const LayerProfile> Engine::lastStep() const {
  return impl->profile;
}
const PartNumbers &Engine::lastStepParts() const {
  return impl->partNs;
}

Status Engine::step(std::span<const SessionTokens> batch, StepObserver &observer) {
  uint64_t count = 0;
  bool isDecode = true;
  for (const SessionTokens &part : batch) {
    count += part.tokens.size();
    isDecode = isDecode && part.tokens.size() == 1;
    const Session &session = *part.session;
    if (part.tokens.size() > session.capacity() - session.length())
      return invalidInput("the sequence would have ", session.length() + part.tokens.size(),
                          " tokens, expected at most the context of ", session.capacity());
    for (int32_t token : part.tokens)
      if (token < 0 || static_cast<uint32_t>(token) >= impl->artifact->model.vocabularySize)
        return invalidInput("token id ", token, ", expected 0 to ",
                            impl->artifact->model.vocabularySize - 1);
  }
  if (count == 0 || count > impl->chunk)
    return invalidInput("a batch of ", count, " tokens, expected 1 to ", impl->chunk);

  impl->batch.clear();
  bool beginsPrompt = false; // Of any session: the cache is one for all.
  for (const SessionTokens &part : batch)
    beginsPrompt = beginsPrompt || part.session->length() == 0;
  if (beginsPrompt)
    MOERT_RETURN_IF_ERROR(impl->cache->beginPrompt());
  for (const SessionTokens &part : batch) {
    uint32_t position = part.session->length();
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      bool isLast = i + 1 == part.tokens.size();
      bool wanted =
          part.wanted == LogitsWanted::kAll || (part.wanted == LogitsWanted::kLast && isLast);
      impl->batch.push_back({part.session, position++, part.tokens[i], wanted});
    }
  }
  impl->program = isDecode ? impl->decode : impl->prefill;
  impl->observer = &observer;
  MOERT_RETURN_IF_ERROR(impl->playProgram());
  for (const SessionTokens &part : batch)
    part.session->internals().length += static_cast<uint32_t>(part.tokens.size());
  return {};
}

Status Engine::prefill(const SessionTokens &tokens, StepObserver &observer,
                       const std::atomic<bool> *stop) {
  for (size_t begin = 0; begin < tokens.tokens.size();) {
    if (stop && stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    size_t count = std::min<size_t>(impl->chunk, tokens.tokens.size() - begin);
    SessionTokens part = {tokens.session, tokens.tokens.subspan(begin, count), tokens.wanted};
    bool isLast = begin + count == tokens.tokens.size();
    if (part.wanted == LogitsWanted::kLast && !isLast)
      part.wanted = LogitsWanted::kNowhere;
    MOERT_RETURN_IF_ERROR(step({&part, 1}, observer));
    begin += count;
  }
  return {};
}

Session::Session(std::unique_ptr<Impl> created) : impl(std::move(created)) {}
Session::~Session() = default;
uint32_t Session::length() const {
  return impl->length;
}
uint32_t Session::capacity() const {
  return impl->capacity;
}
void Session::reset() {
  impl->length = 0;
}

std::unique_ptr<Session> Engine::Impl::makeSession(const Artifact &artifact, HostRegion memory,
                                                   uint32_t contextTokens, bool slotsShareMemory) {
  auto session = std::make_unique<Session::Impl>();
  session->capacity = contextTokens;
  session->memory = std::move(memory);
  const float *first = reinterpret_cast<const float *>(session->memory.data());
  const float *next = first;
  uint32_t blocks = contextTokens / kKvBlockTokens;
  for (const KvSlot &slot : artifact.kvSlots) {
    Session::Impl::Slot &tables = session->slots.emplace_back();
    if (slotsShareMemory)
      next = first;
    // A head's rows of all blocks one behind the other: they are read in half the time that they
    // take where a head's blocks lie 64 KiB apart.
    const float *values = next + uint64_t(contextTokens) * slot.kvHeads * slot.keyDim;
    for (uint64_t block = 0; block < blocks; ++block) {
      tables.keyBlocks.push_back(next + block * kKvBlockTokens * slot.keyDim);
      tables.valueBlocks.push_back(values + block * kKvBlockTokens * slot.valueDim);
    }
    next = values + uint64_t(contextTokens) * slot.kvHeads * slot.valueDim;
  }
  return std::unique_ptr<Session>(new Session(std::move(session)));
}

Result<std::unique_ptr<Session>> Engine::createSession() {
  MOERT_ASSIGN_OR_RETURN(HostRegion memory,
                         HostRegion::create(kvBytesOf(*impl->artifact, impl->contextTokens)));
  return Impl::makeSession(*impl->artifact, std::move(memory), impl->contextTokens, false);
}

} // namespace moert
