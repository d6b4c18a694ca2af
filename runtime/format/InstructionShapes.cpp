// What an instruction needs beyond its declaration: the shapes of its operands, and ranges of its
// numbers.
#include "runtime/format/ShapeChecks.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/NgramRows.h"
#include "runtime/format/ProgramCheck.h"
#include "runtime/policy/PositionBuckets.h"

#include <vector>

namespace moert {

namespace {

/// Pixels, or rows and columns of a grid of patches.
constexpr uint32_t kMaxImageSide = 4096;

/// Finds the shapes of one instruction's buffers and vectors, in the order of its declaration.
/// Every index in it has been checked.
class ShapeRules : public ShapeChecks {
public:
  using ShapeChecks::ShapeChecks;

  Status operator()(const EmbedInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkTable(weight(i.weight)));
    return expect({f32(weight(i.weight).shape.cols)});
  }
  Status operator()(const NormInstruction &i) {
    const uint64_t width = buffer(i.src).width;
    MOERT_RETURN_IF_ERROR(checkSegments(i.epsilon, i.segment, width));
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
    MOERT_RETURN_IF_ERROR(checkTable(weight(i.weight)));
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
    MOERT_RETURN_IF_ERROR(checkKeySlot(kv, kv.kvHeads <= 2, "one or two heads"));
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
    MOERT_RETURN_IF_ERROR(checkKeySlot(kv, kv.kvHeads == 2, "two heads"));
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
    MOERT_RETURN_IF_ERROR(checkTable(table));
    if (const uint64_t rows = NgramRows(i, artifact.model.vocabularySize).total();
        table.shape.rows < rows)
      return invalidInput("a table of ", table.shape.rows, " rows, expected at least ", rows);
    MOERT_RETURN_IF_ERROR(checkState(artifact.stateSlots[i.slot], i.tokens - 1, 1));
    return expect({f32(uint64_t(i.tokens - 1) * i.heads * table.shape.cols)});
  }
  Status operator()(const MaskExpertsInstruction &i) {
    const ResidentWeight &table = weight(i.table);
    MOERT_RETURN_IF_ERROR(checkF32("the table is ", table));
    if (table.shape.cols > buffer(i.scores).width)
      return invalidInput("rows of ", table.shape.cols, " of ", buffer(i.scores).width, " experts");
    return expect({f32(buffer(i.scores).width)});
  }
  Status operator()(const LinearHeadsInstruction &i) {
    const ResidentWeight &matrix = weight(i.weight);
    const uint32_t rows = matrix.shape.rows, cols = matrix.shape.cols;
    MOERT_RETURN_IF_ERROR(checkFloat(matrix));
    if (i.heads == 0 || rows % i.heads != 0)
      return invalidInput("the weight has ", rows, " rows for ", i.heads,
                          " heads, expected a multiple");
    return expect({f32(uint64_t(i.heads) * (uint64_t(cols) + i.kept)),
                   f32(uint64_t(i.heads) * (uint64_t(rows / i.heads) + i.kept))});
  }
  Status operator()(const ActivateInstruction &i) {
    MOERT_RETURN_IF_ERROR(checkActivation(i));
    if (!hasGate(i.kind))
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
    MOERT_RETURN_IF_ERROR(checkFloat(matrix));
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
    MOERT_RETURN_IF_ERROR(checkF32("the weight is ", matrix));
    if (width < kPanelRows || taps < 2)
      return invalidInput("the weight is ", width, " x ", taps, ", expected at least ", kPanelRows,
                          " elements with at least 2 taps");
    const bool isRight = slot.rows != 0 && slot.rows % (taps - 1) == 0;
    MOERT_RETURN_IF_ERROR(checkState(slot, isRight ? slot.rows : taps - 1, width));
    return expect({f32(width), f32(width)});
  }
  Status operator()(const UnitNormInstruction &i) {
    const uint64_t width = buffer(i.buffer).width;
    MOERT_RETURN_IF_ERROR(checkSegments(i.epsilon, i.segment, width));
    return expect({f32(width)});
  }
  Status operator()(const DecayInstruction &i) { return checkDecay(i); }
  Status operator()(const BoundedDecayInstruction &i) {
    if (!(i.bound < 0))
      return invalidInput("bound is ", i.bound, ", expected less than 0");
    return checkDecay(i);
  }
  Status operator()(const DeltaRuleInstruction &i) {
    MOERT_ASSIGN_OR_RETURN(const uint64_t channels, headRows(i));
    const uint64_t keys = buffer(i.key).width, values = buffer(i.value).width;
    const bool isPerChannel = buffer(i.decay).width == channels;
    return expect({f32(keys), f32(keys), f32(values), f32(isPerChannel ? channels : i.heads),
                   f32(i.heads), f32(values)});
  }
  Status operator()(const ApplyInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, row, row, row});
  }
  Status operator()(const StateSpaceInstruction &i) {
    MOERT_RETURN_IF_ERROR(headRows(i).status());
    const Shape keys = f32(buffer(i.key).width), values = f32(buffer(i.value).width);
    return expect({keys, keys, values, f32(i.heads), values, f32(i.heads), f32(i.heads)});
  }
  Status operator()(const SelectiveScanInstruction &i) {
    const ResidentWeight &matrix = weight(i.logRate);
    const uint32_t width = matrix.shape.rows, keys = matrix.shape.cols;
    MOERT_RETURN_IF_ERROR(checkF32("the rates are ", matrix));
    if (width < kPanelRows)
      return invalidInput("rates of ", width, " elements, expected at least ", kPanelRows);
    MOERT_RETURN_IF_ERROR(checkState(artifact.stateSlots[i.slot], keys, width));
    return expect({f32(keys), f32(keys), f32(width), f32(width), f32(width), f32(width)});
  }
  Status operator()(const GateInstruction &i) {
    const Shape row = f32(buffer(i.src).width);
    return expect({row, row, row});
  }
  Status operator()(const ScaleByPositionInstruction &i) { return checkPeriod(i.period, i.buffer); }
  Status operator()(const ScaleByPeriodInstruction &i) { return checkPeriod(i.period, i.buffer); }
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
