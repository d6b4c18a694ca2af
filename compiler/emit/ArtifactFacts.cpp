#include "compiler/emit/ArtifactFacts.h"

#include "compiler/plan/DeviceProfile.h"
#include "runtime/base/Status.h"
#include "runtime/engine/Footprint.h"
#include "runtime/experts/PathTable.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

static_assert(kOutputsTogether == kPanelRows);
static_assert(kMostAhead <= kMostTogether, "the gates of all distances are one product");

// A tokenizer of 50,000 to 250,000 words with merges takes 60 to 110 bytes a word in memory; the
// rest is room for the checkpoint's chat templates, some 10 KB.
static constexpr uint64_t kTokenizerBytesPerWord = 128;

ModelFootprint plannedFootprintOf(const Artifact &artifact) {
  ModelFootprint footprint = footprintOf(artifact);
  footprint.metadataBytes -= describedBytesOf(artifact);
  footprint.tokenizerBytes = artifact.model.vocabularySize * kTokenizerBytesPerWord;
  std::vector<uint32_t> experts;
  for (const CacheShape::Layer &layer : footprint.cache.layers)
    experts.push_back(layer.experts);
  footprint.pathsBytes = pathTableBytes(experts);
  return footprint;
}

static std::string_view weightsOf(std::span<const Slice> copy, ExpertPart part) {
  std::string name = hasBlocks(formatOf(copy.front().format, part).kind) ? "blocks" : "";
  for (const Slice &slice : name.empty() ? copy : std::span<const Slice>())
    for (WeightKind plane : planesOf(formatOf(slice.format, part).kind))
      if (plane != WeightKind::kInt0)
        name = name.empty() ? nameOf(plane) : strCat(name, "+", bitsOf(plane));
  auto found = std::find(kProductWeights.begin(), kProductWeights.end(), name);
  assert(found != kProductWeights.end() && "checkSliceFormats() admits no other");
  return *found;
}

static ExpertProducts weightsOf(std::span<const Slice> copy) {
  return {weightsOf(copy, ExpertPart::kGate), weightsOf(copy, ExpertPart::kDown)};
}

ExpertProducts productWeightsOf(const Expert &expert) {
  return weightsOf(fullSlicesOf(expert));
}

namespace {

/// Collects the operations of one program that take time.
class OperationList {
public:
  OperationList(const Artifact &of, const Program &walked) : artifact(of), program(walked) {}

  std::vector<StepOperation> list() {
    const std::span<const Instruction> instructions = program.instructions;
    for (size_t i = 0; i < instructions.size();)
      if (size_t linears = addProducts(instructions.subspan(i)))
        i += linears;
      else
        std::visit(*this, instructions[i++]);
    return std::move(operations);
  }

  void operator()(const AttendInstruction &attend) { addAttention(attend, attend.window); }
  void operator()(const AttendRangeInstruction &attend) { addAttention(attend, 0); }
  void operator()(const AttendChosenInstruction &attend) {
    addAttention(attend, program.buffers[static_cast<size_t>(attend.chosen)].width);
  }
  void operator()(const ChooseKeysInstruction &choose) {
    const KvSlot &slot = artifact.kvSlots[choose.slot];
    operations.push_back(
        AttentionStep{{choose.heads, slot.kvHeads, slot.keyDim, 0, 0, bitsOf(slot.kind)}});
  }
  void operator()(const AttendPoolsInstruction &attend) {
    const KvSlot &slot = artifact.kvSlots[attend.slot];
    const uint32_t most = program.buffers[static_cast<size_t>(attend.chosen)].width;
    operations.push_back(
        AttentionStep{{attend.heads, 1, slot.keyDim, slot.keyDim, most, bitsOf(slot.kind)}});
  }
  void operator()(const ChoosePoolsInstruction &choose) {
    const KvSlot &slot = artifact.kvSlots[choose.slot];
    operations.push_back(
        AttentionStep{{choose.heads, 1, slot.keyDim, 0, 0, bitsOf(slot.kind), choose.poolTokens}});
  }
  void operator()(const DeltaRuleInstruction &rule) { addState(rule.slot, rule.heads, 4); }
  void operator()(const StateSpaceInstruction &space) { addState(space.slot, space.heads, 3); }
  // An element of the state takes two exponentials.
  void operator()(const SelectiveScanInstruction &scan) { addState(scan.slot, 1, 32); }
  void operator()(const LinearHeadsInstruction &linear) {
    operations.push_back(ProductsStep{{matrixOf(linear.weight)}});
  }
  void operator()(const HeadInstruction &head) {
    operations.push_back(HeadStep{matrixOf(head.weight)});
  }
  void operator()(const RouteInstruction &) {
    operations.push_back(RouteStep{std::exchange(router, std::nullopt)});
  }
  void operator()(const ExpertsInstruction &experts) {
    const MoeLayer &layer = artifact.moeLayers[experts.moeLayer];
    const MatrixShape &first = layer.matrices.front().shape;
    ExpertsStep step{experts.moeLayer, first.cols, first.rows, {}};
    for (const Expert &expert : layer.experts) {
      const std::span<const Slice> full = fullSlicesOf(expert);
      StoredExpert &stored = step.experts.emplace_back();
      stored.weights = weightsOf(full);
      stored.slices = static_cast<uint32_t>(full.size());
      for (const Slice &slice : full)
        stored.payloadBytes += slice.payloadBytes;
      stored.lowCopySlices = lowCopySlicesOf(expert);
      if (stored.lowCopySlices > 0)
        stored.lowCopyWeights = weightsOf(std::span(expert.slices).first(stored.lowCopySlices));
    }
    operations.push_back(std::move(step));
  }
  template <typename Other> void operator()(const Other &) {}

private:
  /// Over at most `most` positions; 0: over all.
  void addAttention(const AttentionOperands &attend, uint32_t most) {
    const KvSlot &slot = artifact.kvSlots[attend.slot];
    operations.push_back(
        AttentionStep{{attend.heads, slot.kvHeads, slot.keyDim, valueDimOf(slot, program, attend),
                       most, bitsOf(slot.kind)}});
  }

  // Counted as attention over the positions that take as many multiply-adds, `perElement` for each
  // element of a state.
  void addState(uint32_t index, uint32_t heads, uint64_t perElement) {
    const StateSlot &slot = artifact.stateSlots[index];
    const uint32_t keyDim = slot.rows / heads, valueDim = slot.width;
    const uint64_t positions = perElement * keyDim * valueDim / (uint64_t(keyDim) + valueDim);
    operations.push_back(
        AttentionStep{{heads, heads, keyDim, valueDim, static_cast<uint32_t>(positions)}});
  }

  StoredMatrix matrixOf(int32_t weight) const {
    const ResidentWeight &matrix = artifact.residents[static_cast<size_t>(weight)];
    return {nameOf(matrix.format.kind), matrix.shape.rows, matrix.shape.cols};
  }

  /// Joined products are divided among threads together; returns how many.
  size_t addProducts(std::span<const Instruction> instructions) {
    ProductsStep step;
    for (const Instruction &instruction : instructions) {
      const auto *linear = std::get_if<LinearInstruction>(&instruction);
      if (!linear || (!step.matrices.empty() && !linear->joined))
        break;
      step.matrices.push_back(matrixOf(linear->weight));
      if (linear->role == ProductRole::kRouter)
        router = step.matrices.back();
    }
    const size_t count = step.matrices.size();
    if (count > 0)
      operations.push_back(std::move(step));
    return count;
  }

  const Artifact &artifact;
  const Program &program;
  std::vector<StepOperation> operations;
  std::optional<StoredMatrix> router; // The next route's, if it is a product.
};

} // namespace

static std::vector<std::vector<uint64_t>> sliceEndsOf(const MoeLayer &layer) {
  std::vector<std::vector<uint64_t>> ends;
  for (const Expert &expert : layer.experts) {
    std::vector<uint64_t> &own = ends.emplace_back();
    for (const Slice &slice : expert.slices)
      own.push_back(slice.offset + slice.bytes);
  }
  return ends;
}

ModelFacts factsOf(const Artifact &artifact, const ModelFootprint &footprint) {
  ModelFacts facts;
  facts.footprint = footprint;
  for (const MoeLayer &layer : artifact.moeLayers) {
    facts.recordBytes.push_back(recordBytesOf(layer));
    facts.sliceEnds.push_back(sliceEndsOf(layer));
    std::vector<uint16_t> &lowCopies = facts.lowCopySlices.emplace_back();
    for (const Expert &expert : layer.experts)
      lowCopies.push_back(lowCopySlicesOf(expert));
  }
  for (const CacheShape::Layer &layer : footprint.cache.layers)
    facts.topK.push_back(layer.topK);
  facts.isPredicted.resize(artifact.moeLayers.size());
  for (const Program &program : artifact.programs) {
    if (program.name != "decode")
      continue;
    facts.decode = OperationList(artifact, program).list();
    for (const Instruction &instruction : program.instructions)
      if (const auto *predict = std::get_if<PredictInstruction>(&instruction))
        facts.isPredicted[predict->moeLayer][predict->ahead - 1] = true;
  }
  return facts;
}

} // namespace moec
