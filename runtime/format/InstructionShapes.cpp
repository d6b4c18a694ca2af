// What an instruction needs beyond its declaration: the shapes of its operands, and ranges of its
// numbers.
#include "runtime/format/ProgramCheck.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/NgramRows.h"
#include "runtime/policy/PositionBuckets.h"

#include <cmath>
#include <vector>

namespace moert {

namespace {

Shape f32(uint64_t width) {
  return {BufferKind::kF32, width};
}

/// With so many rows of a token.
Shape rowsOf(Shape shape, uint64_t rows) {
  shape.rows = rows;
  return shape;
}

/// Pixels, or rows and columns of a grid of patches.
constexpr uint32_t kMaxImageSide = 4096;

/// The input that a matrix of this format needs.
Shape inputOf(const WeightFormat &format, uint64_t width) {
  if (isQuantized(format.kind))
    return {format.hasHadamard ? BufferKind::kHadamard : BufferKind::kQuantized, width,
            format.activationGroup};
  return f32(width);
}

/// Finds the shapes of one instruction's buffers and vectors, in the order of its declaration.
/// Every index in it has been checked.
class ShapeRules {
public:
  ShapeRules(const Artifact &whole, const Program &checked) : artifact(whole), program(checked) {}

  Status operator()(const EmbedInstruction &i) {
    if (weight(i.weight).format.hasHadamard)
      return invalidInput("the weight has the Hadamard transform, expected rows without it");
    return expect({f32(weight(i.weight).shape.cols)});
  }
  Status operator()(const NormInstruction &i) {
    const uint64_t width = buffer(i.src).width;
    if (i.epsilon < 0)
      return invalidInput("epsilon is ", i.epsilon, ", expected at least 0");
    if (i.segment == 0 || width % i.segment != 0)
      return invalidInput("segment ", i.segment, ", expected a divisor of the width ", width);
    if (i.kind == NormKind::kLayer && i.weight == kNone)
      return invalidInput("a layer norm without a weight, which only an RMS norm may lack");
    return expect({f32(width), f32(width), f32(i.segment), f32(i.segment)});
  }
  // Any group is accepted here, and either kind: the instruction that reads dst checks them.
  Status operator()(const QuantizeInstruction &i) {
    const Buffer &dst = buffer(i.dst);
    const BufferKind kind = isQuantized(dst.kind) ? dst.kind : BufferKind::kQuantized;
    return expect({f32(dst.width), {kind, dst.width, dst.group}});
  }
  Status operator()(const LinearInstruction &i) {
    const ResidentWeight &matrix = weight(i.weight);
    const Shape result = f32(matrix.shape.rows);
    return expect({inputOf(matrix.format, matrix.shape.cols), result, result});
  }
  Status operator()(const RopeInstruction &i) {
    const uint64_t pairs = artifact.ropes[i.rope].inverseFrequencies.size();
    if (pairs > i.headDim / 2)
      return invalidInput("rope ", i.rope, " has ", pairs, " frequencies, heads of ", i.headDim,
                          " elements have room for ", i.headDim / 2);
    return expect({f32(uint64_t(i.heads) * i.headDim)});
  }
  Status operator()(const StoreKvInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    const uint64_t keys = uint64_t(kv.kvHeads) * kv.keyDim;
    if (kv.valueDim != 0)
      return expect({f32(keys), f32(uint64_t(kv.kvHeads) * kv.valueDim)});
    const uint64_t values = buffer(i.value).width;
    if (values % kv.kvHeads != 0 || values >= keys)
      return invalidInput("values of ", values, " elements in keys of ", keys,
                          ", expected fewer, and a multiple of ", kv.kvHeads, " heads");
    return expect({f32(keys - values), f32(values)});
  }
  Status operator()(const AttendInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    MOERT_ASSIGN_OR_RETURN(const uint32_t valueDim, attendedDim(kv, i));
    if (i.chunked && i.window == 0)
      return invalidInput("chunks of 0 positions, expected at least 1");
    return expect(
        {f32(uint64_t(i.heads) * kv.keyDim), f32(uint64_t(i.heads) * valueDim), f32(i.heads)});
  }
  Status operator()(const AttendRangeInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    MOERT_ASSIGN_OR_RETURN(const uint32_t valueDim, attendedDim(kv, i));
    const bool hasBias = i.positionBias != kNone;
    // Of 4 buckets half are for later positions, and half of those for single distances.
    if (hasBias ? i.buckets < 4 || i.buckets > kMaxPositionBuckets || i.buckets % 4 != 0
                : i.buckets != 0)
      return invalidInput(i.buckets, " buckets of positions, expected a multiple of 4 from 4 to ",
                          kMaxPositionBuckets, " with a bias, and 0 without");
    if (hasBias ? i.maxDistance <= i.buckets / 2 || i.maxDistance > kMaxPositionDistance
                : i.maxDistance != 0)
      return invalidInput("a largest distance of ", i.maxDistance,
                          " positions, expected more than ", i.buckets / 2,
                          ", half of the buckets, and at most ", kMaxPositionDistance,
                          " with a bias, and 0 without");
    return expect({f32(uint64_t(i.heads) * kv.keyDim), f32(uint64_t(i.heads) * valueDim),
                   f32(uint64_t(i.buckets) * i.heads)});
  }
  Status operator()(const EmbedPositionInstruction &i) {
    if (weight(i.weight).format.hasHadamard)
      return invalidInput("the weight has the Hadamard transform, expected rows without it");
    return expect({f32(weight(i.weight).shape.cols)});
  }
  Status operator()(const AddPositionInstruction &i) {
    const uint64_t angles = artifact.ropes[i.rope].inverseFrequencies.size();
    return expect({f32(2 * angles)});
  }
  Status operator()(const ChooseKeysInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkIndexSlot(i));
    const KvSlot &kv = artifact.kvSlots[i.slot];
    return expect({f32(uint64_t(i.heads) * kv.keyDim),
                   f32(kv.keyDim),
                   f32(i.heads),
                   {BufferKind::kI32, buffer(i.dst).width}});
  }
  Status operator()(const AttendChosenInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    MOERT_ASSIGN_OR_RETURN(const uint32_t valueDim, attendedDim(kv, i));
    return expect({f32(uint64_t(i.heads) * kv.keyDim),
                   {BufferKind::kI32, buffer(i.chosen).width},
                   f32(uint64_t(i.heads) * valueDim)});
  }
  Status operator()(const PoolInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkPools(i.poolTokens));
    const uint64_t width = buffer(i.value).width, dst = buffer(i.dst).width;
    if (width != (i.overlapping ? 2 * dst : dst))
      return invalidInput("values of ", width, " elements, results of ", dst,
                          ", expected half as many if pools overlap and otherwise as many");
    MOERT_RETURN_IF_ERROR(checkState(artifact.stateSlots[i.slot], i.overlapping ? 6 : 3, dst));
    return expect({f32(width), f32(width), f32(dst), f32(width * i.poolTokens)});
  }
  Status operator()(const RopePartInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkPools(i.poolTokens));
    const uint64_t pairs = artifact.ropes[i.rope].inverseFrequencies.size();
    if (i.first > i.headDim || pairs > (i.headDim - i.first) / 2 || pairs > kMostPartPairs)
      return invalidInput("rope ", i.rope, " has ", pairs, " frequencies, heads of ", i.headDim,
                          " elements from element ", i.first, " on, expected room for them, and ",
                          "at most ", kMostPartPairs);
    return expect({f32(uint64_t(i.heads) * i.headDim)});
  }
  Status operator()(const StoreKeyInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    if (kv.kvHeads > 2 || kv.valueDim != 0)
      return invalidInput("the slot has ", kv.kvHeads, " heads with values of ", kv.valueDim,
                          " elements, expected one or two heads without values");
    return expect({f32(kv.keyDim)});
  }
  Status operator()(const ChoosePoolsInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkPools(i.poolTokens));
    const uint64_t width = buffer(i.dst).width;
    if (i.window == 0 ? (width + 1) % i.poolTokens != 0 || width < i.poolTokens : width <= i.window)
      return invalidInput("a choice of ", width, " numbers, with pools of ", i.poolTokens,
                          " tokens and a window of ", i.window, ", expected at least one pool");
    MOERT_RETURN_IF_ERROR(checkIndexSlot(i));
    const KvSlot &kv = artifact.kvSlots[i.slot];
    const uint32_t weights = buffer(i.weights).width;
    if (weights < i.heads)
      return invalidInput(weights, " weights of ", i.heads, " heads, expected at least as many");
    return expect({f32(uint64_t(i.heads) * kv.keyDim),
                   f32(kv.keyDim),
                   f32(weights),
                   {BufferKind::kI32, width}});
  }
  Status operator()(const ListPoolsInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkPools(i.poolTokens));
    if (i.window == 0)
      return invalidInput("a window of 0, expected at least 1");
    return expect(
        {{BufferKind::kI32, uint64_t(i.window) + artifact.model.maxPositions / i.poolTokens}});
  }
  Status operator()(const AttendPoolsInstruction &i) {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    if (kv.kvHeads != 2 || kv.valueDim != 0)
      return invalidInput("the slot has ", kv.kvHeads, " heads with values of ", kv.valueDim,
                          " elements, expected two heads without values");
    if (i.heads == 0)
      return invalidInput("0 heads, expected at least 1");
    const Shape row = f32(uint64_t(i.heads) * kv.keyDim);
    return expect({row, {BufferKind::kI32, buffer(i.chosen).width}, row, f32(i.heads)});
  }
  Status operator()(const RepeatRowInstruction &i) {
    MOERT_RETURN_IF_ERROR(streamsOf(i.dst, i.src).status());
    return expect({f32(buffer(i.src).width), f32(buffer(i.dst).width)});
  }
  Status operator()(const MeanStreamsInstruction &i) {
    MOERT_RETURN_IF_ERROR(streamsOf(i.src, i.dst).status());
    return expect({f32(buffer(i.src).width), f32(buffer(i.dst).width)});
  }
  Status operator()(const StreamWeightsInstruction &i) {
    const uint64_t width = buffer(i.src).width, streams = i.streams;
    const bool areAll = width == (2 + streams) * streams;
    if (streams == 0 || streams > kMaxStreams || (!areAll && width != streams))
      return invalidInput(width, " products for ", streams,
                          " streams, expected as many as streams, ", "or the weights of at most ",
                          kMaxStreams);
    if (!(i.epsilon >= 0) || i.iterations == 0)
      return invalidInput("epsilon is ", i.epsilon, " with ", i.iterations,
                          " iterations, expected at least 0 and 1");
    return expect({f32(width), f32(width), f32(areAll ? 3 : 1), f32(width)});
  }
  Status operator()(const MergeStreamsInstruction &i) {
    MOERT_ASSIGN_OR_RETURN(const uint64_t streams, streamsOf(i.src, i.dst));
    const uint64_t weights = buffer(i.weights).width;
    if (weights < streams)
      return invalidInput(weights, " weights of ", streams, " streams, expected at least as many");
    return expect({f32(buffer(i.src).width), f32(weights), f32(buffer(i.dst).width)});
  }
  Status operator()(const UpdateStreamsInstruction &i) {
    MOERT_ASSIGN_OR_RETURN(const uint64_t streams, streamsOf(i.src, i.branch));
    const Shape row = f32(buffer(i.src).width);
    return expect({row, f32(buffer(i.branch).width), f32((2 + streams) * streams), row});
  }
  Status operator()(const DotStreamsInstruction &i) {
    const uint32_t width = buffer(i.a).width, streams = buffer(i.dst).width;
    if (streams > kMaxStreams || width % streams != 0)
      return invalidInput(width, " elements of ", streams,
                          " streams, expected a multiple of at most ", kMaxStreams);
    return expect({f32(width), f32(width), f32(streams)});
  }
  Status operator()(const EmbedNgramsInstruction &i) {
    if (i.tokens < 2 || i.tokens > kMaxNgramTokens || i.heads == 0 || i.leastRows == 0 ||
        i.leastRows > kMaxNgramRows ||
        uint64_t(i.tokens - 1) * i.heads * (uint64_t(i.number) + 1) > kMaxNgramHeads)
      return invalidInput("n-grams of ", i.tokens, " tokens with ", i.heads, " heads of ",
                          i.leastRows, " rows in table ", i.number, ", expected 2 to ",
                          kMaxNgramTokens, " tokens and at most ", kMaxNgramHeads, " heads");
    const ResidentWeight &table = weight(i.weight);
    if (table.format.hasHadamard)
      return invalidInput("the weight has the Hadamard transform, expected rows without it");
    if (const uint64_t rows = NgramRows(i, artifact.model.vocabularySize).total();
        table.shape.rows < rows)
      return invalidInput("a table of ", table.shape.rows, " rows, expected at least ", rows);
    MOERT_RETURN_IF_ERROR(checkState(artifact.stateSlots[i.slot], i.tokens - 1, 1));
    return expect({f32(uint64_t(i.tokens - 1) * i.heads * table.shape.cols)});
  }
  Status operator()(const MaskExpertsInstruction &i) {
    const ResidentWeight &table = weight(i.table);
    if (table.format.kind != WeightKind::kF32)
      return invalidInput("the table is ", nameOf(table.format.kind), ", expected f32");
    if (table.shape.cols > buffer(i.scores).width)
      return invalidInput("rows of ", table.shape.cols, " of ", buffer(i.scores).width, " experts");
    return expect({f32(buffer(i.scores).width)});
  }
  Status operator()(const LinearHeadsInstruction &i) {
    const ResidentWeight &matrix = weight(i.weight);
    const uint32_t rows = matrix.shape.rows, cols = matrix.shape.cols;
    if (isQuantized(matrix.format.kind))
      return invalidInput("the weight is ", nameOf(matrix.format.kind), ", expected floats");
    if (i.heads == 0 || rows % i.heads != 0)
      return invalidInput("the weight has ", rows, " rows for ", i.heads,
                          " heads, expected a multiple");
    return expect({f32(uint64_t(i.heads) * (uint64_t(cols) + i.kept)),
                   f32(uint64_t(i.heads) * (uint64_t(rows / i.heads) + i.kept))});
  }
  Status operator()(const ActivateInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkActivation({i.activation, i.alpha, i.limit}));
    if (!hasGate(i.activation))
      return invalidInput("the activation has no gate, expected one with a gate");
    const Shape row = f32(buffer(i.gate).width);
    return expect({row, row, row});
  }
  Status operator()(const ClampInstruction &i) {
    if (i.limit <= 0)
      return invalidInput("limit is ", i.limit, ", expected more than 0");
    return expect({f32(buffer(i.buffer).width)});
  }
  Status operator()(const RouteInstruction &i) {
    const size_t experts = artifact.moeLayers[i.moeLayer].experts.size();
    const uint32_t topK = buffer(i.experts).width;
    if (i.groups == 0 || i.groups > kMaxRouterGroups || experts % i.groups != 0)
      return invalidInput(i.groups, " groups of ", experts,
                          " experts, expected a divisor of at most ", kMaxRouterGroups);
    if (i.keptGroups == 0 || i.keptGroups > i.groups)
      return invalidInput(i.keptGroups, " of ", i.groups, " groups compete");
    if (const size_t competing = experts / i.groups * i.keptGroups; topK > competing)
      return invalidInput("top ", topK, " of ", competing, " experts");
    MOERT_RETURN_IF_ERROR(checkScoring(i, topK));
    return expect({f32(experts), {BufferKind::kI32, topK}, f32(topK), f32(experts), f32(experts)});
  }
  Status operator()(const ExpertsInstruction &i) {
    const MoeLayer &layer = artifact.moeLayers[i.moeLayer];
    if (layer.experts.front().slices.empty())
      return invalidInput("the experts have no slices");
    const WeightFormat &format = fullSlicesOf(layer.experts.front()).front().format.gateUp;
    const uint32_t topK = buffer(i.experts).width;
    const uint64_t hidden = layer.matrices.back().shape.rows,
                   width = layer.matrices.front().shape.rows;
    const Shape src = inputOf(format, hidden);
    const Shape ranks = f32(topK * roundUp(hidden, kRankRowElements));
    const Shape widths = f32(layer.experts.size() * width),
                outputs = f32(layer.experts.size() * hidden);
    return expect({src,
                   {BufferKind::kI32, topK},
                   f32(topK),
                   f32(hidden),
                   src,
                   f32(width),
                   f32(width),
                   inputOf(format, width),
                   ranks,
                   widths,
                   widths,
                   outputs});
  }
  Status operator()(const PredictInstruction &i) {
    const ResidentWeight &matrix = weight(i.weight);
    const size_t experts = artifact.moeLayers[i.moeLayer].experts.size();
    if (isQuantized(matrix.format.kind))
      return invalidInput("the weight is ", nameOf(matrix.format.kind), ", expected floats");
    if (matrix.shape.rows != experts)
      return invalidInput("the weight has ", matrix.shape.rows, " rows, expected one for each of ",
                          experts, " experts");
    return expect({f32(matrix.shape.cols), f32(experts), f32(experts)});
  }
  Status operator()(const AddInstruction &i) {
    const Shape row = f32(buffer(i.a).width);
    return expect({row, row, row});
  }
  Status operator()(const ScaleInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, row, f32(1)});
  }
  Status operator()(const GateRowsInstruction &i) { return checkHeads(i.src, i.gate); }
  Status operator()(const ScaleRowsInstruction &i) { return checkHeads(i.src, i.factor); }
  Status operator()(const ConvolveInstruction &i) {
    const ResidentWeight &matrix = weight(i.weight);
    const StateSlot &slot = artifact.stateSlots[i.slot];
    const uint32_t width = matrix.shape.rows, taps = matrix.shape.cols;
    if (matrix.format.kind != WeightKind::kF32)
      return invalidInput("the weight is ", nameOf(matrix.format.kind), ", expected f32");
    if (width < kPanelRows || taps < 2)
      return invalidInput("the weight is ", width, " x ", taps, ", expected at least ", kPanelRows,
                          " elements with at least 2 taps");
    const bool isRight = slot.rows != 0 && slot.rows % (taps - 1) == 0;
    MOERT_RETURN_IF_ERROR(checkState(slot, isRight ? slot.rows : taps - 1, width));
    return expect({f32(width), f32(width)});
  }
  Status operator()(const UnitNormInstruction &i) {
    const uint64_t width = buffer(i.buffer).width;
    if (i.epsilon < 0)
      return invalidInput("epsilon is ", i.epsilon, ", expected at least 0");
    if (i.segment == 0 || width % i.segment != 0)
      return invalidInput("segment ", i.segment, ", expected a divisor of the width ", width);
    return expect({f32(width)});
  }
  Status operator()(const DecayInstruction &i) { return checkDecay(i); }
  Status operator()(const BoundedDecayInstruction &i) {
    if (!(i.bound < 0))
      return invalidInput("bound is ", i.bound, ", expected less than 0");
    return checkDecay(i);
  }
  Status operator()(const DeltaRuleInstruction &i) {
    MOERT_ASSIGN_OR_RETURN(const HeadWidths widths,
                           headWidths(i.heads, i.keyHeads, i.key, i.value));
    const uint64_t keys = buffer(i.key).width, values = buffer(i.value).width;
    MOERT_RETURN_IF_ERROR(
        checkState(artifact.stateSlots[i.slot], i.heads * widths.key, widths.value));
    const uint64_t channels = i.heads * widths.key;
    const bool isPerChannel = buffer(i.decay).width == channels;
    return expect({f32(keys), f32(keys), f32(values), f32(isPerChannel ? channels : i.heads),
                   f32(i.heads), f32(values)});
  }
  Status operator()(const ApplyInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, row, row, row});
  }
  Status operator()(const StateSpaceInstruction &i) {
    MOERT_ASSIGN_OR_RETURN(const HeadWidths widths,
                           headWidths(i.heads, i.keyHeads, i.key, i.value));
    MOERT_RETURN_IF_ERROR(
        checkState(artifact.stateSlots[i.slot], i.heads * widths.key, widths.value));
    const Shape keys = f32(buffer(i.key).width), values = f32(buffer(i.value).width);
    return expect({keys, keys, values, f32(i.heads), values, f32(i.heads), f32(i.heads)});
  }
  Status operator()(const SelectiveScanInstruction &i) {
    const ResidentWeight &matrix = weight(i.logRate);
    const uint32_t width = matrix.shape.rows, keys = matrix.shape.cols;
    if (matrix.format.kind != WeightKind::kF32)
      return invalidInput("the rates are ", nameOf(matrix.format.kind), ", expected f32");
    if (width < kPanelRows)
      return invalidInput("rates of ", width, " elements, expected at least ", kPanelRows);
    MOERT_RETURN_IF_ERROR(checkState(artifact.stateSlots[i.slot], keys, width));
    return expect({f32(keys), f32(keys), f32(width), f32(width), f32(width), f32(width)});
  }
  Status operator()(const GateInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, row, row});
  }
  Status operator()(const ScaleByPositionInstruction &i) { return checkPeriod(i); }
  Status operator()(const ScaleByPeriodInstruction &i) { return checkPeriod(i); }
  Status operator()(const ScaleInputInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, f32(1), row});
  }
  Status operator()(const CapacityInstruction &i) {
    if (!(i.capacity > 0))
      return invalidInput("capacity is ", i.capacity, ", expected more than 0");
    if (i.normalizesBefore && i.normalizesAfter)
      return invalidInput("weights that are normalized twice, expected before or after dropping");
    const uint32_t topK = buffer(i.experts).width;
    return expect({{BufferKind::kI32, topK}, f32(topK), f32(1)});
  }
  Status operator()(const PatchesInstruction &i) {
    if (i.channels == 0 || i.channels > kMaxImageSide || i.patch == 0 || i.side == 0 ||
        i.side > kMaxImageSide || i.side % i.patch != 0)
      return invalidInput(i.channels, " channels of ", i.side, " x ", i.side,
                          " pixels in patches of ", i.patch, ", expected 1 to ", kMaxImageSide,
                          " of each, and sides that patches divide");
    const uint64_t grid = i.side / i.patch;
    return expect({rowsOf(f32(uint64_t(i.channels) * i.patch * i.patch), grid * grid)});
  }
  Status operator()(const AttendWindowsInstruction &i) {
    const uint32_t width = buffer(i.dst).width;
    if (i.heads == 0 || width % i.heads != 0)
      return invalidInput(i.heads, " heads, expected a divisor of the width ", width);
    if (i.window == 0 || i.side == 0 || i.side > kMaxImageSide || i.side % i.window != 0 ||
        i.shift >= i.window)
      return invalidInput("windows of ", i.window, " from ", i.shift, " on in a grid of ", i.side,
                          ", expected a divisor of the grid's side, of at most ", kMaxImageSide,
                          ", and a smaller shift");
    const Shape row = rowsOf(f32(width), uint64_t(i.side) * i.side);
    const uint64_t span = 2 * uint64_t(i.window) - 1;
    return expect({row, row, row, row, f32(i.heads * span * span)});
  }
  Status operator()(const MergePatchesInstruction &i) {
    if (i.side == 0 || i.side > kMaxImageSide || i.side % 2 != 0)
      return invalidInput("a grid of ", i.side, ", expected an even side of at most ",
                          kMaxImageSide);
    const uint64_t width = buffer(i.src).width, rows = uint64_t(i.side) * i.side;
    return expect({rowsOf(f32(width), rows), rowsOf(f32(4 * width), rows / 4)});
  }
  Status operator()(const MeanRowsInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, rowsOf(row, 1)});
  }
  Status operator()(const HeadInstruction &i) {
    if (i.softCap < 0)
      return invalidInput("softCap is ", i.softCap, ", expected at least 0");
    const ResidentWeight &matrix = weight(i.weight);
    return expect({inputOf(matrix.format, matrix.shape.cols), f32(matrix.shape.rows)});
  }

  std::vector<Shape> shapes;

private:
  const ResidentWeight &weight(int32_t index) const { return artifact.residents[size_t(index)]; }
  const Buffer &buffer(int32_t index) const { return program.buffers[size_t(index)]; }

  struct HeadWidths {
    uint64_t key, value;
  };
  /// The widths of one head's keys and values, of a recurrence with a state per head.
  Result<HeadWidths> headWidths(uint32_t heads, uint32_t keyHeads, int32_t key,
                                int32_t value) const {
    if (keyHeads == 0 || heads == 0 || heads % keyHeads != 0)
      return invalidInput(heads, " heads over ", keyHeads, " key heads, expected a multiple");
    const uint64_t keys = buffer(key).width, values = buffer(value).width;
    if (keys % keyHeads != 0 || values % heads != 0)
      return invalidInput("keys of ", keys, " and values of ", values, " elements for ", keyHeads,
                          " and ", heads, " heads, expected multiples");
    return HeadWidths{keys / keyHeads, values / heads};
  }

  /// Numbers of heads, runs of src of equal width.
  Status checkHeads(int32_t src, int32_t numbers) {
    const uint32_t width = buffer(src).width, heads = buffer(numbers).width;
    if (heads == 0 || width % heads != 0)
      return invalidInput("gates of ", heads, " heads, expected a divisor of the width ", width);
    return expect({f32(width), f32(heads), f32(width)});
  }

  template <typename Scale> Status checkPeriod(const Scale &i) {
    if (i.period == 0)
      return invalidInput("period is 0, expected at least 1");
    return expect({f32(buffer(i.buffer).width)});
  }

  template <typename Decay> Status checkDecay(const Decay &i) {
    const uint32_t width = buffer(i.src).width, rates = weight(i.logRate).shape.cols;
    if (rates == 0 || width % rates != 0)
      return invalidInput(rates, " rates, expected a divisor of the width ", width);
    const Shape row = f32(width);
    return expect({row, row, f32(rates), row});
  }

  static Status checkPools(uint32_t poolTokens) {
    if (poolTokens == 0)
      return invalidInput("pools of 0 tokens, expected at least 1");
    return {};
  }

  template <typename Choose> Status checkIndexSlot(const Choose &i) const {
    const KvSlot &kv = artifact.kvSlots[i.slot];
    if (kv.kvHeads != 1 || kv.valueDim != 0)
      return invalidInput("the slot has ", kv.kvHeads, " heads with values of ", kv.valueDim,
                          " elements, expected one head without values");
    if (i.heads == 0)
      return invalidInput("0 heads, expected at least 1");
    return {};
  }

  /// How many streams of the width of `one` `all` has.
  Result<uint64_t> streamsOf(int32_t all, int32_t one) const {
    const uint64_t width = buffer(all).width, each = buffer(one).width;
    if (each == 0 || width % each != 0 || width / each > kMaxStreams)
      return invalidInput("streams of ", width, " elements, one of ", each,
                          ", expected a multiple of at most ", kMaxStreams);
    return width / each;
  }

  /// Elements of a value that a head of an attention reads.
  template <typename Attend> Result<uint32_t> attendedDim(const KvSlot &kv, const Attend &i) const {
    if (i.heads == 0 || i.heads % kv.kvHeads != 0)
      return invalidInput(i.heads, " heads, expected a multiple of the slot's ", kv.kvHeads);
    const uint32_t valueDim = valueDimOf(kv, program, i);
    if (valueDim == 0 || (kv.valueDim == 0 && valueDim > kv.keyDim))
      return invalidInput("values of ", valueDim, " elements, expected 1 to the ", kv.keyDim,
                          " of a key, which holds them");
    return valueDim;
  }

  static Status checkState(const StateSlot &slot, uint64_t rows, uint64_t width) {
    if (slot.rows != rows || slot.width != width)
      return invalidInput("the state slot is ", slot.rows, " x ", slot.width, ", expected ", rows,
                          " x ", width);
    return {};
  }

  // Sparsemixer and the choice by scores define weights that nothing else changes.
  static Status checkScoring(const RouteInstruction &i, uint32_t topK) {
    const bool isSparsemixer = i.scoring == RouterScoring::kSparsemixer;
    if (i.tolerance < 0 || (!isSparsemixer && i.tolerance != 0))
      return invalidInput("tolerance is ", i.tolerance,
                          ", expected at least 0 for Sparsemixer and 0 otherwise");
    if (!isSparsemixer && i.scoring != RouterScoring::kTopKThenSigmoid)
      return {};
    if (isSparsemixer && topK != 2)
      return invalidInput("top ", topK, " with Sparsemixer, which chooses 2 experts");
    if (i.renormalize || i.weightScale != 1 || i.choiceBias != kNone || i.groups != 1)
      return invalidInput("Sparsemixer, or a choice by scores, with weights that are renormalized "
                          "or scaled, a bias or groups, expected none of them");
    return {};
  }

  Status expect(std::initializer_list<Shape> list) {
    shapes = list;
    return {};
  }

  const Artifact &artifact;
  const Program &program;
};

} // namespace

Result<std::vector<Shape>> shapesOf(const Artifact &artifact, const Program &program,
                                    const Instruction &instruction) {
  ShapeRules rules(artifact, program);
  Status status;
  visitInstruction(instruction, [&](const auto &content) { status = rules(content); });
  MOERT_RETURN_IF_ERROR(std::move(status));
  return std::move(rules.shapes);
}

} // namespace moert
