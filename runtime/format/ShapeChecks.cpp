#include "runtime/format/ShapeChecks.h"

namespace moert {

Shape inputOf(const WeightFormat &format, uint64_t width) {
  if (isQuantized(format.kind))
    return {format.hasHadamard ? BufferKind::kHadamard : BufferKind::kQuantized, width,
            format.activationGroup};
  return f32(width);
}

Status checkTable(const ResidentWeight &table) {
  if (table.format.hasHadamard)
    return invalidInput("the weight has the Hadamard transform, expected rows without it");
  return {};
}

Status checkFloat(const ResidentWeight &matrix) {
  if (isQuantized(matrix.format.kind))
    return invalidInput("the weight is ", nameOf(matrix.format.kind), ", expected floats");
  return {};
}

Status checkF32(const char *what, const ResidentWeight &matrix) {
  if (matrix.format.kind != WeightKind::kF32)
    return invalidInput(what, nameOf(matrix.format.kind), ", expected f32");
  return {};
}

Status checkSegments(float epsilon, uint32_t segment, uint64_t width) {
  if (epsilon < 0)
    return invalidInput("epsilon is ", epsilon, ", expected at least 0");
  if (segment == 0 || width % segment != 0)
    return invalidInput("segment ", segment, ", expected a divisor of the width ", width);
  return {};
}

Status checkPools(uint32_t poolTokens) {
  if (poolTokens == 0)
    return invalidInput("pools of 0 tokens, expected at least 1");
  return {};
}

Status checkKeySlot(const KvSlot &kv, bool hasHeads, const char *expected) {
  if (!hasHeads || kv.valueDim != 0)
    return invalidInput("the slot has ", kv.kvHeads, " heads with values of ", kv.valueDim,
                        " elements, expected ", expected, " without values");
  return {};
}

Status checkState(const StateSlot &slot, uint64_t rows, uint64_t width) {
  if (slot.rows != rows || slot.width != width)
    return invalidInput("the state slot is ", slot.rows, " x ", slot.width, ", expected ", rows,
                        " x ", width);
  return {};
}

Status checkScoring(const RouteInstruction &i, uint32_t topK) {
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

Result<uint64_t> ShapeChecks::headRows(const StateSlot &slot, uint32_t heads, uint32_t keyHeads,
                                       uint64_t keys, uint64_t values) {
  if (keyHeads == 0 || heads == 0 || heads % keyHeads != 0)
    return invalidInput(heads, " heads over ", keyHeads, " key heads, expected a multiple");
  if (keys % keyHeads != 0 || values % heads != 0)
    return invalidInput("keys of ", keys, " and values of ", values, " elements for ", keyHeads,
                        " and ", heads, " heads, expected multiples");
  const uint64_t rows = heads * (keys / keyHeads);
  MOERT_RETURN_IF_ERROR(checkState(slot, rows, values / heads));
  return rows;
}

Status ShapeChecks::checkDecay(const DecayOperands &i) {
  const uint32_t width = buffer(i.src).width, rates = weight(i.logRate).shape.cols;
  if (rates == 0 || width % rates != 0)
    return invalidInput(rates, " rates, expected a divisor of the width ", width);
  const Shape row = f32(width);
  return expect({row, row, f32(rates), row});
}

Status ShapeChecks::checkHeads(int32_t src, int32_t numbers) {
  const uint32_t width = buffer(src).width, heads = buffer(numbers).width;
  if (heads == 0 || width % heads != 0)
    return invalidInput("gates of ", heads, " heads, expected a divisor of the width ", width);
  return expect({f32(width), f32(heads), f32(width)});
}

Status ShapeChecks::checkPeriod(uint32_t period, int32_t scaled) {
  if (period == 0)
    return invalidInput("period is 0, expected at least 1");
  return expect({f32(buffer(scaled).width)});
}

Status ShapeChecks::checkIndexSlot(const ChoiceOperands &i) const {
  const KvSlot &kv = artifact.kvSlots[i.slot];
  MOERT_RETURN_IF_ERROR(checkKeySlot(kv, kv.kvHeads == 1, "one head"));
  if (i.heads == 0)
    return invalidInput("0 heads, expected at least 1");
  return {};
}

Result<uint64_t> ShapeChecks::streamsOf(int32_t all, int32_t one) const {
  const uint64_t width = buffer(all).width, each = buffer(one).width;
  if (each == 0 || width % each != 0 || width / each > kMaxStreams)
    return invalidInput("streams of ", width, " elements, one of ", each,
                        ", expected a multiple of at most ", kMaxStreams);
  return width / each;
}

Result<uint32_t> ShapeChecks::attendedDim(const KvSlot &kv, const AttentionOperands &i) const {
  if (i.heads == 0 || i.heads % kv.kvHeads != 0)
    return invalidInput(i.heads, " heads, expected a multiple of the slot's ", kv.kvHeads);
  const uint32_t valueDim = valueDimOf(kv, program, i);
  if (valueDim == 0 || (kv.valueDim == 0 && valueDim > kv.keyDim))
    return invalidInput("values of ", valueDim, " elements, expected 1 to the ", kv.keyDim,
                        " of a key, which holds them");
  return valueDim;
}

} // namespace moert
