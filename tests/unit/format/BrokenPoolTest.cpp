// The rules about pools of tokens and about several residual streams, broken one at a time.
#include "runtime/format/Writer.h"
#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

using namespace moert;

using B = TinyBuffers;
using W = TinyWeights;

namespace {

// Weights and slots after those of the tiny artifact, and buffers after those of its programs.
constexpr int32_t kProducts = 10, kScale = 11, kBase = 12, kTable = 13, kNgramTable = 14;
constexpr uint32_t kKeys = 2, kIndex = 3, kWindow = 8, kMost = 4;
constexpr int32_t kPooled = 17, kChosen = 18, kAll = 19, kAttended = 20, kStreams = 21, kMean = 22,
                  kMix = 23, kUpdated = 24, kWeights = 25, kDot = 26, kNgrams = 27;

void addBuffer(Program &program, BufferKind kind, uint32_t width) {
  const uint64_t bytes = bufferBytesPerRow(kind, width, 0);
  program.buffers.push_back({kind, width, 0, program.arenaBytesPerToken, bytes});
  program.arenaBytesPerToken += bytes;
}

template <typename T> ptrdiff_t firstPlaceOf(const Program &program) {
  ptrdiff_t at = 0;
  while (!std::holds_alternative<T>(program.instructions[size_t(at)]))
    ++at;
  return at;
}

/// Before the first store: keys of pools of 4 tokens, chosen and attended to; then two streams of
/// 16 elements. Before the first route: a mask of its scores.
void addSteps(Program &program, uint32_t maxPositions) {
  const Instruction steps[] = {
      PoolInstruction{B::kKey, B::kValue, kPooled, kNone, 0, 4},
      RopePartInstruction{kPooled, 1, 16, 0, 0, 4},
      StoreKeyInstruction{B::kKey, kKeys, 0},
      StoreKeyInstruction{kPooled, kKeys, 4},
      LinearInstruction{B::kNormed, B::kSharedGate, W::kSharedGate, kNone},
      ChoosePoolsInstruction{{B::kKey, kPooled, B::kSharedGate, kChosen, kIndex, 1}, 4, kWindow},
      ListPoolsInstruction{kAll, 4, kWindow},
      AttendPoolsInstruction{{{B::kQuery, kAttended, kKeys, 2, 0.25f}, kChosen}},
      RepeatRowInstruction{{B::kKey, kStreams}},
      MeanStreamsInstruction{{kStreams, kMean}},
      LinearInstruction{kStreams, kMix, kProducts, kNone},
      StreamWeightsInstruction{kMix, kMix, kScale, kBase, 2, 3, 1e-6f},
      MergeStreamsInstruction{kStreams, kMix, kMean},
      UpdateStreamsInstruction{kStreams, kMean, kMix, kUpdated},
      DotStreamsInstruction{kStreams, kUpdated, kDot, 0.5f},
      EmbedNgramsInstruction{kNgrams, kNgramTable, 1, 2, 2, 3, 1, 7, 2},
  };
  for (const auto &[kind, width] : std::initializer_list<std::pair<BufferKind, uint32_t>>{
           {BufferKind::kF32, 16},
           {BufferKind::kI32, kWindow + kMost},
           {BufferKind::kI32, kWindow + maxPositions / 4},
           {BufferKind::kF32, 32},
           {BufferKind::kF32, 32},
           {BufferKind::kF32, 16},
           {BufferKind::kF32, 8},
           {BufferKind::kF32, 32}})
    addBuffer(program, kind, width);
  for (const uint32_t width : {8, 2, 8})
    addBuffer(program, BufferKind::kF32, width);
  const auto insert = [&](ptrdiff_t at, std::span<const Instruction> added) {
    program.instructions.insert(program.instructions.begin() + at, added.begin(), added.end());
    program.layers.insert(program.layers.begin() + at, added.size(), 1);
  };
  insert(firstPlaceOf<StoreKvInstruction>(program), steps);
  const Instruction mask[] = {MaskExpertsInstruction{B::kScores, kTable}};
  insert(firstPlaceOf<RouteInstruction>(program), mask);
}

Artifact artifactWithPools() {
  Artifact artifact = tinyArtifact();
  artifact.residents.push_back({"products", {8, 32}, {WeightKind::kF32}});
  artifact.residents.push_back({"scale", {1, 3}, {WeightKind::kF32}});
  artifact.residents.push_back({"base", {1, 8}, {WeightKind::kF32}});
  artifact.residents.push_back({"table", {48, 2}, {WeightKind::kF32}});
  artifact.kvSlots.push_back({2, 16, 0});
  artifact.kvSlots.push_back({1, 16, 0});
  // Heads of 7 and of 11 rows, after those of 3 and 5 of table 0.
  artifact.residents.push_back({"n-grams", {18, 4}, {WeightKind::kF32}});
  artifact.stateSlots = {{3, 16}, {1, 1}};
  for (Program &program : artifact.programs) {
    addSteps(program, artifact.model.maxPositions);
    // A row of weights cannot replace the products that it is made from.
    firstOf<StreamWeightsInstruction>(program).dst = kWeights;
    firstOf<MergeStreamsInstruction>(program).weights = kWeights;
    firstOf<UpdateStreamsInstruction>(program).weights = kWeights;
  }
  REQUIRE(layOutArtifact(artifact, {kTinyTokenizerBytes}).isOk());
  return artifact;
}

template <typename T> T &ofDecode(Artifact &artifact) {
  return firstOf<T>(artifact.programs[0]);
}

} // namespace

TEST_CASE("pools, streams and masks of experts survive a round trip") {
  Artifact artifact = artifactWithPools();
  CHECK_MESSAGE(readBack(artifact).isOk(), readBack(artifact).message());
}

TEST_CASE("pools that do not fit are refused") {
  checkAllRefused(
      {{"pools of no tokens", [](Artifact &a) { ofDecode<PoolInstruction>(a).poolTokens = 0; },
        "(pool): pools of 0 tokens"},
       {"values that do not overlap",
        [](Artifact &a) { ofDecode<PoolInstruction>(a).overlapping = true; },
        "(pool): values of 16 elements, results of 16, expected half as many"},
       {"another state", [](Artifact &a) { a.stateSlots[0].rows = 6; },
        "(pool): the state slot is 6 x 16, expected 3 x 16"},
       {"a rotation beyond the head",
        [](Artifact &a) { ofDecode<RopePartInstruction>(a).first = 17; },
        "(rope_part): rope 0 has"},
       {"a rotation of pools of no tokens",
        [](Artifact &a) { ofDecode<RopePartInstruction>(a).poolTokens = 0; },
        "(rope_part): pools of 0 tokens"},
       {"a slot of three heads", [](Artifact &a) { a.kvSlots[kKeys].kvHeads = 3; },
        "(store_key): the slot has 3 heads with values of 0 elements, expected one or two"},
       {"pools' keys before the tokens'",
        [](Artifact &a) { ofDecode<StoreKeyInstruction>(a).poolTokens = 4; },
        "(store_key): KV slot 2 has not been stored before"},
       {"tokens' keys twice", [](Artifact &a) { ofDecode<StoreKeyInstruction>(a).slot = 0; },
        "(store_key): "},
       {"a choice of no pools",
        [](Artifact &a) { ofDecode<ChoosePoolsInstruction>(a).window = kWindow + kMost; },
        "(choose_pools): a choice of 12 numbers, with pools of 4 tokens and a window of 12"},
       {"a choice without a window of another width",
        [](Artifact &a) { ofDecode<ChoosePoolsInstruction>(a).window = 0; },
        "(choose_pools): a choice of 12 numbers, with pools of 4 tokens and a window of 0"},
       {"an index of two heads",
        [](Artifact &a) { ofDecode<ChoosePoolsInstruction>(a).slot = kKeys; },
        "(choose_pools): the slot has 2 heads"},
       {"no heads", [](Artifact &a) { ofDecode<ChoosePoolsInstruction>(a).heads = 0; },
        "(choose_pools): 0 heads"},
       {"a list without a window",
        [](Artifact &a) { ofDecode<ListPoolsInstruction>(a).window = 0; },
        "(list_pools): a window of 0"},
       {"a list of another width",
        [](Artifact &a) { ofDecode<ListPoolsInstruction>(a).window = 9; },
        "(list_pools): dst has width"},
       {"an attention to one head of keys",
        [](Artifact &a) { ofDecode<AttendPoolsInstruction>(a).slot = kIndex; },
        "(attend_pools): the slot has 1 heads"},
       {"an attention without heads",
        [](Artifact &a) { ofDecode<AttendPoolsInstruction>(a).heads = 0; },
        "(attend_pools): 0 heads"}},
      artifactWithPools());
}

TEST_CASE("streams and masks that do not fit are refused") {
  checkAllRefused(
      {{"a row that its streams are no multiple of",
        [](Artifact &a) { ofDecode<RepeatRowInstruction>(a).src = B::kGate; },
        "(repeat_row): streams of 32 elements, one of 24, expected a multiple"},
       {"a mean wider than its streams",
        [](Artifact &a) { ofDecode<MeanStreamsInstruction>(a).src = kMix; }, "(mean_streams): "},
       {"weights of other streams",
        [](Artifact &a) { ofDecode<StreamWeightsInstruction>(a).streams = 3; },
        "(stream_weights): 8 products for 3 streams"},
       {"no iterations", [](Artifact &a) { ofDecode<StreamWeightsInstruction>(a).iterations = 0; },
        "(stream_weights): epsilon is"},
       {"a negative epsilon",
        [](Artifact &a) { ofDecode<StreamWeightsInstruction>(a).epsilon = -1; },
        "(stream_weights): epsilon is -1"},
       {"a scale of other parts",
        [](Artifact &a) { ofDecode<StreamWeightsInstruction>(a).scale = kBase; },
        "(stream_weights): scale is a 1 x 8 matrix"},
       {"fewer weights than streams",
        [](Artifact &a) { ofDecode<MergeStreamsInstruction>(a).weights = B::kSharedGate; },
        "(merge_streams): 1 weights of 2 streams"},
       {"weights without a matrix",
        [](Artifact &a) { ofDecode<UpdateStreamsInstruction>(a).weights = B::kScores; },
        "(update_streams): weights has width 4, expected 8"},
       {"more streams than there may be",
        [](Artifact &a) { ofDecode<DotStreamsInstruction>(a).dst = kAttended; },
        "(dot_streams): 32 elements of 32 streams, expected a multiple of at most 16"},
       {"streams of other elements",
        [](Artifact &a) { ofDecode<DotStreamsInstruction>(a).b = kMean; },
        "(dot_streams): b has width 16, expected 32"},
       {"n-grams of one token", [](Artifact &a) { ofDecode<EmbedNgramsInstruction>(a).tokens = 1; },
        "(embed_ngrams): n-grams of 1 tokens"},
       {"n-grams of too many heads",
        [](Artifact &a) { ofDecode<EmbedNgramsInstruction>(a).number = 128; },
        "(embed_ngrams): n-grams of 2 tokens with 2 heads of 3 rows in table 128"},
       {"n-grams of more rows", [](Artifact &a) { ofDecode<EmbedNgramsInstruction>(a).number = 2; },
        "(embed_ngrams): a table of 18 rows, expected at least 30"},
       {"n-grams without the last tokens", [](Artifact &a) { a.stateSlots[1].rows = 2; },
        "(embed_ngrams): the state slot is 2 x 1, expected 1 x 1"},
       {"more experts than there are",
        [](Artifact &a) { ofDecode<MaskExpertsInstruction>(a).table = W::kEmbedding; },
        "(mask_experts): "},
       {"a table of other tokens",
        [](Artifact &a) { ofDecode<MaskExpertsInstruction>(a).table = kScale; },
        "(mask_experts): the weight has 1 rows, expected one for each of 48 tokens"}},
      artifactWithPools());
}
