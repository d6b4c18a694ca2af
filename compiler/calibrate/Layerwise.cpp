#include "compiler/calibrate/Layerwise.h"

#include "compiler/calibrate/LayerwisePlan.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/engine/EngineImpl.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/ModelImpl.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace moert {

/// Invariants: `engine` has weights, tables and a cache of the current segment only; sessions have
/// no tokens between two calls of execute().
struct LayerwiseExecutor::Impl {
  const Model *model = nullptr;
  const Model::Impl *file = nullptr;
  LayerwiseOptions options;
  uint32_t batchWindows = 0;
  std::vector<Segment> segments;
  std::optional<uint32_t> begun;

  Engine::Impl engine;
  HostRegion laterScores;                         // Scores of one later router, for a batch.
  std::vector<std::unique_ptr<Session>> sessions; // One per window of a batch.
  uint64_t bytesRead = 0;

  const Artifact &artifact() const { return model->artifact(); }

  Status read(uint64_t fileOffset, std::span<std::byte> into);
  Status checkResidents();
  Status loadResidents(const Segment &segment);
  Status makeCache(const Segment &segment);

  void setBatch(std::span<const int32_t> tokens);
  void moveStates(const std::vector<int32_t> &buffers, uint64_t stateBytes,
                  const std::function<void(std::byte *buffer, uint64_t at, uint64_t bytes)> &move);
  Status executeInstruction(const Segment &segment, const Instruction &instruction,
                            LayerObserver &observer);
  Status observeProduct(const Instruction &instruction, LayerObserver &observer);
  Status observeRoute(const Segment &segment, const RouteInstruction &route,
                      LayerObserver &observer);

  template <typename T> LayerRows<T> rowsOf(int32_t buffer) const {
    Rows rows = engine.buffer(buffer);
    return {reinterpret_cast<const T *>(rows.data), rows.stride(), engine.bufferInfo(buffer).width};
  }
};

namespace {

/// Forwards the engine's logits.
class LogitsRelay final : public StepObserver {
public:
  LogitsRelay(LayerObserver &target, uint32_t windowLength,
              std::span<const std::unique_ptr<Session>> windowSessions)
      : observer(target), windowTokens(windowLength), sessions(windowSessions) {}

  Status onLogits(Session &session, uint32_t position, std::span<const float> logits) override {
    auto window = std::find_if(sessions.begin(), sessions.end(),
                               [&](const auto &one) { return one.get() == &session; });
    return observer.onLogits(uint64_t(window - sessions.begin()) * windowTokens + position, logits);
  }

private:
  LayerObserver &observer;
  uint32_t windowTokens;
  std::span<const std::unique_ptr<Session>> sessions;
};

} // namespace

LayerwiseExecutor::LayerwiseExecutor(std::unique_ptr<Impl> created) : impl(std::move(created)) {}
LayerwiseExecutor::~LayerwiseExecutor() = default;

// In pieces, several at a time; offset, address and length are multiples of the alignment.
Status LayerwiseExecutor::Impl::read(uint64_t fileOffset, std::span<std::byte> into) {
  ReadQueue &queue = *engine.queue;
  Status failure;
  for (uint64_t submitted = 0; submitted < into.size() || queue.readsUnderWay() > 0;) {
    while (failure.isOk() && submitted < into.size() && queue.readsUnderWay() < queue.maxReads()) {
      uint64_t bytes = std::min<uint64_t>(kResidentReadBytes, into.size() - submitted);
      MemoryPiece piece = {into.data() + submitted, bytes};
      failure = queue.submit(submitted, fileOffset + submitted, {&piece, 1});
      submitted += bytes;
    }
    if (queue.readsUnderWay() == 0)
      break;
    std::array<ReadCompletion, 8> completions;
    MOERT_ASSIGN_OR_RETURN(size_t count, queue.poll(completions, true));
    for (size_t i = 0; i < count; ++i)
      if (failure.isOk())
        failure = std::move(completions[i].status);
  }
  bytesRead += into.size();
  return std::move(failure).withContext("resident weights");
}

// Segments read parts of the section, some of them twice, but its checksum covers the whole.
Status LayerwiseExecutor::Impl::checkResidents() {
  constexpr uint64_t kPieceBytes = 8 * kResidentReadBytes;
  const uint64_t total = artifact().residentBytes;
  MOERT_ASSIGN_OR_RETURN(HostRegion piece,
                         HostRegion::create(std::min(kPieceBytes, roundUp(total, uint64_t(4096)))));
  ChecksumStream checksum;
  for (uint64_t done = 0; done < total; done += piece.bytes()) {
    uint64_t bytes = std::min(piece.bytes(), total - done);
    MOERT_RETURN_IF_ERROR(read(artifact().residentOffset + done,
                               piece.span().first(roundUp(bytes, ArtifactFile::kAlignment))));
    checksum.update(piece.span().first(bytes));
  }
  if (uint64_t found = checksum.digest(); found != artifact().residentChecksum)
    return invalidInput(model->path(), ": the resident weights have checksum ",
                        formatChecksum(found), ", expected ",
                        formatChecksum(artifact().residentChecksum));
  return {};
}

Status LayerwiseExecutor::Impl::loadResidents(const Segment &segment) {
  for (const ResidentRange &range : segment.ranges)
    MOERT_RETURN_IF_ERROR(
        read(artifact().residentOffset + range.sectionOffset,
             engine.residentMemory.span().subspan(range.memoryOffset, range.bytes)));
  for (int32_t weight : segment.weights) {
    uint64_t offset = artifact().residents[static_cast<size_t>(weight)].offset;
    auto range = std::find_if(segment.ranges.begin(), segment.ranges.end(), [&](const auto &one) {
      return offset >= one.sectionOffset && offset - one.sectionOffset < one.bytes;
    });
    engine.residentPages[static_cast<size_t>(weight)] =
        engine.residentMemory.data() + range->memoryOffset + (offset - range->sectionOffset);
  }
  return {};
}

// A cache of this layer alone, which owns the whole pool.
Status LayerwiseExecutor::Impl::makeCache(const Segment &segment) {
  if (engine.cache)
    bytesRead += engine.cache->totalCounts().bytesRead;
  engine.cache.reset();
  if (!segment.moeLayer)
    return {};
  engine.firstCachedLayer = *segment.moeLayer;
  engine.cacheLayers = {{artifact().moeLayers[*segment.moeLayer].layer,
                         engine.moeLayers[*segment.moeLayer].records,
                         engine.poolMemory.bytes() / artifact().pageBytes}};
  CacheConfig config;
  config.fileName = model->path();
  config.pageBytes = artifact().pageBytes;
  config.layers = engine.cacheLayers;
  config.pool = engine.poolMemory.span();
  config.threads = engine.threads.get();
  MOERT_ASSIGN_OR_RETURN(engine.cache, ExpertCache::create(config, *engine.queue));
  return {};
}

Result<std::unique_ptr<LayerwiseExecutor>>
LayerwiseExecutor::create(const Model &model, const LayerwiseOptions &options,
                          const LayerwiseAccount &account) {
  auto executor = std::make_unique<Impl>();
  const Artifact &artifact = model.artifact();
  executor->model = &model;
  executor->file = model.impl.get();
  executor->options = options;
  executor->batchWindows = account.batchWindows;
  const Program &program = layerwiseProgram(artifact);
  MOERT_ASSIGN_OR_RETURN(executor->segments, segmentsOf(artifact, program, options));

  Engine::Impl &engine = executor->engine;
  engine.model = &model;
  engine.artifact = &artifact;
  engine.kernels = &bestKernels();
  if (options.isa) {
    MOERT_ASSIGN_OR_RETURN(engine.kernels, kernelsFor(*options.isa));
  }
  engine.contextTokens = static_cast<uint32_t>(roundUp(options.windowTokens, kKvBlockTokens));
  engine.sequenceTokens = options.windowTokens;
  engine.chunk = account.memory.prefillChunk;
  engine.logitsRows = options.wantsLogits ? 1 : 0;
  engine.program = &program;
  MOERT_ASSIGN_OR_RETURN(engine.threads,
                         ThreadPool::create(options.threads, ThreadPool::Shortage::kTakesFewer));
  uint64_t residentBytes = 0;
  for (const Segment &segment : executor->segments)
    residentBytes = std::max(residentBytes, segment.residentBytes());
  MOERT_ASSIGN_OR_RETURN(engine.residentMemory, HostRegion::create(residentBytes));
  MOERT_ASSIGN_OR_RETURN(
      engine.poolMemory,
      HostRegion::create(account.memory.poolPages * artifact.pageBytes, Populate::kNo));
  MOERT_RETURN_IF_ERROR(engine.makeStepMemory());
  if (options.laterRouters != 0) {
    uint64_t row = roundUp(engine.probabilities.size() * sizeof(float), kBufferAlignment);
    MOERT_ASSIGN_OR_RETURN(executor->laterScores, HostRegion::create(row * engine.chunk));
  }
  uint64_t windowBytes = windowMemoryBytes(artifact, engine.contextTokens);
  for (uint32_t window = 0; window < executor->batchWindows; ++window) {
    MOERT_ASSIGN_OR_RETURN(HostRegion memory, HostRegion::create(windowBytes));
    executor->sessions.push_back(
        Engine::Impl::makeSession(artifact, std::move(memory), engine.contextTokens, true));
  }

  MemoryPiece pool = {engine.poolMemory.data(), engine.poolMemory.bytes()};
  MOERT_ASSIGN_OR_RETURN(
      engine.queue,
      createReadQueue(executor->file->file, readQueueOptions(artifact, options.io, {&pool, 1})));
  MOERT_RETURN_IF_ERROR(executor->checkResidents());
  Result<std::vector<MoeLayerTables>> tables = makeLayerTables(artifact);
  if (!tables.isOk())
    return tables.status().withContext(model.path());
  engine.moeLayers = std::move(tables).value();
  // Views of all weights; their bytes are in memory during their segment only.
  engine.residentPages.resize(artifact.residents.size());
  for (size_t i = 0; i < artifact.residents.size(); ++i)
    engine.residents.push_back(
        {artifact.residents[i].shape, artifact.residents[i].format,
         layoutOf(artifact.residents[i].shape, artifact.residents[i].format).value(),
         PagedBytes::contiguous(&engine.residentPages[i])});
  return std::unique_ptr<LayerwiseExecutor>(new LayerwiseExecutor(std::move(executor)));
}

uint32_t LayerwiseExecutor::segments() const {
  return static_cast<uint32_t>(impl->segments.size());
}
std::optional<uint32_t> LayerwiseExecutor::layerOf(uint32_t segment) const {
  int32_t layer = impl->segments[segment].layer;
  return layer == kNone ? std::nullopt : std::optional<uint32_t>(layer);
}
uint64_t LayerwiseExecutor::stateBytes(uint32_t boundary) const {
  return boundary < impl->segments.size() ? impl->segments[boundary].stateBytes : 0;
}
const std::string &LayerwiseExecutor::ioDescription() const {
  return impl->engine.queue->describe();
}
uint64_t LayerwiseExecutor::bytesRead() const {
  return impl->bytesRead +
         (impl->engine.cache ? impl->engine.cache->totalCounts().bytesRead : uint64_t(0));
}

Status LayerwiseExecutor::begin(uint32_t segment) {
  impl->begun.reset();
  MOERT_RETURN_IF_ERROR(impl->makeCache(impl->segments[segment]));
  MOERT_RETURN_IF_ERROR(impl->loadResidents(impl->segments[segment]));
  impl->begun = segment;
  return {};
}

void LayerwiseExecutor::Impl::setBatch(std::span<const int32_t> tokens) {
  engine.batch.clear();
  for (size_t i = 0; i < tokens.size(); ++i) {
    Session *session = sessions[i / options.windowTokens].get();
    engine.batch.push_back(
        {session, static_cast<uint32_t>(i % options.windowTokens), tokens[i], options.wantsLogits});
  }
}

// Calls move for each part of each token's state with its offset in the arena and in the states.
void LayerwiseExecutor::Impl::moveStates(
    const std::vector<int32_t> &buffers, uint64_t stateBytes,
    const std::function<void(std::byte *buffer, uint64_t at, uint64_t bytes)> &move) {
  uint64_t before = 0;
  for (int32_t buffer : buffers) {
    Rows rows = engine.buffer(buffer);
    for (uint64_t row = 0; row < engine.rows(); ++row)
      move(rows.data + row * rows.bytesPerRow, row * stateBytes + before, rows.bytesPerRow);
    before += rows.bytesPerRow;
  }
}

Status LayerwiseExecutor::Impl::observeRoute(const Segment &segment, const RouteInstruction &route,
                                             LayerObserver &observer) {
  const Router own = engine.routerOf(route);
  LayerObserver::Routed routed = {route.moeLayer,
                                  rowsOf<float>(segment.expertsInput),
                                  rowsOf<float>(route.scores),
                                  rowsOf<int32_t>(route.experts),
                                  rowsOf<float>(route.weights),
                                  &own};
  MOERT_RETURN_IF_ERROR(observer.onRouted(routed));
  for (const LaterRouter &router : segment.laterRouters) {
    const WeightView &w = engine.weight(router.weight);
    float *scores = reinterpret_cast<float *>(laterScores.data());
    uint64_t stride = roundUp(w.shape.rows, kBufferAlignment / sizeof(float));
    engine.multiply(w, segment.routerInput, 0, engine.rows(), scores, stride);
    if (router.bias != kNone)
      engine.kernels->addBias(scores, stride, engine.vector(router.bias), engine.rows(),
                              w.shape.rows, scores, stride);
    MOERT_RETURN_IF_ERROR(observer.onLaterRouter(
        routed, router.ahead, {scores, stride, w.shape.rows}, engine.routerOf(router.route)));
  }
  return {};
}

Status LayerwiseExecutor::Impl::observeProduct(const Instruction &instruction,
                                               LayerObserver &observer) {
  const auto observe = [&](int32_t weight, int32_t src) {
    return engine.bufferInfo(src).kind == BufferKind::kF32
               ? observer.onProduct(weight, rowsOf<float>(src))
               : Status();
  };
  if (const auto *linear = std::get_if<LinearInstruction>(&instruction))
    return observe(linear->weight, linear->src);
  if (const auto *head = std::get_if<HeadInstruction>(&instruction))
    return observe(head->weight, head->src);
  return {};
}

Status LayerwiseExecutor::Impl::executeInstruction(const Segment &segment,
                                                   const Instruction &instruction,
                                                   LayerObserver &observer) {
  // Prefetching needs the cache of a whole model, and the weights of predictions are not in memory.
  if (std::holds_alternative<PredictInstruction>(instruction))
    return {};
  MOERT_RETURN_IF_ERROR(observeProduct(instruction, observer));
  if (std::holds_alternative<HeadInstruction>(instruction) && !options.wantsLogits)
    return {};
  MOERT_RETURN_IF_ERROR(engine.executeTogether({&instruction, 1}, engine.profile.back()));
  if (const auto *route = std::get_if<RouteInstruction>(&instruction))
    return observeRoute(segment, *route, observer);
  return {};
}

Status LayerwiseExecutor::execute(std::span<const int32_t> tokens, std::span<const std::byte> in,
                                  std::span<std::byte> out, LayerObserver &observer) {
  Engine::Impl &engine = impl->engine;
  const uint32_t windowTokens = impl->options.windowTokens;
  if (!impl->begun || tokens.empty() || tokens.size() % windowTokens != 0 ||
      tokens.size() > uint64_t(impl->batchWindows) * windowTokens)
    return invalidInput("a batch of ", tokens.size(), " tokens",
                        impl->begun ? "" : " without a segment", ", expected 1 to ",
                        impl->batchWindows, " windows of ", windowTokens);
  const Segment &segment = impl->segments[*impl->begun];
  const uint64_t bytesBefore = segment.stateBytes, bytesAfter = stateBytes(*impl->begun + 1);
  if (in.size() != tokens.size() * bytesBefore || out.size() != tokens.size() * bytesAfter)
    return invalidInput("states of ", in.size(), " and ", out.size(), " bytes, expected ",
                        tokens.size() * bytesBefore, " and ", tokens.size() * bytesAfter);
  for (int32_t token : tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= engine.artifact->model.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ",
                          engine.artifact->model.vocabularySize - 1);

  impl->setBatch(tokens);
  LogitsRelay relay(observer, windowTokens, impl->sessions);
  engine.observer = &relay;
  engine.fillRopeTables();
  impl->moveStates(segment.liveBefore, bytesBefore,
                   [&](std::byte *buffer, uint64_t at, uint64_t bytes) {
                     std::memcpy(buffer, in.data() + at, bytes);
                   });
  for (size_t i = segment.begin; i < segment.end; ++i)
    MOERT_RETURN_IF_ERROR(
        impl->executeInstruction(segment, engine.program->instructions[i], observer));
  if (*impl->begun + 1 < impl->segments.size())
    impl->moveStates(impl->segments[*impl->begun + 1].liveBefore, bytesAfter,
                     [&](std::byte *buffer, uint64_t at, uint64_t bytes) {
                       std::memcpy(out.data() + at, buffer, bytes);
                     });
  return {};
}

} // namespace moert
