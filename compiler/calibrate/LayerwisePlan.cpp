#include "compiler/calibrate/LayerwisePlan.h"

#include "compiler/calibrate/BufferUses.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/ProcessFootprint.h"

#include <algorithm>
#include <functional>

namespace moert {

// Once the layer stays in memory, more windows in a batch save no reads and only grow its buffers.
// More than one window is used because an expert gets only a small fraction of one window's tokens,
// and a product with more rows unpacks its weights less often. The number is chosen, not measured.
static constexpr uint64_t kMaxWindowsWithLayer = 4;

const Program &layerwiseProgram(const Artifact &artifact) {
  for (const Program &program : artifact.programs)
    if (program.name == "prefill")
      return program;
  return artifact.programs.front();
}

uint32_t mostRoutedRows(const Artifact &artifact) {
  uint32_t most = 1;
  const Program &program = layerwiseProgram(artifact);
  for (const Instruction &instruction : program.instructions)
    if (const auto *route = std::get_if<RouteInstruction>(&instruction))
      most = std::max(most, program.buffers[static_cast<size_t>(route->scores)].rows());
  return most;
}

uint64_t windowMemoryBytes(const Artifact &artifact, uint32_t windowTokens) {
  return placeLayerKv(artifact).bytes * roundUp(windowTokens, kKvBlockTokens) +
         placeStates(artifact, true).bytes;
}

namespace {

/// A router: the product that computes a MoE layer's scores. Routers are in the order of the
/// layers.
struct Router {
  LinearInstruction linear;
  RouteInstruction route;
};

std::vector<Router> routersOf(const Program &program) {
  std::vector<Router> routers;
  for (size_t i = 2; i < program.instructions.size(); ++i) {
    // Only a product directly before the route counts, or before the mask of its scores, so that
    // its input is still in its buffer.
    const bool isMasked =
        std::holds_alternative<MaskExpertsInstruction>(program.instructions[i - 1]);
    const auto *linear =
        std::get_if<LinearInstruction>(&program.instructions[i - (isMasked ? 2 : 1)]);
    const auto *route = std::get_if<RouteInstruction>(&program.instructions[i]);
    if (linear && route && linear->dst == route->scores)
      routers.push_back({*linear, *route});
  }
  return routers;
}

/// Cuts a program into segments and fills them in. Lives for one call of segmentsOf().
class SegmentBuilder {
public:
  SegmentBuilder(const Artifact &whole, const Program &cut, const LayerwiseOptions &asked)
      : artifact(whole), program(cut), options(asked), routers(routersOf(cut)) {}

  Result<std::vector<Segment>> build() {
    for (size_t begin = 0, end = 0; begin < program.instructions.size(); begin = end) {
      end = begin + 1;
      while (end < program.layers.size() && program.layers[end] == program.layers[begin])
        ++end;
      Segment segment;
      segment.begin = begin;
      segment.end = end;
      segment.layer = program.layers[begin];
      MOERT_RETURN_IF_ERROR(fill(segment));
      segments.push_back(std::move(segment));
    }
    return std::move(segments);
  }

private:
  Status fill(Segment &segment) {
    MOERT_RETURN_IF_ERROR(checkSlots(segment));
    MOERT_RETURN_IF_ERROR(findMoeLayer(segment));
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const Instruction &instruction = program.instructions[i];
      if (std::holds_alternative<HeadInstruction>(instruction) && !options.wantsLogits)
        continue;
      for (int32_t weight : usesOf(instruction).weights)
        segment.weights.push_back(weight);
    }
    for (const LaterRouter &router : segment.laterRouters)
      for (int32_t weight :
           {router.weight, router.bias, router.route.choiceBias, router.route.weightFactors})
        if (weight != kNone)
          segment.weights.push_back(weight);
    placeWeights(segment);
    segment.liveBefore =
        segment.begin == 0 ? std::vector<int32_t>() : liveBuffers(program, segment.begin);
    for (int32_t buffer : segment.liveBefore)
      segment.stateBytes += program.buffers[static_cast<size_t>(buffer)].bytesPerToken;
    return {};
  }

  // Keys and values are kept during one segment only.
  Status checkSlots(const Segment &segment) const {
    std::vector<bool> isStored(artifact.kvSlots.size());
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const Instruction &instruction = program.instructions[i];
      const bool isAttend = std::holds_alternative<AttendInstruction>(instruction) ||
                            std::holds_alternative<AttendChosenInstruction>(instruction) ||
                            std::holds_alternative<AttendPoolsInstruction>(instruction);
      bool isRight = true;
      describe(instruction, [&](FieldRole role, const char *, const auto &field) {
        if (role != FieldRole::kSlot)
          return;
        isRight = !isAttend || isStored[static_cast<size_t>(field)];
        isStored[static_cast<size_t>(field)] = true;
      });
      if (!isRight)
        return invalidInput("layer ", segment.layer,
                            " reads keys that another layer stored; "
                            "this model cannot be executed layer by layer");
    }
    return {};
  }

  /// The experts' input before it is quantized and before weights that scale inputs. BuildModel
  /// computes this row before the route, so that it is in its buffer there.
  int32_t expertsInput(const Segment &segment, uint32_t moeLayer) const {
    int32_t input = kNone;
    for (size_t i = segment.end; i-- > segment.begin;) {
      const Instruction &instruction = program.instructions[i];
      if (const auto *experts = std::get_if<ExpertsInstruction>(&instruction);
          experts && experts->moeLayer == moeLayer)
        input = experts->src;
      else if (input == kNone)
        continue;
      else if (const auto *quantize = std::get_if<QuantizeInstruction>(&instruction);
               quantize && quantize->dst == input)
        input = quantize->src;
      else if (const auto *scale = std::get_if<ScaleInputInstruction>(&instruction);
               scale && scale->dst == input)
        return scale->src;
    }
    return input;
  }

  Status findMoeLayer(Segment &segment) const {
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const auto *route = std::get_if<RouteInstruction>(&program.instructions[i]);
      if (!route)
        continue;
      auto own = std::find_if(routers.begin(), routers.end(), [&](const Router &router) {
        return router.route.moeLayer == route->moeLayer;
      });
      if (segment.moeLayer || own == routers.end())
        return invalidInput("layer ", segment.layer, " has ",
                            segment.moeLayer ? "two routers" : "a router whose input is unknown",
                            "; this model cannot be executed layer by layer");
      segment.moeLayer = route->moeLayer;
      segment.routerInput = own->linear.src;
      segment.expertsInput = expertsInput(segment, route->moeLayer);
      for (auto later = own + 1; later != routers.end(); ++later) {
        auto ahead = static_cast<uint32_t>(later - own);
        if (ahead <= options.laterRouters && isSameInput(own->linear.src, later->linear.weight))
          segment.laterRouters.push_back(
              {ahead, later->linear.weight, later->linear.bias, later->route});
      }
    }
    return {};
  }

  bool isSameInput(int32_t buffer, int32_t weight) const {
    return program.buffers[static_cast<size_t>(buffer)].width ==
           artifact.residents[static_cast<size_t>(weight)].shape.cols;
  }

  // Weights on common or neighbouring blocks of the file are read as one range.
  void placeWeights(Segment &segment) const {
    std::vector<int32_t> &weights = segment.weights;
    std::sort(weights.begin(), weights.end());
    weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
    std::vector<int32_t> inFile = weights;
    auto at = [this](int32_t weight) -> const ResidentWeight & {
      return artifact.residents[static_cast<size_t>(weight)];
    };
    std::sort(inFile.begin(), inFile.end(),
              [&](int32_t a, int32_t b) { return at(a).offset < at(b).offset; });
    for (int32_t weight : inFile) {
      constexpr uint64_t kBlock = ArtifactFile::kAlignment;
      uint64_t begin = at(weight).offset / kBlock * kBlock;
      uint64_t end = roundUp(at(weight).offset + at(weight).bytes, kBlock);
      ResidentRange *last = segment.ranges.empty() ? nullptr : &segment.ranges.back();
      if (last && begin <= last->sectionOffset + last->bytes)
        last->bytes = std::max(last->bytes, end - last->sectionOffset);
      else
        segment.ranges.push_back({begin, segment.residentBytes(), end - begin});
    }
  }

  const Artifact &artifact;
  const Program &program;
  const LayerwiseOptions &options;
  const std::vector<Router> routers;
  std::vector<Segment> segments;
};

} // namespace

Result<std::vector<Segment>> segmentsOf(const Artifact &artifact, const Program &program,
                                        const LayerwiseOptions &options) {
  return SegmentBuilder(artifact, program, options).build();
}

// The largest value of [low, high] for which the condition holds; it holds for low.
static uint64_t largestThat(uint64_t low, uint64_t high,
                            const std::function<bool(uint64_t)> &holds) {
  while (low < high) {
    uint64_t middle = low + (high - low + 1) / 2;
    if (holds(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::optional<LayerwiseSplit>
splitLayerwise(uint64_t windows, uint64_t smallestPoolPages, uint64_t workingPoolPages,
               uint64_t layerPoolPages, const std::function<bool(const LayerwiseSplit &)> &fits) {
  auto split = [](uint64_t batch, uint64_t pages) {
    return LayerwiseSplit{static_cast<uint32_t>(batch), pages};
  };
  if (!fits(split(1, smallestPoolPages)))
    return std::nullopt;
  uint64_t mostWindows = std::min<uint64_t>(windows, UINT32_MAX);
  uint64_t pages = layerPoolPages;
  if (fits(split(1, layerPoolPages))) {
    mostWindows = std::min(mostWindows, kMaxWindowsWithLayer);
  } else {
    pages = std::min(workingPoolPages, layerPoolPages);
    if (!fits(split(1, pages)))
      return split(1, largestThat(smallestPoolPages, pages,
                                  [&](uint64_t fewer) { return fits(split(1, fewer)); }));
  }
  uint64_t batch =
      largestThat(1, mostWindows, [&](uint64_t more) { return fits(split(more, pages)); });
  return split(batch, largestThat(pages, layerPoolPages,
                                  [&](uint64_t more) { return fits(split(batch, more)); }));
}

// Bytes that a batch of one token needs in addition to the engine's own buffers.
static uint64_t bytesPerToken(const Artifact &artifact, const std::vector<Segment> &segments,
                              const LayerwiseOptions &options) {
  uint64_t state = 0, widest = 0;
  for (const Segment &segment : segments)
    state = std::max(state, segment.stateBytes);
  for (const MoeLayer &layer : artifact.moeLayers)
    widest = std::max<uint64_t>(widest, layer.experts.size());
  // The last block of KV memory is filled up to a whole block.
  uint64_t kv = divideUp(windowMemoryBytes(artifact, options.windowTokens), options.windowTokens);
  uint64_t later = options.laterRouters == 0 ? 0
                                             : roundUp(widest * sizeof(float), kBufferAlignment) *
                                                   mostRoutedRows(artifact);
  return 2 * state + kv + later + options.extraBytesPerToken;
}

Result<LayerwiseAccount> accountLayerwise(const Model &model, const LayerwiseOptions &options) {
  const Artifact &artifact = model.artifact();
  if (options.windowTokens == 0 || options.windowTokens > artifact.model.maxPositions)
    return invalidInput(model.path(), ": windows of ", options.windowTokens,
                        " tokens, expected 1 to ", artifact.model.maxPositions,
                        ", the positions of this model");
  auto segments = segmentsOf(artifact, layerwiseProgram(artifact), options);
  if (!segments.isOk())
    return segments.status().withContext(model.path());

  ModelFootprint footprint = footprintOf(model);
  footprint.residentBytes = 0;
  for (const Segment &segment : *segments)
    footprint.residentBytes = std::max(footprint.residentBytes, segment.residentBytes());
  footprint.kvBytesPerToken = footprint.stateBytes =
      0; // Part of the batch's bytes, since each window has its own.
  footprint.arenaBytesPerToken += bytesPerToken(artifact, *segments, options);
  CacheShape layer; // The layer that needs most: one is in memory at a time.
  for (const CacheShape::Layer &one : footprint.cache.layers)
    if (layer.layers.empty() || uint64_t(one.experts) * one.recordPages > largestPoolPages(layer))
      layer.layers = {one};

  RunRequest request;
  request.contextTokens = static_cast<uint32_t>(roundUp(options.windowTokens, kKvBlockTokens));
  request.threads = options.threads;
  request.logitsRows = options.wantsLogits ? 1 : 0;
  request.extraBytes = options.extraBytes;
  ProcessFootprint process = processFootprint(readQueueOptions(artifact, options.io, {}));
  auto accountOf = [&](const LayerwiseSplit &split) {
    uint64_t tokens = uint64_t(split.batchWindows) * options.windowTokens;
    return accountMemory(footprint, process, request,
                         static_cast<uint32_t>(std::min<uint64_t>(tokens, UINT32_MAX)),
                         split.poolPages);
  };
  uint64_t smallestPool = smallestPoolPages(footprint.cache);
  uint64_t smallest = accountOf({1, smallestPool}).totalBytes();
  BudgetSize budget = options.memory.value_or(BudgetSize{availableMemoryBytes(), {}});
  if (budget.expertFraction)
    budget.bytes =
        smallest + static_cast<uint64_t>(*budget.expertFraction *
                                         static_cast<double>(footprint.expertPayloadBytes));
  uint64_t largestPool = std::max(largestPoolPages(layer), smallestPool);
  auto split =
      splitLayerwise(imagesOf(artifact) ? 1 : options.windows, smallestPool,
                     smallestPool * kWorkingRecords, largestPool, [&](const LayerwiseSplit &tried) {
                       return uint64_t(tried.batchWindows) * options.windowTokens <= UINT32_MAX &&
                              accountOf(tried).totalBytes() <= budget.bytes;
                     });
  if (!split)
    return invalidInput(
        options.memory ? "--memory " : "available memory: ", formatExactBytes(budget.bytes),
        " are not enough; the smallest budget that works is ", formatExactBytes(smallest));
  LayerwiseAccount account = {accountOf(*split), split->batchWindows,
                              split->poolPages == largestPool};
  account.memory.budgetBytes = budget.bytes;
  return account;
}

} // namespace moert
