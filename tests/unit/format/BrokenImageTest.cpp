// The rules about images broken one at a time, as in BrokenArtifactTest.cpp.
#include "runtime/format/Writer.h"
#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

/// Resident weights: an embedding of patches, biases of offsets, a product of merged patches, the
/// router of the tiny artifact, a head.
constexpr int32_t kPatches = 0, kBias = 1, kMerge = 2, kRouter = 3, kHead = 4;
/// Buffers, of 16, 4 and 1 rows per token.
constexpr int32_t kPixels = 0, kWide = 1, kAttended = 2, kMerged = 3, kRow = 4, kScores = 5,
                  kExperts = 6, kWeights = 7, kCodes = 8, kMixed = 9, kGathered = 10, kGate = 11,
                  kUp = 12, kHidden = 13, kRanks = 14, kMean = 15;

void addBuffer(Program &program, uint32_t rows, uint32_t width,
               BufferKind kind = BufferKind::kF32) {
  const uint32_t group = isQuantized(kind) ? 32 : 0;
  const uint64_t bytes = bufferBytesPerRow(kind, width, group) * rows;
  program.buffers.push_back({kind, width, group, program.arenaBytesPerToken, bytes});
  program.arenaBytesPerToken += bytes;
}

Program classifyProgram() {
  constexpr auto kQuantized = BufferKind::kQuantized;
  Program program;
  program.name = "classify";
  addBuffer(program, 16, 48);
  for (int i = 0; i < 2; ++i)
    addBuffer(program, 16, 32);
  addBuffer(program, 4, 128);
  addBuffer(program, 4, 32);
  addBuffer(program, 4, 4);
  addBuffer(program, 4, 2, BufferKind::kI32);
  addBuffer(program, 4, 2);
  addBuffer(program, 4, 32, kQuantized);
  addBuffer(program, 4, 32);
  addBuffer(program, 4, 32, kQuantized);
  for (int i = 0; i < 2; ++i)
    addBuffer(program, 4, 24);
  addBuffer(program, 4, 24, kQuantized);
  addBuffer(program, 4, 64);
  addBuffer(program, 1, 32);
  program.instructions = {
      PatchesInstruction{kPixels, 3, 16, 4},
      LinearInstruction{kPixels, kWide, kPatches, kNone},
      AttendWindowsInstruction{kWide, kWide, kWide, kAttended, kBias, 2, 4, 2, 1, 0.25f},
      MergePatchesInstruction{{kAttended, kMerged}, 4},
      LinearInstruction{kMerged, kRow, kMerge, kNone},
      LinearInstruction{kRow, kScores, kRouter, kNone, ProductRole::kRouter},
      RouteInstruction{kScores, kExperts, kWeights, 0, RouterScoring::kSoftmaxThenTopK, true, 1,
                       true},
      QuantizeInstruction{{kRow, kCodes}},
      ExpertsInstruction{kCodes, kExperts, kWeights, kMixed, 0, kGathered, kGate, kUp, kHidden,
                         kRanks},
      MeanRowsInstruction{{kMixed, kMean}},
      HeadInstruction{kMean, kHead, kNone, 1},
  };
  program.layers.assign(program.instructions.size(), 0);
  return program;
}

Artifact visionArtifact() {
  Artifact artifact = tinyArtifact();
  const WeightFormat floats = {WeightKind::kF32, 0, 0, false};
  artifact.residents = {{"patches", {32, 48}, floats},
                        {"bias", {1, 2 * 9}, floats},
                        {"merge", {32, 128}, floats},
                        {"router", {4, 32}, floats},
                        {"head", {artifact.model.vocabularySize, 32}, floats}};
  artifact.moeLayers.resize(1);
  artifact.kvSlots.clear();
  artifact.ropes.clear();
  for (Plan &plan : artifact.plans)
    plan.quotaPages.resize(1);
  artifact.programs = {classifyProgram()};
  REQUIRE(layOutArtifact(artifact, {kTinyTokenizerBytes}).isOk());
  return artifact;
}

template <typename T> T &ofImages(Artifact &artifact) {
  return firstOf<T>(artifact.programs[0]);
}

Buffer &buffer(Artifact &artifact, int32_t number) {
  return artifact.programs[0].buffers[size_t(number)];
}

} // namespace

TEST_CASE("a program of images survives a round trip") {
  Artifact artifact = visionArtifact();
  CHECK_MESSAGE(readBack(artifact).isOk(), readBack(artifact).message());
  CHECK(imagesOf(artifact));
  CHECK_FALSE(imagesOf(tinyArtifact()));
}

TEST_CASE("images and windows of impossible sizes are refused") {
  checkAllRefused(
      {{"patches that do not tile the image",
        [](Artifact &a) { ofImages<PatchesInstruction>(a).patch = 5; },
        "(patches): 3 channels of 16 x 16 pixels in patches of 5"},
       {"no channels", [](Artifact &a) { ofImages<PatchesInstruction>(a).channels = 0; },
        "(patches): 0 channels"},
       {"another width", [](Artifact &a) { ofImages<PatchesInstruction>(a).channels = 2; },
        "(patches): dst has width 48, expected 32"},
       {"windows that do not tile the grid",
        [](Artifact &a) { ofImages<AttendWindowsInstruction>(a).window = 3; },
        "(attend_windows): windows of 3 from 1 on in a grid of 4"},
       {"a shift by a window", [](Artifact &a) { ofImages<AttendWindowsInstruction>(a).shift = 2; },
        "(attend_windows): windows of 2 from 2 on"},
       {"another grid", [](Artifact &a) { ofImages<AttendWindowsInstruction>(a).side = 2; },
        "(attend_windows): query has 16 rows per token"},
       {"heads that do not divide",
        [](Artifact &a) { ofImages<AttendWindowsInstruction>(a).heads = 3; },
        "(attend_windows): 3 heads"},
       {"biases of other windows",
        [](Artifact &a) { ofImages<AttendWindowsInstruction>(a).bias = kMerge; },
        "(attend_windows): bias is a 32 x 128 matrix"},
       {"an odd grid", [](Artifact &a) { ofImages<MergePatchesInstruction>(a).side = 3; },
        "(merge_patches): a grid of 3, expected an even side"},
       {"a grid that is not there",
        [](Artifact &a) { ofImages<MergePatchesInstruction>(a).side = 2; },
        "(merge_patches): src has 16 rows per token"}},
      visionArtifact());
}

TEST_CASE("rows that a token does not have are refused") {
  checkAllRefused(
      {{"fewer rows", [](Artifact &a) { buffer(a, kWide).bytesPerToken /= 2; },
        "(linear): dst has 8 rows per token, of which there are 16 here, expected 16"},
       {"a part of a row", [](Artifact &a) { buffer(a, kWide).bytesPerToken -= 64; },
        "buffer 1: 1984 bytes per token"},
       {"no rows", [](Artifact &a) { buffer(a, kWide).bytesPerToken = 0; },
        "buffer 1: 0 bytes per token"},
       {"rows of a text's token",
        [](Artifact &a) {
          a = tinyArtifact();
          Program &decode = a.programs[0];
          decode.buffers[0].offset = decode.arenaBytesPerToken;
          decode.buffers[0].bytesPerToken *= 2;
          decode.arenaBytesPerToken += decode.buffers[0].bytesPerToken;
        },
        "(embed): dst has 2 rows per token"},
       {"a head of several rows", [](Artifact &a) { ofImages<HeadInstruction>(a).src = kRow; },
        "(head): src has 4 rows per token"},
       {"patches of a text",
        [](Artifact &a) {
          Program classify = a.programs[0];
          a = tinyArtifact();
          a.programs[0].buffers.push_back(
              {BufferKind::kF32, 48, 0, a.programs[0].arenaBytesPerToken, 16 * 192});
          a.programs[0].arenaBytesPerToken += 16 * 192;
          a.programs[0].instructions[0] = classify.instructions[0];
          ofImages<PatchesInstruction>(a).dst = int32_t(a.programs[0].buffers.size()) - 1;
        },
        "(patches): "}},
      visionArtifact());
}
