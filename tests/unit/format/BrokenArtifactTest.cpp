// One rule of the format broken at a time: the file is refused, and the message has the found and
// the expected value. The checksums are right, so that a rule refuses the file, not a checksum.
#include "runtime/format/Writer.h"
#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moert;

/// In the formats of all matrices.
template <typename T>
static void set(ExpertFormat &format, T WeightFormat::*member, std::type_identity_t<T> value) {
  format.gateUp.*member = format.down.*member = value;
}

/// In all slices.
static void setHadamard(Expert &expert, bool hasHadamard) {
  for (Slice &slice : expert.slices)
    set(slice.format, &WeightFormat::hasHadamard, hasHadamard);
}

TEST_CASE("broken facts about the model are refused") {
  checkAllRefused({
      {"no vocabulary", [](Artifact &a) { a.model.vocabularySize = 0; },
       "model: vocabulary_size is 0, expected 1 to"},
      {"a vocabulary beyond int32", [](Artifact &a) { a.model.vocabularySize = 0x80000000; },
       "model: vocabulary_size is 2147483648"},
      {"no hidden size", [](Artifact &a) { a.model.hiddenSize = 0; }, "model: hidden_size is 0"},
      {"no layers", [](Artifact &a) { a.model.layers = 0; }, "model: layers is 0"},
      {"too many positions", [](Artifact &a) { a.model.maxPositions = 0xffffffff; },
       "model: max_positions is 4294967295, expected 1 to 1073741824"},
      {"a BOS outside of the vocabulary", [](Artifact &a) { a.model.bosToken = 48; },
       "BOS token 48 is outside of the vocabulary of 48"},
      {"a negative BOS", [](Artifact &a) { a.model.bosToken = -1; }, "BOS token -1"},
      {"a negative EOS",
       [](Artifact &a) {
         a.model.eosTokens = {2, -7};
       },
       "EOS token -7"},
      {"a type that clears the screen", [](Artifact &a) { a.model.modelType = "a\x1b[2J"; },
       "model: model_type is not plain UTF-8"},
      {"a type that is not UTF-8", [](Artifact &a) { a.model.modelType = "\xc3("; },
       "model: model_type is not plain UTF-8"},
      {"a surrogate", [](Artifact &a) { a.model.modelType = "\xed\xa0\x80"; },
       "model: model_type is not plain UTF-8"},
      {"an overlong form", [](Artifact &a) { a.model.modelType = "\xe0\x80\x80"; },
       "model: model_type is not plain UTF-8"},
      {"a control character of the second set", [](Artifact &a) { a.model.modelType = "\xc2\x9b"; },
       "model: model_type is not plain UTF-8"},
      {"a cut sequence", [](Artifact &a) { a.model.modelType = "\xf0\x9f\x98"; },
       "model: model_type is not plain UTF-8"},
      {"a very long type", [](Artifact &a) { a.model.modelType.assign(70000, 'a'); },
       "model: model_type has 70000 bytes, expected at most 65536"},
      {"a provenance key twice",
       [](Artifact &a) {
         a.provenance.push_back({"bits", "8"});
       },
       "provenance key 'bits' appears twice"},
      {"a page size that is not a power of two", [](Artifact &a) { a.pageBytes = 5000; },
       "page size 5000, expected a power of two from 4096 to 1048576"},
      {"a page that is too small", [](Artifact &a) { a.pageBytes = 2048; }, "page size 2048"},
      {"a page that is too large", [](Artifact &a) { a.pageBytes = 1 << 21; }, "page size 2097152"},
  });
}

TEST_CASE("broken resident weights are refused") {
  checkAllRefused({
      {"an unknown kind", [](Artifact &a) { a.residents[0].format.kind = WeightKind(27); },
       "resident weight 0: unknown weight kind 27, this reads 0 to 26"},
      {"a float with groups", [](Artifact &a) { a.residents[1].format.group = 32; },
       "resident weight 1: a f32 matrix has groups or offsets"},
      {"MXFP4, which only experts have",
       [](Artifact &a) { a.residents[2].format = floatFormat(WeightKind::kMxfp4); },
       "resident weight 2: it is mxfp4, which only experts are"},
      {"an activation group that no kernel has",
       [](Artifact &a) { a.residents[0].format.activationGroup = 8; },
       "activation group 8, expected 16, 32 or 64"},
      {"a group that the activation group does not divide",
       [](Artifact &a) { a.residents[0].format.group = 48; }, "weight group 48"},
      {"no rows", [](Artifact &a) { a.residents[2].shape.rows = 0; }, "a matrix of 0 x 32"},
      {"a size that does not match the shape", [](Artifact &a) { --a.residents[2].bytes; },
       "resident weight 2: "},
      {"a shape that is too large for its size",
       [](Artifact &a) { a.residents[2].shape.cols *= 2; }, "a 32 x 64 matrix of int8 has"},
      {"a matrix of 2^60 elements",
       [](Artifact &a) {
         a.residents[2].shape = {0x40000000, 0x40000000};
       },
       "expected at most 2^44 elements"},
      {"an offset that is not aligned", [](Artifact &a) { a.residents[3].offset += 64; },
       "expected a multiple of 1024"},
      {"a matrix beyond the section",
       [](Artifact &a) { a.residents[9].offset = a.residents[9].offset + 1024 * 1024; },
       "leave the resident section"},
      {"an offset near 2^64", [](Artifact &a) { a.residents[9].offset = ~uint64_t(1023); },
       "leave the resident section"},
      {"two matrices in one place",
       [](Artifact &a) { a.residents[3].offset = a.residents[2].offset; }, "overlap at offset"},
      {"a name with a line end", [](Artifact &a) { a.residents[0].name = "a\nb"; },
       "resident weight 0: the name is not plain UTF-8"},
  });
}

TEST_CASE("slices that do not form one expert are refused") {
  // Expert 0 of layer 1 has slices of 2, 2 and 4 bits.
  auto format = [](Artifact &a, size_t slice) -> ExpertFormat & {
    return a.moeLayers[1].experts[0].slices[slice].format;
  };
  checkAllRefused({
      {"a first slice that refines",
       [&](Artifact &a) { set(format(a, 0), &WeightFormat::refines, true); },
       "slice 0 refines another, there is none before it"},
      {"a further slice that does not refine",
       [&](Artifact &a) { set(format(a, 1), &WeightFormat::refines, false); },
       "slices of int2+int4, expected"},
      {"a refinement with offsets",
       [&](Artifact &a) { set(format(a, 1), &WeightFormat::hasOffsets, true); },
       "slice 1: a refinement with offsets"},
      {"a refinement with other groups",
       [&](Artifact &a) { set(format(a, 2), &WeightFormat::group, 64); },
       "slice 2: groups of 64 and 32, those of the slice that it refines are 32 and 32"},
      {"one bit alone",
       [&](Artifact &a) { set(format(a, 0), &WeightFormat::kind, WeightKind::kInt1); },
       "slice 0: a matrix of int1"},
      {"a float that refines",
       [&](Artifact &a) {
         format(a, 1) = WeightFormat{WeightKind::kF32, 0, 0, false, true};
       },
       "slice 1: a f32 matrix cannot refine another"},
      {"an unsupported combination of slices",
       [&](Artifact &a) { set(format(a, 1), &WeightFormat::kind, WeightKind::kInt4); },
       "slices of int2+int4+int4, expected"},
      {"an unsupported combination with non-linear codes",
       [&](Artifact &a) {
         format(a, 0) = WeightFormat{WeightKind::kNl2, 32, 32, false};
       },
       "slices of nl2+int2+int4, expected"},
      {"non-linear codes with offsets",
       [&](Artifact &a) {
         format(a, 0) = WeightFormat{WeightKind::kNl2, 32, 32, true};
       },
       "slice 0: a matrix of nl2 that refines another or has offsets, expected neither"},
      {"non-linear codes that refine",
       [&](Artifact &a) {
         format(a, 1) = WeightFormat{WeightKind::kNl2, 32, 32, false, true};
       },
       "slice 1: a matrix of nl2 that refines another or has offsets, expected neither"},
      {"byte scales of a refinement",
       [&](Artifact &a) { set(format(a, 1), &WeightFormat::hasByteScales, true); },
       "slice 1: a matrix with byte scales that refines another or has offsets, expected neither"},
      {"byte scales of a float",
       [&](Artifact &a) {
         format(a, 0) = WeightFormat{WeightKind::kBF16, 0, 0, false, false, true};
       },
       "slice 0: a bf16 matrix with byte scales, expected none"},
      {"several planes that refine",
       [&](Artifact &a) { set(format(a, 1), &WeightFormat::kind, WeightKind::kInt3); },
       "slice 1: a matrix of int3 that refines another, expected int1, int2 or int4"},
      {"a plane after all planes of a kind",
       [&](Artifact &a) { set(format(a, 0), &WeightFormat::kind, WeightKind::kInt5); },
       "slices of int5+int2+int4, expected"},
      {"a resident weight of several planes",
       [](Artifact &a) { a.residents[0].format.kind = WeightKind::kInt6; },
       "resident weight 0: it is int6, which only experts are"},
      {"more slices than allowed",
       [](Artifact &a) {
         Expert &expert = a.moeLayers[1].experts[0];
         expert.slices.push_back(expert.slices.back());
       },
       "number of slices is 4, expected 1 to 3"},
      {"a resident weight that refines", [](Artifact &a) { a.residents[0].format.refines = true; },
       "resident weight 0: it refines another matrix"},
  });
}

TEST_CASE("the Hadamard transform where it cannot be, or where others lack it, is refused") {
  auto format = [](Artifact &a, size_t expert, size_t slice) -> ExpertFormat & {
    return a.moeLayers[1].experts[expert].slices[slice].format;
  };
  checkAllRefused({
      {"an embedding", [](Artifact &a) { a.residents[0].format.hasHadamard = true; },
       "(embed): the weight has the Hadamard transform, expected rows without it"},
      {"a resident weight of floats", [](Artifact &a) { a.residents[1].format.hasHadamard = true; },
       "resident weight 1: a f32 matrix with the Hadamard transform, expected one without"},
      {"one expert of a layer", [](Artifact &a) { setHadamard(a.moeLayers[1].experts[1], true); },
       "MoE layer 1: expert 1: slice 0: has the Hadamard transform, unlike the layer's first "
       "expert"},
      {"down alone", [&](Artifact &a) { format(a, 3, 0).down.hasHadamard = true; },
       "expert 3: slice 0: down has the Hadamard transform, unlike gate and up"},
      {"a refinement alone",
       [&](Artifact &a) { set(format(a, 0, 2), &WeightFormat::hasHadamard, true); },
       "expert 0: slice 2: has the Hadamard transform, unlike the slice that it refines"},
  });
  checkAllRefused(
      {{"one expert without it", [](Artifact &a) { setHadamard(a.moeLayers[1].experts[1], false); },
        "MoE layer 1: expert 1: slice 0: lacks the Hadamard transform, unlike the layer's first "
        "expert"},
       {"down without it", [&](Artifact &a) { format(a, 3, 0).down.hasHadamard = false; },
        "expert 3: slice 0: down lacks the Hadamard transform, unlike gate and up"},
       {"a refinement without it",
        [&](Artifact &a) { set(format(a, 0, 1), &WeightFormat::hasHadamard, false); },
        "expert 0: slice 1: lacks the Hadamard transform, unlike the slice that it refines"},
       {"down's part of a slice without it, which holds nothing",
        [&](Artifact &a) { format(a, 2, 1).down.hasHadamard = false; },
        "expert 2: slice 1: down lacks the Hadamard transform, unlike gate and up"}},
      tinyHadamardArtifact());
  for (WeightKind kind : {WeightKind::kBF16, WeightKind::kMxfp4}) {
    ExpertFormat floats = floatFormat(kind);
    CHECK(checkSliceFormats(std::vector{floats}).isOk());
    set(floats, &WeightFormat::hasHadamard, true);
    CHECK(checkSliceFormats(std::vector{floats}).message() ==
          strCat("slice 0: a ", nameOf(kind),
                 " matrix with the Hadamard transform, expected one without"));
  }
}

TEST_CASE("low copies have the Hadamard transform as the experts beside them") {
  auto low = [](Artifact &a, size_t expert) -> ExpertFormat & {
    return a.moeLayers[1].experts[expert].slices[0].format;
  };
  Artifact transformed = tinyCopiesArtifact();
  useHadamard(transformed);
  CHECK(readBack(transformed).message() == "");
  checkAllRefused({{"a low copy without it",
                    [&](Artifact &a) { set(low(a, 0), &WeightFormat::hasHadamard, false); },
                    "expert 0: slice 0: lacks the Hadamard transform, unlike the layer's first "
                    "expert"}},
                  transformed);
  checkAllRefused({{"a low copy with it",
                    [&](Artifact &a) { set(low(a, 1), &WeightFormat::hasHadamard, true); },
                    "expert 1: slice 0: has the Hadamard transform, unlike the layer's first "
                    "expert"}},
                  tinyCopiesArtifact());
  checkAllRefused({{"a low copy with it beside floats",
                    [&](Artifact &a) { set(low(a, 2), &WeightFormat::hasHadamard, true); },
                    "expert 2: a low copy with the Hadamard transform beside floats, expected "
                    "none"}},
                  tinyFloatCopiesArtifact());
}

TEST_CASE("slices that do not form two copies are refused") {
  auto format = [](Artifact &a, size_t expert, size_t slice) -> ExpertFormat & {
    return a.moeLayers[1].experts[expert].slices[slice].format;
  };
  checkAllRefused(
      {{"a third copy",
        [&](Artifact &a) {
          format(a, 1, 2) = WeightFormat{WeightKind::kInt8, 32, 32};
        },
        "slice 2: does not refine the slice before it, expected at most 2 copies"},
       {"a copy that begins with a refinement",
        [&](Artifact &a) { set(format(a, 0, 1), &WeightFormat::refines, true); },
        "slices of int2+int8, expected int2 or nl2 and int1 or int2"},
       {"a low copy of as many bits", [&](Artifact &a) { format(a, 0, 0) = format(a, 0, 1); },
        "a low copy of int8, 8 bits, and a separate one of 8 bits, expected a quantized low copy "
        "of "
        "fewer bits"},
       {"slices of a low copy that are no expert",
        [&](Artifact &a) { set(format(a, 2, 1), &WeightFormat::kind, WeightKind::kInt4); },
        "slices of int2+int4, expected"},
       {"a low copy in another activation group",
        [&](Artifact &a) { set(format(a, 0, 0), &WeightFormat::activationGroup, 16); },
        "slice 0: int2 with activation group 16, the layer's first expert is int8 with activation "
        "group 32"},
       {"floats beside quantized experts",
        [&](Artifact &a) {
          format(a, 0, 1) = floatFormat(WeightKind::kBF16);
          REQUIRE(layOutArtifact(a, {kTinyTokenizerBytes}).isOk());
        },
        "MoE layer 1: expert 1: slice 1: nl2 with activation group 32, the layer's first expert is "
        "bf16"},
       {"a low copy larger than the other one",
        [](Artifact &a) {
          a.pageBytes = 8192;
          REQUIRE(layOutArtifact(a, {kTinyTokenizerBytes}).isOk());
        },
        "expert 2: a low copy of 2 pages, expected at most the 1 of the other copy"},
       {"a low copy that fills no pages",
        [](Artifact &a) { a.moeLayers[1].experts[2].slices[1].bytes -= 4096; },
        "slice 1: the size is 4096, expected 8192"},
       {"a copy of another shape",
        [](Artifact &a) { --a.moeLayers[1].experts[0].slices[1].payloadBytes; },
        "slice 1: the payload is"}},
      tinyCopiesArtifact());
}

TEST_CASE("formats of down that do not fit gate and up are refused") {
  // Layer 1: 4/6 bits in three slices, 4/4 in two, 4/6 in one, 4/2 in two.
  auto down = [](Artifact &a, size_t expert, size_t slice) -> WeightFormat & {
    return a.moeLayers[1].experts[expert].slices[slice].format.down;
  };
  checkAllRefused(
      {{"another activation group", [&](Artifact &a) { down(a, 2, 0).activationGroup = 16; },
        "expert 2: slice 0: gate and up of int4 with activation group 32 and down of int6 with "
        "activation group 16, expected one activation group, or float kinds"},
       {"floats beside codes", [&](Artifact &a) { down(a, 2, 0) = floatFormat(WeightKind::kBF16); },
        "expert 2: slice 0: gate and up of int4"},
       {"a slice that holds nothing", [&](Artifact &a) { down(a, 0, 2).kind = WeightKind::kInt0; },
        "expert 0: slice 2: it holds nothing"},
       {"a first slice without down", [&](Artifact &a) { down(a, 2, 0).kind = WeightKind::kInt0; },
        "expert 2: down: slice 0: a matrix of int0, which exists only as a refinement"},
       {"an unsupported combination of slices",
        [&](Artifact &a) { down(a, 0, 1).kind = WeightKind::kInt1; },
        "expert 0: down: slices of int2+int1+int2, expected"},
       {"a plane after an empty slice",
        [&](Artifact &a) { down(a, 0, 1).kind = WeightKind::kInt0; },
        "expert 0: down: slices of int2+int0+int2, expected"},
       {"a second copy of down alone", [&](Artifact &a) { down(a, 0, 1).refines = false; },
        "expert 0: down: slice 1: does not refine the slice before it"},
       {"a payload that lacks down's bits",
        [](Artifact &a) { --a.moeLayers[1].experts[1].slices[1].payloadBytes; },
        "expert 1: slice 1: the payload is"}},
      tinyWiderDownArtifact());
}

TEST_CASE("a low copy beside a wider down has fewer bits in all matrices together") {
  const WeightFormat two = {WeightKind::kInt2, 32, 32}, four = {WeightKind::kInt4, 32, 32},
                     six = {WeightKind::kInt6, 32, 32};
  CHECK(checkSliceFormats(std::vector<ExpertFormat>{two, {four, six}}).isOk());
  CHECK(checkSliceFormats(std::vector<ExpertFormat>{{two, four}, {four, six}}).isOk());
  const Status status = checkSliceFormats(std::vector<ExpertFormat>{{four, six}, {four, six}});
  CHECK(status.message() == "a low copy of int4, 4 2/3 bits, and a separate one of 4 2/3 bits, "
                            "expected a quantized low copy of fewer bits");
}

TEST_CASE("low copies beside floats are quantized in one activation group") {
  auto format = [](Artifact &a, size_t expert, size_t slice) -> ExpertFormat & {
    return a.moeLayers[1].experts[expert].slices[slice].format;
  };
  checkAllRefused(
      {{"two groups",
        [&](Artifact &a) {
          format(a, 2, 0) = WeightFormat{WeightKind::kInt4, 32, 16};
          REQUIRE(layOutArtifact(a, {kTinyTokenizerBytes}).isOk());
        },
        "expert 2: a low copy with activation group 16, the layer's first one has 32"},
       {"a low copy of floats",
        [&](Artifact &a) { format(a, 2, 0) = floatFormat(WeightKind::kMxfp4); },
        "a low copy of mxfp4, 4 bits, and a separate one of 16 bits, expected a quantized low copy "
        "of fewer bits"},
       {"an integer expert beside them",
        [&](Artifact &a) { a.moeLayers[1].experts[2].slices.pop_back(); },
        "slice 0: int4 with activation group 32, the layer's first expert is mxfp4"}},
      tinyFloatCopiesArtifact());
}

TEST_CASE("non-linear codes in activation groups other than 32 are refused") {
  for (uint32_t group : {16u, 64u}) {
    Status status =
        checkMatrixSlices(std::vector{WeightFormat{WeightKind::kNl4, 64, group, false}});
    CHECK(status.message() ==
          strCat("slice 0: nl4 with activation group ", group, ", expected 32"));
  }
}

TEST_CASE("one bit in activation groups of 16 is refused") {
  constexpr WeightFormat kBase = {WeightKind::kInt2, 32, 16, false};
  constexpr WeightFormat kOneBit = {WeightKind::kInt1, 32, 16, false, true};
  CHECK(checkMatrixSlices(std::vector{kBase}).isOk());
  Status status = checkMatrixSlices(std::vector{kBase, kOneBit});
  CHECK(status.message() == "slice 1: int1 with activation group 16, expected 32 or 64");
  status = checkMatrixSlices(std::vector{WeightFormat{WeightKind::kInt5, 32, 16, false}});
  CHECK(status.message() == "slice 0: int5 with activation group 16, expected 32 or 64");
}

TEST_CASE("experts of blocks with other groups, shapes or neighbours are refused") {
  const auto format = [](Artifact &a) -> ExpertFormat & {
    return a.moeLayers[1].experts[1].slices[0].format;
  };
  checkAllRefused(
      {{"another group", [&](Artifact &a) { format(a).down.group = 64; },
        "expert 1: down: slice 0: a matrix of q4_0 has weight groups of 64 inputs, activation "
        "groups of 0 and no offsets, expected weight groups of 32 alone"},
       {"codes beside them",
        [&](Artifact &a) {
          format(a).down = {WeightKind::kInt4, 32, 32};
        },
        "gate and up of q8_0 with activation group 0 and down of int4 with activation group 32, "
        "expected one activation group, or float kinds"},
       {"inputs that blocks do not divide",
        [&](Artifact &a) { format(a).down = floatFormat(WeightKind::kQ4K); },
        "a matrix of q4_k and 32 inputs, expected a multiple of 256"},
       {"a payload of another size",
        [](Artifact &a) { --a.moeLayers[1].experts[1].slices[0].payloadBytes; },
        "the payload is 4671, expected 4672"}},
      tinyBlocksArtifact());
}

TEST_CASE("experts of MXFP4 with other groups, shapes or neighbours are refused") {
  const auto format = [](Artifact &a) -> ExpertFormat & {
    return a.moeLayers[0].experts[1].slices[0].format;
  };
  checkAllRefused(
      {{"no group", [&](Artifact &a) { set(format(a), &WeightFormat::group, 0); },
        "MoE layer 0: expert 1: slice 0: a matrix of mxfp4 has weight groups of 0 inputs, "
        "activation "
        "groups of 0 and no offsets, expected weight groups of 32 alone"},
       {"another group", [&](Artifact &a) { set(format(a), &WeightFormat::group, 16); },
        "weight groups of 16 inputs"},
       {"activations in int8",
        [&](Artifact &a) { set(format(a), &WeightFormat::activationGroup, 32); },
        "activation groups of 32"},
       {"offsets", [&](Artifact &a) { set(format(a), &WeightFormat::hasOffsets, true); },
        "and offsets, expected"},
       {"one that refines",
        [&](Artifact &a) {
          a.moeLayers[0].experts[1].slices.push_back(a.moeLayers[0].experts[1].slices[0]);
          set(a.moeLayers[0].experts[1].slices[1].format, &WeightFormat::refines, true);
        },
        "slice 1: a mxfp4 matrix cannot refine another"},
       {"a second slice",
        [&](Artifact &a) {
          a.moeLayers[0].experts[1].slices.push_back(
              {WeightFormat{WeightKind::kInt2, 32, 32, false, true}});
        },
        "groups of 32 and 32, those of the slice that it refines are 32 and 0"},
       {"an integer expert among them",
        [&](Artifact &a) {
          format(a) = WeightFormat{WeightKind::kInt4, 32, 32, false};
        },
        "int4 with activation group 32, the layer's first expert is mxfp4"},
       {"inputs that groups do not divide",
        [](Artifact &a) {
          a.moeLayers[0].matrices[0].shape.rows = a.moeLayers[0].matrices[1].shape.rows =
              a.moeLayers[0].matrices[2].shape.cols = 24;
        },
        "a matrix of mxfp4 and 24 inputs, expected a multiple of 32"},
       {"a payload of another size",
        [](Artifact &a) { --a.moeLayers[0].experts[1].slices[0].payloadBytes; },
        "the payload is 5151, expected 5152"}},
      tinyMxfp4Artifact());
}

TEST_CASE("broken experts and records are refused") {
  checkAllRefused({
      {"a layer number beyond the model", [](Artifact &a) { a.moeLayers[1].layer = 2; },
       "MoE layer 1: its number is 2, expected 0 to 1"},
      {"a layer twice", [](Artifact &a) { a.moeLayers[1].layer = 0; },
       "its number 0 follows 0, expected ascending layers"},
      {"an unknown activation", [](Artifact &a) { a.moeLayers[0].activation.kind = Activation(9); },
       "unknown activation 9"},
      {"an activation without numbers that has one",
       [](Artifact &a) { a.moeLayers[0].activation.limit = 7; },
       "MoE layer 0: the activation has alpha 0 and limit 7, expected 0 and 0"},
      {"an activation without its numbers",
       [](Artifact &a) { a.moeLayers[0].activation.kind = Activation::kClampedSwiglu; },
       "MoE layer 0: the activation has alpha 0 and limit 0, expected positive numbers"},
      {"an activation with a number that is not finite",
       [](Artifact &a) {
         a.moeLayers[0].activation = {Activation::kClampedSwiglu, 1.5f, HUGE_VALF};
       },
       "MoE layer 0: the activation has alpha 1.5 and limit inf, expected positive numbers"},
      {"a top-k of 0", [](Artifact &a) { a.moeLayers[1].topK = 0; },
       "MoE layer 1: top-k is 0, expected 1 to 4"},
      {"a top-k beyond the experts", [](Artifact &a) { a.moeLayers[1].topK = 5; },
       "MoE layer 1: top-k is 5, expected 1 to 4"},
      {"an unknown part", [](Artifact &a) { a.moeLayers[0].matrices[1].part = ExpertPart(3); },
       "unknown expert part 3"},
      {"two gates", [](Artifact &a) { a.moeLayers[0].matrices[1].part = ExpertPart::kGate; },
       "matrix 1 is part 0, expected part 1"},
      {"no down matrix", [](Artifact &a) { a.moeLayers[0].matrices.pop_back(); },
       "2 matrices, expected gate, up and down"},
      {"an up matrix of another width",
       [](Artifact &a) { a.moeLayers[0].matrices[1].shape.rows = 8; },
       "matrix 1 is 8 x 32, expected 24 x 32"},
      {"a down matrix that does not fit",
       [](Artifact &a) { a.moeLayers[0].matrices[2].shape.cols = 8; },
       "matrix 2 is 32 x 8, expected 32 x 24"},
      {"no experts", [](Artifact &a) { a.moeLayers[0].experts.clear(); }, "number of experts is 0"},
      {"no slices", [](Artifact &a) { a.moeLayers[0].experts[2].slices.clear(); },
       "expert 2: no slices"},
      {"floats among quantized experts",
       [](Artifact &a) {
         a.moeLayers[0].experts[2].slices[0].format = WeightFormat{WeightKind::kBF16, 0, 0, false};
       },
       "expert 2: slice 0: bf16 with activation group 0, the layer's first expert is int4"},
      {"another activation group",
       [](Artifact &a) {
         set(a.moeLayers[0].experts[1].slices[0].format, &WeightFormat::activationGroup, 16);
       },
       "expert 1: slice 0: int4 with activation group 16"},
      {"a payload of another size",
       [](Artifact &a) { a.moeLayers[0].experts[1].slices[0].payloadBytes -= 1; },
       "slice 0: the payload is"},
      {"a slice of another size",
       [](Artifact &a) { a.moeLayers[0].experts[1].slices[0].bytes += 4096; },
       "slice 0: the size is"},
      {"a slice at a wrong offset",
       [](Artifact &a) { a.moeLayers[1].experts[1].slices[1].offset += 4096; },
       "slice 1: the offset is"},
      {"a record longer than its slices",
       [](Artifact &a) { a.moeLayers[0].experts[1].bytes += 4096; }, "its slices have"},
      {"overlapping records",
       [](Artifact &a) {
         a.moeLayers[0].experts[1].fileOffset = a.moeLayers[0].experts[0].fileOffset;
       },
       "expert 1 is at offset"},
      {"a record outside of its section",
       [](Artifact &a) { a.moeLayers[1].experts[3].fileOffset = uint64_t(1) << 40; },
       "is at offset 1099511627776"},
      {"a record that is not aligned",
       [](Artifact &a) { a.moeLayers[1].experts[3].fileOffset += 1; }, "nothing is before it"},
      {"a section that is longer than its records",
       [](Artifact &a) {
         a.recordsBytes += 4096;
         a.tokenizerOffset += 4096;
       },
       "their section has"},
  });
}

TEST_CASE("broken plans, slots and ropes are refused") {
  checkAllRefused({
      {"no plans", [](Artifact &a) { a.plans.clear(); }, "no plans"},
      {"a plan without a name", [](Artifact &a) { a.plans[0].name = ""; },
       "plan 0: the name is empty"},
      {"a name twice", [](Artifact &a) { a.plans[1].name = "default"; },
       "plan 1: the name 'default' is taken"},
      {"an empty chunk", [](Artifact &a) { a.plans[0].prefillChunk = 0; },
       "prefill_chunk_tokens is 0"},
      {"a chunk that is too large", [](Artifact &a) { a.plans[0].prefillChunk = 1 << 30; },
       "prefill_chunk_tokens is 1073741824"},
      {"a context beyond the positions", [](Artifact &a) { a.plans[1].contextTokens = 129; },
       "plan 1: context_tokens is 129, expected 1 to 128"},
      {"one quota too many", [](Artifact &a) { a.plans[0].quotaPages.push_back(1); },
       "quotas of 3 layers, expected 2"},
      {"no room for a record", [](Artifact &a) { a.plans[1].stagingPages = 0; },
       "its largest record needs"},
      {"a quota beyond all records", [](Artifact &a) { a.plans[0].quotaPages[0] = 1000; },
       "MoE layer 0 has a quota of 1000 pages, all its records need"},
      {"the smaller budget first", [](Artifact &a) { std::swap(a.plans[0], a.plans[1]); },
       "expected the largest first"},
      {"a state without rows",
       [](Artifact &a) {
         a.stateSlots = {{0, 16}};
       },
       "state slot 0 is 0 x 16, expected at least 1 of each"},
      {"a state without width",
       [](Artifact &a) {
         a.stateSlots = {{3, 16}, {3, 0}};
       },
       "state slot 1 is 3 x 0"},
      {"a state of 2^64 elements",
       [](Artifact &a) {
         a.stateSlots = {{0xffffffff, 0xffffffff}};
       },
       "the state slots up to 0 need more than 4294967296 bytes per sequence"},
      {"states that are too large together",
       [](Artifact &a) {
         a.stateSlots.assign(3, {1 << 15, 1 << 14});
       },
       "the state slots up to 2 need more than"},
      {"a slot without heads", [](Artifact &a) { a.kvSlots[0].kvHeads = 0; },
       "KV slot 0 has 0 heads"},
      {"a slot of many bytes",
       [](Artifact &a) {
         a.kvSlots[0] = {0xffffff, 0xffffffff, 1};
       },
       "KV slot 0 needs more than 4294967296 bytes per token"},
      {"slots of int8 with values in keys",
       [](Artifact &a) {
         a.kvSlots[1] = {1, 16, 0, KvKind::kInt8};
       },
       "KV slot 1 keeps values in keys of int8, expected f16 or f32"},
      {"an unknown kind of keys and values", [](Artifact &a) { a.kvSlots[1].kind = KvKind(3); },
       "unknown kind of keys and values 3, this reads 0 to 2"},
      {"slots of many bytes together",
       [](Artifact &a) {
         a.kvSlots.assign(3, {1, 1 << 28, 1 << 28});
       },
       "the KV slots need more than"},
      {"a rope without frequencies", [](Artifact &a) { a.ropes[0].inverseFrequencies.clear(); },
       "rope 0 has no frequencies"},
      {"a frequency that is not a number",
       [](Artifact &a) { a.ropes[0].inverseFrequencies[1] = NAN; }, "not finite"},
      {"a rope with long frequencies of no length",
       [](Artifact &a) { a.ropes[0].longInverseFrequencies = a.ropes[0].inverseFrequencies; },
       "rope 0 has 4 frequencies for more than 0 positions, and 4 for fewer"},
      {"a rope without the frequencies beyond its length",
       [](Artifact &a) { a.ropes[0].originalPositions = 16; },
       "rope 0 has 0 frequencies for more than 16 positions, and 4 for fewer"},
      {"a long frequency that is not a number",
       [](Artifact &a) {
         a.ropes[0].originalPositions = 16;
         a.ropes[0].longInverseFrequencies = {1, 1, INFINITY, 1};
       },
       "not finite"},
      {"an unknown style", [](Artifact &a) { a.ropes[0].style = moert::RopeStyle(2); },
       "unknown rope style 2"},
  });
}
