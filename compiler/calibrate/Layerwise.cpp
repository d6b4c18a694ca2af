#include "compiler/calibrate/Layerwise.h"

#include "compiler/calibrate/LayerwisePlan.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/engine/Executor.h"
#include "runtime/engine/Footprint.h"
#include "runtime/memory/EngineMemory.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace moert {

namespace {

/// What a layerwise run has made before its executor.
struct LayerwiseParts {
  std::unique_ptr<Ledger> ledger; // Outlives what reserves from it.
  std::vector<Segment> segments;
  std::unique_ptr<ThreadPool> threads;
  ResidentWeights weights;
  std::unique_ptr<ExpertStore> experts;
  Step step;
  ReservedRegion laterScores;                             // One later router's, for a batch.
  std::vector<std::unique_ptr<SequenceSession>> sessions; // One per window of a batch.
};

} // namespace

/// Invariants: weights and the experts' cache are of the current segment only; sessions have no
/// tokens between two calls of execute().
struct LayerwiseExecutor::Impl : LayerwiseParts {
  Impl(const Model &opened, const LayerwiseOptions &layerwiseOptions, const KernelTable &kernels,
       LayerwiseParts parts)
      : LayerwiseParts(std::move(parts)), model(opened), options(layerwiseOptions),
        executor({artifact(), kernels, *threads, weights, *experts}) {}

  const Model &model;
  const LayerwiseOptions options;
  Executor executor;
  std::optional<uint32_t> begun;
  uint64_t bytesRead = 0;

  const Artifact &artifact() const { return model.artifact(); }

  Status checkResidents();
  Status loadResidents(const Segment &segment);
  Status startLayer(const Segment &segment);

  void setBatch(std::span<const int32_t> tokens);
  void moveStates(const std::vector<int32_t> &buffers, uint64_t stateBytes,
                  const std::function<void(std::byte *buffer, uint64_t at, uint64_t bytes)> &move);
  Status executeInstruction(const Segment &segment, const Instruction &instruction,
                            LayerObserver &observer);
  Status observeProduct(const Instruction &instruction, LayerObserver &observer);
  Status observeRoute(const Segment &segment, const RouteInstruction &route,
                      LayerObserver &observer);

  template <typename T> LayerRows<T> rowsOf(int32_t buffer) const {
    const Rows rows = step.buffer(buffer);
    return {reinterpret_cast<const T *>(rows.data), rows.stride(), step.bufferInfo(buffer).width,
            step.rowsPerToken * options.windowTokens};
  }
};

namespace {

/// Forwards the engine's logits.
class LogitsRelay final : public StepObserver {
public:
  LogitsRelay(LayerObserver &target, uint32_t windowLength,
              std::span<const std::unique_ptr<SequenceSession>> windowSessions)
      : observer(target), windowTokens(windowLength), sessions(windowSessions) {}

  Status onLogits(Session &session, uint32_t position, std::span<const float> logits) override {
    auto window = std::find_if(sessions.begin(), sessions.end(),
                               [&](const auto &one) { return one.get() == &session; });
    return observer.onLogits(uint64_t(window - sessions.begin()) * windowTokens + position, logits);
  }

private:
  LayerObserver &observer;
  uint32_t windowTokens;
  std::span<const std::unique_ptr<SequenceSession>> sessions;
};

} // namespace

LayerwiseExecutor::LayerwiseExecutor(std::unique_ptr<Impl> created) : impl(std::move(created)) {}
LayerwiseExecutor::~LayerwiseExecutor() = default;

// Segments read parts of the section, some of them twice, but its checksum covers the whole.
Status LayerwiseExecutor::Impl::checkResidents() {
  constexpr uint64_t kPieceBytes = 8 * kResidentReadBytes;
  const uint64_t total = artifact().residentBytes;
  MOERT_ASSIGN_OR_RETURN(HostRegion piece,
                         HostRegion::create(std::min(kPieceBytes, roundUp(total, uint64_t(4096)))));
  ChecksumStream checksum;
  for (uint64_t done = 0; done < total; done += piece.bytes()) {
    const uint64_t bytes = std::min(piece.bytes(), total - done);
    const auto read = piece.span().first(roundUp(bytes, ArtifactFile::kAlignment));
    MOERT_RETURN_IF_ERROR(readResidents(experts->reads(), artifact().residentOffset + done, read));
    bytesRead += read.size();
    checksum.update(piece.span().first(bytes));
  }
  return moert::checkResidents(model, checksum.digest());
}

Status LayerwiseExecutor::Impl::loadResidents(const Segment &segment) {
  for (const ResidentRange &range : segment.ranges) {
    MOERT_RETURN_IF_ERROR(readResidents(experts->reads(),
                                        artifact().residentOffset + range.sectionOffset,
                                        weights.memory().subspan(range.memoryOffset, range.bytes)));
    bytesRead += range.bytes;
  }
  for (int32_t weight : segment.weights) {
    const uint64_t offset = artifact().residents[static_cast<size_t>(weight)].offset;
    const auto range =
        std::find_if(segment.ranges.begin(), segment.ranges.end(), [&](const auto &one) {
          return offset >= one.sectionOffset && offset - one.sectionOffset < one.bytes;
        });
    weights.place(static_cast<size_t>(weight),
                  range->memoryOffset + (offset - range->sectionOffset));
  }
  return {};
}

Status LayerwiseExecutor::Impl::startLayer(const Segment &segment) {
  if (experts->hasCache())
    bytesRead += experts->cache().totalCounts().bytesRead;
  return experts->startLayer(segment.moeLayer);
}

static StepShape stepShapeOf(const LayerwiseOptions &options, const MemoryAccount &account) {
  StepShape shape;
  shape.tokens = account.prefillChunk;
  shape.contextTokens = static_cast<uint32_t>(roundUp(options.windowTokens, kKvBlockTokens));
  shape.sequenceTokens = options.windowTokens;
  shape.logitsRows = options.wantsLogits ? 1 : 0;
  return shape;
}

Result<std::unique_ptr<LayerwiseExecutor>>
LayerwiseExecutor::create(const Model &model, const LayerwiseOptions &options,
                          const LayerwiseAccount &account) {
  const Artifact &artifact = model.artifact();
  const KernelTable *kernels = &bestKernels();
  if (options.isa) {
    MOERT_ASSIGN_OR_RETURN(kernels, kernelsFor(*options.isa));
  }
  LayerwiseParts parts;
  const Program &program = layerwiseProgram(artifact);
  MOERT_ASSIGN_OR_RETURN(parts.segments, segmentsOf(artifact, program, options));
  MOERT_ASSIGN_OR_RETURN(parts.threads,
                         ThreadPool::create(options.threads, ThreadPool::Shortage::kTakesFewer));
  uint64_t residentBytes = 0;
  for (const Segment &segment : parts.segments)
    residentBytes = std::max(residentBytes, segment.residentBytes());
  // The account has windows side by side; here each begins at a page.
  parts.ledger = std::make_unique<Ledger>(account.memory.loadedBytes() +
                                          account.batchWindows * uint64_t(4096));
  Ledger &ledger = *parts.ledger;
  MOERT_ASSIGN_OR_RETURN(ReservedRegion weights,
                         ReservedRegion::create(ledger, owners::kWeights, residentBytes));
  // Views of all weights; their bytes are in memory during their segment only.
  parts.weights = ResidentWeights(artifact, std::move(weights));
  const StepShape shape = stepShapeOf(options, account.memory);
  RunRequest request;
  request.contextTokens = shape.contextTokens;
  request.threads = parts.threads->threads();
  request.logitsRows = shape.logitsRows;
  MOERT_ASSIGN_OR_RETURN(
      StepMemory stepMemory,
      StepMemory::create(ledger, footprintOf(artifact, false), request, shape.tokens));
  parts.step = Step(artifact, shape, std::move(stepMemory));
  parts.step.program = &program;
  if (options.laterRouters != 0) {
    const uint64_t row =
        roundUp(roundUp(mostExpertsOf(artifact), 16) * sizeof(float), uint64_t(kBufferAlignment));
    MOERT_ASSIGN_OR_RETURN(parts.laterScores,
                           ReservedRegion::create(ledger, "later routers",
                                                  row * shape.tokens * mostRoutedRows(artifact)));
  }
  const uint64_t windowBytes = windowMemoryBytes(artifact, shape.contextTokens);
  for (uint32_t window = 0; window < account.batchWindows; ++window) {
    MOERT_ASSIGN_OR_RETURN(ReservedRegion memory,
                           ReservedRegion::create(ledger, "a window", windowBytes));
    parts.sessions.push_back(std::make_unique<SequenceSession>(
        SequenceMemory::create(artifact, std::move(memory), shape.contextTokens, true), nullptr));
  }
  MOERT_ASSIGN_OR_RETURN(ReservedRegion pool,
                         ReservedRegion::create(ledger, owners::kExpertCache,
                                                account.memory.poolPages * artifact.pageBytes,
                                                Populate::kNo));
  MOERT_ASSIGN_OR_RETURN(
      parts.experts, ExpertStore::create(model, {options.io, {}}, *parts.threads, std::move(pool)));
  auto executor = std::make_unique<Impl>(model, options, *kernels, std::move(parts));
  MOERT_RETURN_IF_ERROR(executor->checkResidents());
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
  return impl->experts->reads().describe();
}
uint64_t LayerwiseExecutor::bytesRead() const {
  return impl->bytesRead +
         (impl->experts->hasCache() ? impl->experts->cache().totalCounts().bytesRead : uint64_t(0));
}

Status LayerwiseExecutor::begin(uint32_t segment) {
  impl->begun.reset();
  MOERT_RETURN_IF_ERROR(impl->startLayer(impl->segments[segment]));
  MOERT_RETURN_IF_ERROR(impl->loadResidents(impl->segments[segment]));
  impl->begun = segment;
  return {};
}

void LayerwiseExecutor::Impl::setBatch(std::span<const int32_t> tokens) {
  step.batch.clear();
  for (size_t i = 0; i < tokens.size(); ++i)
    step.batch.push_back({sessions[i / options.windowTokens].get(),
                          static_cast<uint32_t>(i % options.windowTokens), tokens[i],
                          options.wantsLogits});
}

// Calls move for each part of each token's state with its offset in the arena and in the states.
void LayerwiseExecutor::Impl::moveStates(
    const std::vector<int32_t> &buffers, uint64_t stateBytes,
    const std::function<void(std::byte *buffer, uint64_t at, uint64_t bytes)> &move) {
  uint64_t before = 0;
  for (int32_t buffer : buffers) {
    const Rows rows = step.buffer(buffer);
    const uint64_t bytes = step.bufferInfo(buffer).bytesPerToken;
    for (uint64_t token = 0; token < step.batch.size(); ++token)
      move(rows.data + token * bytes, token * stateBytes + before, bytes);
    before += bytes;
  }
}

Status LayerwiseExecutor::Impl::observeRoute(const Segment &segment, const RouteInstruction &route,
                                             LayerObserver &observer) {
  const Router own = executor.routerOf(route);
  LayerObserver::Routed routed = {route.moeLayer,
                                  rowsOf<float>(segment.expertsInput),
                                  rowsOf<float>(route.scores),
                                  rowsOf<int32_t>(route.experts),
                                  rowsOf<float>(route.weights),
                                  &own};
  MOERT_RETURN_IF_ERROR(observer.onRouted(routed));
  for (const LaterRouter &router : segment.laterRouters) {
    const WeightView &w = weights.weight(router.weight);
    float *scores = reinterpret_cast<float *>(laterScores.data());
    uint64_t stride = roundUp(w.shape.rows, kBufferAlignment / sizeof(float));
    executor.multiply(step, w, segment.routerInput, 0, step.rows(), scores, stride);
    if (router.bias != kNone)
      executor.kernels().addBias(scores, stride, executor.vector(router.bias), step.rows(),
                                 w.shape.rows, scores, stride);
    MOERT_RETURN_IF_ERROR(observer.onLaterRouter(
        routed, router.ahead, {scores, stride, w.shape.rows, routed.scores.rowsPerWindow},
        executor.routerOf(router.route)));
  }
  return {};
}

Status LayerwiseExecutor::Impl::observeProduct(const Instruction &instruction,
                                               LayerObserver &observer) {
  const auto observe = [&](int32_t weight, int32_t src) {
    return step.bufferInfo(src).kind == BufferKind::kF32
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
  MOERT_RETURN_IF_ERROR(executor.submit(step, {&instruction, 1}, step.profile.back()));
  if (const auto *route = std::get_if<RouteInstruction>(&instruction))
    return observeRoute(segment, *route, observer);
  return {};
}

Status LayerwiseExecutor::execute(std::span<const int32_t> tokens, std::span<const std::byte> in,
                                  std::span<std::byte> out, LayerObserver &observer,
                                  std::span<const float> pixels) {
  const uint32_t windowTokens = impl->options.windowTokens;
  if (!impl->begun || tokens.empty() || tokens.size() % windowTokens != 0 ||
      tokens.size() > impl->sessions.size() * windowTokens)
    return invalidInput("a batch of ", tokens.size(), " tokens",
                        impl->begun ? "" : " without a segment", ", expected 1 to ",
                        impl->sessions.size(), " windows of ", windowTokens);
  const Segment &segment = impl->segments[*impl->begun];
  const uint64_t bytesBefore = segment.stateBytes, bytesAfter = stateBytes(*impl->begun + 1);
  if (in.size() != tokens.size() * bytesBefore || out.size() != tokens.size() * bytesAfter)
    return invalidInput("states of ", in.size(), " and ", out.size(), " bytes, expected ",
                        tokens.size() * bytesBefore, " and ", tokens.size() * bytesAfter);
  for (int32_t token : tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= impl->artifact().model.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ",
                          impl->artifact().model.vocabularySize - 1);

  impl->setBatch(tokens);
  LogitsRelay relay(observer, windowTokens, impl->sessions);
  impl->step.observer = &relay;
  impl->step.begin(impl->executor.kernels());
  impl->step.pixels = pixels.data();
  if (!segment.liveBefore.empty())
    impl->step.rowsPerToken = impl->step.bufferInfo(segment.liveBefore.front()).rows();
  impl->moveStates(segment.liveBefore, bytesBefore,
                   [&](std::byte *buffer, uint64_t at, uint64_t bytes) {
                     std::memcpy(buffer, in.data() + at, bytes);
                   });
  for (size_t i = segment.begin; i < segment.end; ++i)
    MOERT_RETURN_IF_ERROR(
        impl->executeInstruction(segment, impl->step.program->instructions[i], observer));
  if (*impl->begun + 1 < impl->segments.size())
    impl->moveStates(impl->segments[*impl->begun + 1].liveBefore, bytesAfter,
                     [&](std::byte *buffer, uint64_t at, uint64_t bytes) {
                       std::memcpy(out.data() + at, buffer, bytes);
                     });
  return {};
}

} // namespace moert
