// The rules about programs broken one at a time, as in BrokenArtifactTest.cpp. Long because each
// rule of an instruction has its case.
#include "runtime/format/Reader.h"
#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moert;

using B = TinyBuffers;
using W = TinyWeights;

static Program &decode(Artifact &artifact) {
  return artifact.programs[0];
}

static void insertStep(Program &program, size_t index, const Instruction &step) {
  program.instructions.insert(program.instructions.begin() + ptrdiff_t(index), step);
  program.layers.insert(program.layers.begin() + ptrdiff_t(index), kNone);
}

static void eraseStep(Program &program, size_t index) {
  program.instructions.erase(program.instructions.begin() + ptrdiff_t(index));
  program.layers.erase(program.layers.begin() + ptrdiff_t(index));
}

// Another activation group, with the bytes that it takes.
static void setGroup(Buffer &buffer, uint32_t group) {
  buffer.group = group;
  buffer.bytesPerToken = bufferBytesPerRow(buffer.kind, buffer.width, group);
}

/// Replaces the first attention by one over a range, with a position bias of 16 buckets.
static AttendRangeInstruction &attendRange(Artifact &a) {
  for (Instruction &instruction : decode(a).instructions)
    if (const auto *attend = std::get_if<AttendInstruction>(&instruction))
      return instruction.emplace<AttendRangeInstruction>(
          AttendRangeInstruction{{attend->query, attend->dst, attend->slot, attend->heads, 1},
                                 AttendedRange::kEarlier,
                                 W::kNorm,
                                 16,
                                 32});
  return std::get<AttendRangeInstruction>(decode(a).instructions.front());
}

static CapacityInstruction capacity(float tokens) {
  return {{CapacityKind::kTokens, tokens}, B::kExperts, B::kWeights, B::kScores, 0};
}

TEST_CASE("broken buffers and lists of programs are refused") {
  checkAllRefused({
      {"only one program", [](Artifact &a) { a.programs.pop_back(); },
       "programs 'decode' and 'prefill', with or without 'encode', or 'classify' expected, found "
       "'decode'"},
      {"no programs", [](Artifact &a) { a.programs.clear(); }, "'classify' expected, found none"},
      {"a classifier beside others",
       [](Artifact &a) {
         a.programs.push_back(a.programs[0]);
         a.programs.back().name = "classify";
       },
       "'classify' expected, found 'decode', 'prefill', 'classify'"},
      {"an encoder with logits",
       [](Artifact &a) {
         a.programs.insert(a.programs.begin(), a.programs[0]);
         a.programs.front().name = "encode";
       },
       "the last instruction is head, expected no logits of an encoder"},
      {"a program twice", [](Artifact &a) { a.programs[1].name = "decode"; },
       "two programs have the name 'decode'"},
      {"an unknown program", [](Artifact &a) { a.programs[1].name = "rank"; },
       "unknown program 'rank', this reads 'decode' and 'prefill'"},
      {"no instructions",
       [](Artifact &a) {
         decode(a).instructions.clear();
         decode(a).layers.clear();
       },
       "program decode: 0 instructions"},
      {"an instruction without its layer", [](Artifact &a) { decode(a).layers.pop_back(); },
       "layers of 47 instructions, expected 48"},
      {"an instruction of a layer that is not there", [](Artifact &a) { decode(a).layers[3] = 2; },
       "an instruction of layer 2, expected -1 to 1"},
      {"an unknown kind", [](Artifact &a) { decode(a).buffers[0].kind = BufferKind(4); },
       "buffer 0: unknown buffer kind 4"},
      {"no width", [](Artifact &a) { decode(a).buffers[0].width = 0; }, "buffer 0: width 0"},
      {"a float with a group", [](Artifact &a) { decode(a).buffers[0].group = 32; },
       "group 32 of a f32 buffer"},
      {"a quantized one without a group",
       [](Artifact &a) { decode(a).buffers[B::kCodes].group = 0; },
       "group 0 of a quantized buffer"},
      {"a row of other bytes", [](Artifact &a) { decode(a).buffers[0].bytesPerToken = 64; },
       "64 bytes per token, a f32 row of 32 has 128"},
      {"an offset that is not aligned", [](Artifact &a) { decode(a).buffers[1].offset += 4; },
       "expected a multiple of 64"},
      {"a buffer beyond the arena", [](Artifact &a) { decode(a).arenaBytesPerToken -= 64; },
       "leave the arena of"},
      {"an offset near 2^64", [](Artifact &a) { decode(a).buffers[1].offset = ~uint64_t(63); },
       "leave the arena of"},
      {"an arena that is too large",
       [](Artifact &a) { decode(a).arenaBytesPerToken = uint64_t(1) << 33; },
       "an arena of 8589934592 bytes per token, expected at most 4294967296"},
  });
}

TEST_CASE("an instruction with operands that do not fit is refused") {
  checkAllRefused({
      {"a buffer that is not there", [](Artifact &a) { firstOf<AddInstruction>(decode(a)).b = 17; },
       "b is buffer 17, there are 17"},
      {"a buffer that is needed",
       [](Artifact &a) { firstOf<AddInstruction>(decode(a)).dst = kNone; },
       "(add): dst is buffer -1"},
      {"a weight that is not there",
       [](Artifact &a) { firstOf<LinearInstruction>(decode(a)).weight = 10; },
       "(linear): weight 10, there are 10"},
      {"an embedding of another vocabulary",
       [](Artifact &a) { firstOf<EmbedInstruction>(decode(a)).weight = W::kQuery; },
       "(embed): the weight has 32 rows, expected one for each of 48 tokens"},
      {"a scale that is not finite",
       [](Artifact &a) { firstOf<EmbedInstruction>(decode(a)).scale = INFINITY; },
       "scale is inf, expected a finite number"},
      {"a destination of another width",
       [](Artifact &a) { firstOf<EmbedInstruction>(decode(a)).dst = B::kScores; },
       "dst has width 4, expected 32"},
      {"a norm segment that does not divide the width",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).segment = 5; },
       "segment 5, expected a divisor of the width 32"},
      {"an empty norm segment",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).segment = 0; }, "segment 0"},
      {"a norm with a weight of another width",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).weight = W::kHeadNorm; },
       "weight is a 1 x 16 matrix of f32, expected 1 x 32 of f32"},
      {"a negative epsilon", [](Artifact &a) { firstOf<NormInstruction>(decode(a)).epsilon = -1; },
       "epsilon is -1"},
      {"an unknown norm",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).kind = NormKind(2); },
       "instruction 1: unknown kind 2"},
      {"a quantization to floats",
       [](Artifact &a) { firstOf<QuantizeInstruction>(decode(a)).dst = B::kMixed; },
       "(quantize): dst is f32, expected quantized"},
      {"floats for a quantized weight",
       [](Artifact &a) { firstOf<LinearInstruction>(decode(a)).src = B::kNormed; },
       "(linear): src is f32, expected quantized"},
      {"codes of another group", [](Artifact &a) { setGroup(decode(a).buffers[B::kCodes], 16); },
       "src has group 16, expected 32"},
      {"a bias of another width",
       [](Artifact &a) { firstOf<LinearInstruction>(decode(a)).bias = W::kHeadNorm; },
       "bias is a 1 x 16 matrix of f32, expected 1 x 32"},
      {"heads that do not make up the row",
       [](Artifact &a) { firstOf<RopeInstruction>(decode(a)).heads = 3; },
       "buffer has width 32, expected 48"},
      {"heads of 2^64 elements",
       [](Artifact &a) {
         firstOf<RopeInstruction>(decode(a)).heads = 0xffffffff;
         firstOf<RopeInstruction>(decode(a)).headDim = 0xffffffff;
       },
       "buffer has width 32, expected 18446744065119617025"},
      {"more frequencies than a head has room for",
       [](Artifact &a) { a.ropes[0].inverseFrequencies.resize(9, 1.0f); },
       "rope 0 has 9 frequencies, heads of 16 elements have room for 8"},
      {"a rope that is not there",
       [](Artifact &a) { firstOf<RopeInstruction>(decode(a)).rope = 1; }, "rope 1, there are 1"},
      {"a slot that is not there",
       [](Artifact &a) { firstOf<StoreKvInstruction>(decode(a)).slot = 2; },
       "KV slot 2, there are 2"},
      {"keys of another width",
       [](Artifact &a) { firstOf<StoreKvInstruction>(decode(a)).key = B::kQuery; },
       "key has width 32, expected 16"},
      {"heads that the slot's do not divide",
       [](Artifact &a) {
         a.kvSlots[0] = {4, 4, 4};
       },
       "2 heads, expected a multiple of the slot's 4"},
      {"no heads", [](Artifact &a) { firstOf<AttendInstruction>(decode(a)).heads = 0; }, "0 heads"},
      {"a query of another width",
       [](Artifact &a) { firstOf<AttendInstruction>(decode(a)).heads = 1; },
       "query has width 32, expected 16"},
      {"buckets that are no multiple of 4", [](Artifact &a) { attendRange(a).buckets = 6; },
       "(attend_range): 6 buckets of positions, expected a multiple of 4 from 4 to 256"},
      {"buckets without a bias", [](Artifact &a) { attendRange(a).positionBias = kNone; },
       "(attend_range): 16 buckets of positions"},
      {"a largest distance within the single buckets",
       [](Artifact &a) { attendRange(a).maxDistance = 8; },
       "(attend_range): a largest distance of 8 positions, expected more than 8"},
      {"a position bias of another width",
       [](Artifact &a) { attendRange(a).positionBias = W::kHeadNorm; },
       "(attend_range): positionBias is a 1 x"},
      {"an unknown activation",
       [](Artifact &a) { firstOf<ActivateInstruction>(decode(a)).kind = Activation(7); },
       "unknown activation 7, this reads 0 to 6"},
      {"an activation without its numbers",
       [](Artifact &a) {
         firstOf<ActivateInstruction>(decode(a)).kind = Activation::kClampedSwiglu;
       },
       "(activate): the activation has alpha 0 and limit 0, expected positive numbers"},
      {"an activation with a number that it does not take",
       [](Artifact &a) { firstOf<ActivateInstruction>(decode(a)).alpha = 1; },
       "(activate): the activation has alpha 1 and limit 0, expected 0 and 0"},
      {"a sink for other heads",
       [](Artifact &a) { firstOf<AttendInstruction>(decode(a)).sinks = W::kHeadNorm; },
       "sinks is a 1 x 16 matrix of f32, expected 1 x 2"},
      {"a sink that is not there",
       [](Artifact &a) { firstOf<AttendInstruction>(decode(a)).sinks = 10; },
       "sinks 10, there are 10"},
      {"biases of a gate for other experts",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).gateBias = W::kNorm; },
       "gateBias is a 1 x 32 matrix of f32, expected 1 x 96"},
      {"biases of up for other experts",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).upBias = W::kNorm; },
       "upBias is a 1 x 32 matrix of f32, expected 1 x 96"},
      {"biases of down for other experts",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).downBias = W::kNorm; },
       "downBias is a 1 x 32 matrix of f32, expected 1 x 128"},
      {"more experts than there are",
       [](Artifact &a) {
         decode(a).buffers.push_back({BufferKind::kI32, 5, 0, 0, 64});
         firstOf<RouteInstruction>(decode(a)).experts = 17;
       },
       "top 5 of 4 experts"},
      {"fewer experts than the layer's top-k", [](Artifact &a) { a.moeLayers[0].topK = 3; },
       "(route): top 2, expected the layer's top 3"},
      {"scores of another width",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).scores = B::kNormed; },
       "scores has width 32, expected 4"},
      {"expert numbers as floats",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).experts = B::kWeights; },
       "experts is f32, expected i32"},
      {"a layer that is not there",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).moeLayer = 2; },
       "MoE layer 2, there are 2"},
      {"an unknown scoring",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).scoring = RouterScoring(5); },
       "unknown scoring 5, this reads 0 to 4"},
      {"a negative tolerance",
       [](Artifact &a) {
         firstOf<RouteInstruction>(decode(a)).scoring = RouterScoring::kSparsemixer;
         firstOf<RouteInstruction>(decode(a)).tolerance = -1;
       },
       "tolerance is -1, expected at least 0"},
      {"a tolerance without Sparsemixer",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).tolerance = 0.5f; },
       "tolerance is 0.5, expected at least 0 for Sparsemixer and 0 otherwise"},
      {"Sparsemixer with renormalized weights",
       [](Artifact &a) {
         firstOf<RouteInstruction>(decode(a)).scoring = RouterScoring::kSparsemixer;
       },
       "weights that are renormalized or scaled, a bias or groups"},
      {"a choice by scores with scaled weights",
       [](Artifact &a) {
         auto &route = firstOf<RouteInstruction>(decode(a));
         route.scoring = RouterScoring::kTopKThenSigmoid;
         route.renormalize = false;
         route.weightScale = 2;
       },
       "weights that are renormalized or scaled, a bias or groups"},
      {"Sparsemixer with one expert",
       [](Artifact &a) {
         decode(a).buffers.push_back({BufferKind::kI32, 1, 0, 0, 64});
         auto &route = firstOf<RouteInstruction>(decode(a));
         route.experts = 17;
         route.scoring = RouterScoring::kSparsemixer;
       },
       "top 1 with Sparsemixer, which chooses 2 experts"},
      {"a layer norm without a weight",
       [](Artifact &a) {
         firstOf<NormInstruction>(decode(a)).kind = NormKind::kLayer;
         firstOf<NormInstruction>(decode(a)).weight = kNone;
       },
       "a layer norm without a weight"},
      {"chunks of no size",
       [](Artifact &a) {
         firstOf<AttendInstruction>(decode(a)).window = 0;
         firstOf<AttendInstruction>(decode(a)).chunked = true;
       },
       "chunks of 0 positions"},
      {"a scale by positions with no period",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleByPositionInstruction{{B::kNormed, 0.1f, 0}});
       },
       "period is 0, expected at least 1"},
      {"a scale by periods of no positions",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleByPeriodInstruction{{B::kNormed, 0.1f, 0}});
       },
       "period is 0, expected at least 1"},
      {"factors of more heads than elements",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleRowsInstruction{B::kScores, B::kNormed, B::kScores});
       },
       "expected a divisor of the width"},
      {"a scaled input with the weights of two experts",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleInputInstruction{B::kNormed, B::kWeights, B::kMixed});
       },
       "weights has width 2, expected 1"},
      {"groups of unequal size",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).groups = 3; },
       "3 groups of 4 experts, expected a divisor"},
      {"no groups", [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).groups = 0; },
       "0 groups of 4 experts"},
      {"more groups kept than there are",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).keptGroups = 2; },
       "2 of 1 groups compete"},
      {"more experts than the kept groups have",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).groups = 4; }, "top 2 of 1 experts"},
      {"an unknown group score",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).groupScore = GroupScore(2); },
       "unknown groupScore 2, this reads 0 to 1"},
      {"a choice bias of another width",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).choiceBias = TinyWeights::kNorm; },
       "choiceBias"},
      {"weight factors of another width",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).weightFactors = W::kNorm; },
       "weightFactors is a 1 x 32 matrix of f32, expected 1 x 4"},
      {"a scale by several numbers",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleInstruction{B::kNormed, B::kNormed, W::kNorm, 1});
       },
       "(scale): weight is a 1 x 32 matrix of f32, expected 1 x 1"},
      {"a scale into another width",
       [](Artifact &a) {
         insertStep(decode(a), 2, ScaleInstruction{B::kNormed, B::kScores, kNone, 1});
       },
       "(scale): dst has width 4, expected 32"},
      {"a capacity beside a miss rule",
       [](Artifact &a) {
         insertStep(decode(a), 2, capacity(1));
         a.plans[0].miss.action = MissAction::kSkip;
       },
       "has a miss rule, expected none with experts of limited capacity"},
      {"a capacity of nothing", [](Artifact &a) { insertStep(decode(a), 2, capacity(0)); },
       "(capacity): capacity is 0, expected more than 0"},
      {"weights that are normalized before and after dropping",
       [](Artifact &a) {
         CapacityInstruction limit = capacity(1);
         limit.normalizesBefore = limit.normalizesAfter = true;
         insertStep(decode(a), 2, limit);
       },
       "(capacity): weights that are normalized twice"},
      {"a capacity that passes several numbers",
       [](Artifact &a) { insertStep(decode(a), 2, capacity(1)); },
       "(capacity): passed has width 4, expected 1"},
      {"a negative soft cap", [](Artifact &a) { firstOf<HeadInstruction>(decode(a)).softCap = -1; },
       "(head): softCap is -1, expected at least 0"},
      {"a clamp to nothing",
       [](Artifact &a) {
         insertStep(decode(a), 2, ClampInstruction{B::kNormed, 0});
       },
       "limit is 0, expected more than 0"},
      {"a layer's route before that of an earlier one",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).moeLayer = 1; },
       "MoE layer 1 is routed, expected MoE layer 0: a program routes its MoE layers in order"},
      {"experts with rows that are not quantized",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).src = B::kNormed; },
       "(experts): src is f32, expected quantized"},
      {"scratch that is too narrow",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).ranks = B::kMixed; },
       "ranks has width 32, expected 64"},
      {"no input for the down matrix",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).hidden = kNone; },
       "hidden is buffer -1, expected one where its elements are quantized"},
      {"gates of more heads than elements",
       [](Artifact &a) { firstOf<GateRowsInstruction>(decode(a)).gate = B::kRanks; },
       "(gate_rows): gates of 64 heads, expected a divisor of the width 32"},
      {"a head of another vocabulary",
       [](Artifact &a) { firstOf<HeadInstruction>(decode(a)).weight = W::kQuery; },
       "(head): the weight has 32 rows, expected one for each of 48 tokens"},
  });
}

TEST_CASE("rows with and without the Hadamard transform in each other's place are refused") {
  using H = HadamardBuffers;
  const auto experts = [](Artifact &a, uint32_t layer) -> ExpertsInstruction & {
    for (Instruction &instruction : decode(a).instructions)
      if (auto *found = std::get_if<ExpertsInstruction>(&instruction))
        if (found->moeLayer == layer)
          return *found;
    throw std::string("the program has no experts of the layer");
  };
  // Experts of layer 0 lack the transform, those of layer 1 have it.
  checkAllRefused(
      {{"inputs without it", [&](Artifact &a) { experts(a, 1).src = B::kCodes; },
        "(experts): src is quantized, expected hadamard"},
       {"copies of inputs without it", [&](Artifact &a) { experts(a, 1).gathered = B::kGathered; },
        "(experts): gathered is quantized, expected hadamard"},
       {"inputs of down without it", [&](Artifact &a) { experts(a, 1).hidden = B::kHidden; },
        "(experts): hidden is quantized, expected hadamard"},
       {"inputs with it", [&](Artifact &a) { experts(a, 0).src = H::kCodes; },
        "(experts): src is hadamard, expected quantized"},
       {"copies of inputs with it", [&](Artifact &a) { experts(a, 0).gathered = H::kGathered; },
        "(experts): gathered is hadamard, expected quantized"},
       {"inputs of down with it", [&](Artifact &a) { experts(a, 0).hidden = H::kHidden; },
        "(experts): hidden is hadamard, expected quantized"},
       {"an input of a resident weight with it",
        [](Artifact &a) { decode(a).buffers[B::kCodes].kind = BufferKind::kHadamard; },
        "instruction 3 (linear): src is hadamard, expected quantized"},
       {"a group that no kernel has",
        [](Artifact &a) { setGroup(decode(a).buffers[H::kCodes], 8); },
        "buffer 17: group 8 of a hadamard buffer, expected 16, 32 or 64 where quantized"},
       {"another group", [](Artifact &a) { setGroup(decode(a).buffers[H::kCodes], 16); },
        "(experts): src has group 16, expected 32"},
       {"inputs that are not quantized", [&](Artifact &a) { experts(a, 1).src = B::kNormed; },
        "(experts): src is f32, expected hadamard"}},
      tinyHadamardArtifact());
}

TEST_CASE("a predict instruction that does not fit is refused") {
  auto prefetch = [](Artifact &a) -> PredictInstruction & {
    return firstOf<PredictInstruction>(decode(a));
  };
  // Into a separate buffer that overlaps another one.
  auto prefetchInto = [&](Artifact &a, int32_t other) {
    Program &program = decode(a);
    program.buffers.push_back(program.buffers[B::kScores]);
    program.buffers.back().offset = program.buffers[size_t(other)].offset;
    prefetch(a).scores = 17;
  };
  checkAllRefused({
      {"a layer that is not there", [&](Artifact &a) { prefetch(a).moeLayer = 2; },
       "(predict): MoE layer 2, there are 2"},
      {"a weight that is not there", [&](Artifact &a) { prefetch(a).weight = 10; },
       "(predict): weight 10, there are 10"},
      {"no weight", [&](Artifact &a) { prefetch(a).weight = kNone; }, "(predict): weight -1"},
      {"a quantized weight", [&](Artifact &a) { prefetch(a).weight = W::kQuery; },
       "the weight is int8, expected floats"},
      {"a weight of other experts", [&](Artifact &a) { prefetch(a).weight = W::kSharedGate; },
       "the weight has 1 rows, expected one for each of 4 experts"},
      {"a bias of another width", [&](Artifact &a) { prefetch(a).bias = W::kHeadNorm; },
       "bias is a 1 x 16 matrix of f32, expected 1 x 4"},
      {"the layer itself",
       [&](Artifact &a) {
         prefetch(a).moeLayer = 0;
         prefetch(a).ahead = 0;
       },
       "ahead is 0, expected 1 to 3"},
      {"too far ahead", [&](Artifact &a) { prefetch(a).ahead = 4; }, "ahead is 4, expected 1 to 3"},
      {"another distance", [&](Artifact &a) { prefetch(a).ahead = 2; },
       "MoE layer 1 is predicted 2 ahead after the route of MoE layer 0, expected that of MoE "
       "layer -1"},
      {"after the later layer's own route",
       [&](Artifact &a) {
         Program &program = decode(a);
         insertStep(program, program.instructions.size() - 2, prefetch(a));
       },
       "is predicted 1 ahead after the route of MoE layer 1, expected that of MoE layer 0"},
      {"before any route", [&](Artifact &a) { insertStep(decode(a), 2, prefetch(a)); },
       "is predicted 1 ahead after no route"},
      {"an input of another width", [&](Artifact &a) { prefetch(a).src = B::kGate; },
       "src has width 24, expected 32"},
      {"an input that is quantized", [&](Artifact &a) { prefetch(a).src = B::kCodes; },
       "src is quantized, expected f32"},
      {"an input that holds nothing",
       [&](Artifact &a) {
         decode(a).buffers.push_back(decode(a).buffers[B::kNormed]);
         decode(a).buffers.back().offset = decode(a).buffers[B::kRanks].offset;
         prefetch(a).src = 17;
       },
       "src is buffer 17, which holds no value here"},
      {"an input that is not there", [&](Artifact &a) { prefetch(a).src = 17; },
       "src is buffer 17, there are 17"},
      {"scores of another width", [&](Artifact &a) { prefetch(a).scores = B::kSharedGate; },
       "scores has width 1, expected 4"},
      {"scores as whole numbers", [&](Artifact &a) { prefetch(a).scores = B::kExperts; },
       "scores is i32, expected f32"},
      {"scores that are not there", [&](Artifact &a) { prefetch(a).scores = kNone; },
       "scores is buffer -1, there are 17"},
      {"scores on their own input", [&](Artifact &a) { prefetchInto(a, B::kNormed); },
       "(predict): src and scores share bytes of the arena"},
      {"scores on what the layer chose", [&](Artifact &a) { prefetchInto(a, B::kWeights); },
       "(experts): weights is buffer 9, which holds no value here"},
      {"scores on the residual", [&](Artifact &a) { prefetchInto(a, B::kResidual); },
       "a is buffer 0, which holds no value here"},
      {"scores that an instruction reads",
       [&](Artifact &a) {
         Program &program = decode(a);
         auto &steps = program.instructions;
         for (size_t i = 0; i < steps.size(); ++i)
           if (std::holds_alternative<PredictInstruction>(steps[i])) {
             insertStep(program, i + 1, AddInstruction{B::kScores, B::kScores, B::kScores, 1});
             break;
           }
       },
       "a is buffer 7, which holds no value here"},
  });
}

/// A copy of a buffer at the end of the arena.
static int32_t copyOf(Program &program, int32_t buffer) {
  Buffer copy = program.buffers[size_t(buffer)];
  copy.offset = program.arenaBytesPerToken;
  program.arenaBytesPerToken += copy.bytesPerToken;
  program.buffers.push_back(copy);
  return int32_t(program.buffers.size()) - 1;
}

TEST_CASE("products per head that do not fit are refused") {
  // Beside the router's product, with the same operands.
  const auto insert = [](Artifact &a, const LinearHeadsInstruction &product) {
    std::vector<Instruction> &steps = decode(a).instructions;
    for (size_t i = 0; i < steps.size(); ++i)
      if (std::holds_alternative<RouteInstruction>(steps[i]))
        return insertStep(decode(a), i, product);
  };
  using Heads = LinearHeadsInstruction;
  Artifact valid = tinyArtifact();
  insert(valid, Heads{B::kNormed, B::kScores, W::kRouter, 1, 0});
  CHECK(readBack(valid).isOk());
  checkAllRefused({
      {"a quantized weight",
       [&](Artifact &a) {
         insert(a, {B::kNormed, B::kScores, W::kQuery, 1, 0});
       },
       "(linear_heads): the weight is int8, expected floats"},
      {"no heads",
       [&](Artifact &a) {
         insert(a, {B::kNormed, B::kScores, W::kRouter, 0, 0});
       },
       "the weight has 4 rows for 0 heads, expected a multiple"},
      {"heads that share a row",
       [&](Artifact &a) {
         insert(a, {B::kNormed, B::kScores, W::kRouter, 3, 0});
       },
       "the weight has 4 rows for 3 heads, expected a multiple"},
      {"a row for one of two heads",
       [&](Artifact &a) {
         insert(a, {B::kNormed, B::kScores, W::kRouter, 2, 0});
       },
       "src has width 32, expected 64"},
      {"kept elements that no row holds",
       [&](Artifact &a) {
         insert(a, {B::kNormed, B::kScores, W::kRouter, 1, 0xffffffff});
       },
       "expected 4294967327"},
  });
}

TEST_CASE("choices of keys that cannot be computed are refused") {
  // The first layer's attention over 4 keys, which an indexer of one head chooses.
  const auto choose = [](Artifact &a) -> Program & {
    a.kvSlots.push_back({1, 16, 0});
    for (Program &program : a.programs) {
      const auto chosen = static_cast<int32_t>(program.buffers.size());
      program.buffers.push_back({BufferKind::kI32, 4, 0, program.arenaBytesPerToken, 64});
      program.arenaBytesPerToken += 64;
      size_t at = 0;
      while (!std::holds_alternative<AttendInstruction>(program.instructions[at]))
        ++at;
      const auto attend = std::get<AttendInstruction>(program.instructions[at]);
      program.instructions[at] = AttendChosenInstruction{{attend, chosen}};
      insertStep(program, at,
                 ChooseKeysInstruction{{B::kKey, B::kKey, B::kSharedGate, chosen, 2, 1}});
      insertStep(program, at, LinearInstruction{B::kNormed, B::kSharedGate, W::kSharedGate, kNone});
    }
    return decode(a);
  };
  Artifact valid = tinyArtifact();
  choose(valid);
  CHECK(readBack(valid).isOk());
  checkAllRefused({
      {"a slot with values",
       [&](Artifact &a) {
         choose(a);
         a.kvSlots[2].valueDim = 16;
       },
       "(choose_keys): the slot has 1 heads with values of 16 elements, expected one head"},
      {"no heads", [&](Artifact &a) { firstOf<ChooseKeysInstruction>(choose(a)).heads = 0; },
       "(choose_keys): 0 heads"},
      {"chosen keys as floats",
       [&](Artifact &a) { firstOf<AttendChosenInstruction>(choose(a)).chosen = B::kNormed; },
       "(attend_chosen): chosen is f32, expected i32"},
      {"an attention without heads",
       [&](Artifact &a) { firstOf<AttendChosenInstruction>(choose(a)).heads = 0; },
       "(attend_chosen): 0 heads"},
      {"keys that were never stored",
       [&](Artifact &a) { firstOf<AttendChosenInstruction>(choose(a)).slot = 1; },
       "KV slot 1 has not been stored before"},
      {"keys stored twice",
       [&](Artifact &a) { firstOf<ChooseKeysInstruction>(choose(a)).slot = 0; }, "(choose_keys): "},
  });
}

TEST_CASE("values that are not in their keys are refused") {
  // The stored keys have 16 elements and the values 16, so that they fill keys of 32.
  const auto keepInKeys = [](Artifact &a, uint32_t keyDim) {
    a.kvSlots[0] = {1, keyDim, 0};
    for (Program &program : a.programs)
      firstOf<AttendInstruction>(program).heads = 32 / keyDim;
  };
  Artifact valid = tinyArtifact();
  keepInKeys(valid, 32);
  CHECK(readBack(valid).isOk());
  checkAllRefused({
      {"keys without room for their own part", [&](Artifact &a) { keepInKeys(a, 16); },
       "(store_kv): values of 16 elements in keys of 16, expected fewer"},
      {"keys of another width", [&](Artifact &a) { keepInKeys(a, 31); },
       "(store_kv): key has width 16, expected 15"},
      {"values wider than keys",
       [&](Artifact &a) {
         keepInKeys(a, 32);
         Buffer &attended = decode(a).buffers[B::kAttended];
         attended.width = 33;
         attended.bytesPerToken = bufferBytesPerRow(attended.kind, 33, 0);
       },
       "(attend): values of 33 elements, expected 1 to the 32 of a key"},
      {"more heads than results",
       [&](Artifact &a) {
         keepInKeys(a, 32);
         firstOf<AttendInstruction>(decode(a)).heads = 33;
       },
       "(attend): values of 0 elements, expected 1 to the 32 of a key"},
  });
}

TEST_CASE("joined instructions that cannot be computed together are refused") {
  // Instructions 3, 4 and 5 are the products of query, key and value.
  auto key = [](Artifact &a) -> LinearInstruction & {
    return std::get<LinearInstruction>(decode(a).instructions[4]);
  };
  checkAllRefused({
      {"joined with nothing",
       [](Artifact &a) { firstOf<LinearInstruction>(decode(a)).joined = true; },
       "instruction 3 (linear): joined with an instruction of another kind, source or layer"},
      {"another source",
       [&](Artifact &a) {
         Program &program = decode(a);
         int32_t codes = copyOf(program, B::kCodes);
         insertStep(program, 3, QuantizeInstruction{{B::kNormed, codes}});
         std::get<LinearInstruction>(program.instructions[5]).src = codes;
       },
       "instruction 5 (linear): joined with an instruction of another kind, source or layer"},
      {"another layer", [](Artifact &a) { decode(a).layers[4] = 0; },
       "instruction 4 (linear): joined with an instruction of another kind, source or layer"},
      {"results that overlap",
       [&](Artifact &a) {
         decode(a).buffers[B::kKey].offset = decode(a).buffers[B::kQuery].offset;
       },
       "instruction 4 (linear): its result shares bytes with that of instruction 3"},
      {"too many",
       [&](Artifact &a) {
         Program &program = decode(a);
         for (int i = 0; i < 2; ++i) {
           LinearInstruction more = key(a);
           more.dst = copyOf(program, B::kKey);
           insertStep(program, 4, more);
           program.layers[4] = program.layers[3];
         }
       },
       "instruction 7 (linear): joined with 4 others, expected at most 3"},
  });
}

TEST_CASE("reads that do not begin once between a route and its experts are refused") {
  // In layer 0 they begin after the prediction, in layer 1 after the route.
  auto eraseExperts = [](Program &program, uint32_t layer) {
    for (size_t i = program.instructions.size(); i-- > 0;)
      if (auto *experts = std::get_if<ExpertsInstruction>(&program.instructions[i]))
        if (experts->moeLayer == layer)
          eraseStep(program, i);
  };
  auto prediction = [](Artifact &a) -> PredictInstruction & {
    return firstOf<PredictInstruction>(decode(a));
  };
  checkAllRefused({
      {"never", [&](Artifact &a) { prediction(a).beginsReads = false; },
       "(experts): experts without the beginning of reads"},
      {"before a prediction",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).beginsReads = true; },
       "(predict): a prediction between the beginning of reads and their experts"},
      {"without experts before the next route", [&](Artifact &a) { eraseExperts(decode(a), 0); },
       "(route): a route between the beginning of reads and their experts"},
      {"without experts before the end", [&](Artifact &a) { eraseExperts(decode(a), 1); },
       "the end between the beginning of reads and their experts"},
      {"those of another layer",
       [&](Artifact &a) {
         Program &program = decode(a);
         prediction(a).beginsReads = false;
         const ExpertsInstruction experts = firstOf<ExpertsInstruction>(program);
         eraseExperts(program, 0);
         for (size_t i = 0; i < program.instructions.size(); ++i) {
           auto *route = std::get_if<RouteInstruction>(&program.instructions[i]);
           if (!route || route->moeLayer != 1)
             continue;
           route->experts = copyOf(program, B::kExperts);
           std::get<RouteInstruction>(program.instructions[i]).weights =
               copyOf(program, B::kWeights);
           insertStep(program, i + 1, experts);
           break;
         }
       },
       "(experts): experts of buffer 8, but the reads are of buffer 17"},
  });
}

TEST_CASE("a program that reads an absent value, or overwrites its own input, is refused") {
  checkAllRefused({
      {"no head", [](Artifact &a) { eraseStep(decode(a), decode(a).instructions.size() - 1); },
       "the last instruction is quantize, expected head"},
      {"a head in the middle",
       [](Artifact &a) {
         insertStep(decode(a), decode(a).instructions.size() - 1,
                    HeadInstruction{B::kCodes, W::kEmbedding, kNone, 1});
       },
       "a head ends the program, but 1 instructions follow"},
      {"nothing embedded", [](Artifact &a) { eraseStep(decode(a), 0); },
       "instruction 0 (norm): src is buffer 0, which holds no value here"},
      {"attention before its keys",
       [](Artifact &a) {
         auto &steps = decode(a).instructions;
         std::swap(steps[9], steps[10]); // store_kv and attend
       },
       "KV slot 0 has not been stored before"},
      {"a slot stored twice",
       [](Artifact &a) { insertStep(decode(a), 9, Instruction(decode(a).instructions[9])); },
       "KV slot 0 is stored twice"},
      {"a slot that is never stored",
       [](Artifact &a) {
         a.kvSlots.push_back({1, 16, 16});
       },
       "KV slot 2 is never stored"},
      {"experts of another layer's router",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).moeLayer = 1; },
       "does not hold the routing of MoE layer 1"},
      {"expert numbers that were overwritten",
       [](Artifact &a) {
         // The codes that are written between routing and the experts now overlap the expert
         // numbers.
         Program &program = decode(a);
         program.buffers[B::kExperts].offset = program.buffers[B::kCodes].offset;
       },
       "experts is buffer 8, which holds no value here"},
      {"a residual that an overlapping buffer overwrites",
       [](Artifact &a) {
         decode(a).buffers[B::kScores].offset = decode(a).buffers[B::kResidual].offset;
       },
       "a is buffer 0, which holds no value here"},
      {"a product onto its own input",
       [](Artifact &a) {
         decode(a).buffers[B::kQuery].offset = decode(a).buffers[B::kCodes].offset;
       },
       "(linear): src and dst share bytes of the arena"},
      {"an activation half on its input",
       [](Artifact &a) {
         Program &program = decode(a);
         program.buffers[B::kMixed].offset = program.buffers[B::kNormed].offset + 64;
       },
       "share bytes of the arena"},
      {"scratch on scratch",
       [](Artifact &a) { decode(a).buffers[B::kUp].offset = decode(a).buffers[B::kGate].offset; },
       "(experts): gate and up share bytes"},
      {"a value that was only scratch",
       [](Artifact &a) {
         // The gate's scratch is read as if it held a row.
         Program &program = decode(a);
         auto &steps = program.instructions;
         for (size_t i = 0; i < steps.size(); ++i)
           if (std::holds_alternative<ExpertsInstruction>(steps[i])) {
             insertStep(program, i + 1, AddInstruction{B::kGate, B::kGate, B::kGate, 1});
             break;
           }
       },
       "a is buffer 12, which holds no value here"},
  });
}

TEST_CASE("in-place operation is allowed where the instruction's rule allows it") {
  Artifact artifact = tinyArtifact();
  // The normed row lies where the activation's result will.
  Program &program = decode(artifact);
  firstOf<ActivateInstruction>(program).dst = B::kNormed;
  std::vector<std::byte> file = fileOf(artifact);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  CHECK_MESSAGE(read.isOk(), read.status().message());
}

TEST_CASE("buffers may share bytes when neither is needed while the other is") {
  Artifact artifact = tinyArtifact();
  Program &program = decode(artifact);
  // Attention's result is no longer needed when the router's scores are written.
  program.buffers[B::kScores].offset = program.buffers[B::kAttended].offset;
  std::vector<std::byte> file = fileOf(artifact);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  CHECK_MESSAGE(read.isOk(), read.status().message());
}
