// One rule of the format broken at a time: the file is refused, and the message says what was found
// and what was expected. The checksums are right, so that they are not what refuses it.
#include "runtime/format/Reader.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace moert;

using B = TinyBuffers;
using W = TinyWeights;

namespace {

struct Broken {
  const char *what;
  std::function<void(Artifact &)> breakIt;
  const char *message; // Part of it.
};

} // namespace

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

static void checkAllRefused(const std::vector<Broken> &cases) {
  for (const Broken &broken : cases) {
    Artifact artifact = tinyArtifact();
    broken.breakIt(artifact);
    std::vector<std::byte> file = fileOf(artifact);
    auto read = readArtifact(MemorySource("broken.moe", file));
    REQUIRE_MESSAGE(!read.isOk(), broken.what);
    const std::string &message = read.status().message();
    CHECK_MESSAGE(read.status().code() == StatusCode::kInvalidInput, message);
    CHECK_MESSAGE(message.rfind("broken.moe: ", 0) == 0, message);
    CHECK_MESSAGE(message.find(broken.message) != std::string::npos, broken.what, ": ", message);
  }
}

TEST_CASE("broken facts about the model are refused") {
  checkAllRefused({
      {"no vocabulary", [](Artifact &a) { a.model.vocabularySize = 0; },
       "vocabulary size is 0, expected 1 to"},
      {"a vocabulary beyond int32", [](Artifact &a) { a.model.vocabularySize = 0x80000000; },
       "vocabulary size is 2147483648"},
      {"no hidden size", [](Artifact &a) { a.model.hiddenSize = 0; }, "hidden size is 0"},
      {"no layers", [](Artifact &a) { a.model.layers = 0; }, "number of layers is 0"},
      {"too many positions", [](Artifact &a) { a.model.maxPositions = 0xffffffff; },
       "maximum of positions is 4294967295, expected 1 to 1073741824"},
      {"a BOS outside of the vocabulary", [](Artifact &a) { a.model.bosToken = 48; },
       "BOS token 48 is outside of the vocabulary of 48"},
      {"a negative BOS", [](Artifact &a) { a.model.bosToken = -1; }, "BOS token -1"},
      {"a negative EOS",
       [](Artifact &a) {
         a.model.eosTokens = {2, -7};
       },
       "EOS token -7"},
      {"a type that clears the screen", [](Artifact &a) { a.model.modelType = "a\x1b[2J"; },
       "model type is not plain UTF-8"},
      {"a type that is not UTF-8", [](Artifact &a) { a.model.modelType = "\xc3("; },
       "model type is not plain UTF-8"},
      {"a surrogate", [](Artifact &a) { a.model.modelType = "\xed\xa0\x80"; },
       "model type is not plain UTF-8"},
      {"an overlong form", [](Artifact &a) { a.model.modelType = "\xe0\x80\x80"; },
       "model type is not plain UTF-8"},
      {"a control character of the second set", [](Artifact &a) { a.model.modelType = "\xc2\x9b"; },
       "model type is not plain UTF-8"},
      {"a cut sequence", [](Artifact &a) { a.model.modelType = "\xf0\x9f\x98"; },
       "model type is not plain UTF-8"},
      {"a very long type", [](Artifact &a) { a.model.modelType.assign(70000, 'a'); },
       "the model type has 70000 bytes, expected at most 65536"},
      {"a key of provenance twice",
       [](Artifact &a) {
         a.provenance.push_back({"bits", "8"});
       },
       "provenance key 'bits' is there twice"},
      {"a page that is no power of two", [](Artifact &a) { a.pageBytes = 5000; },
       "page size 5000, expected a power of two from 4096 to 1048576"},
      {"a page that is too small", [](Artifact &a) { a.pageBytes = 2048; }, "page size 2048"},
      {"a page that is too large", [](Artifact &a) { a.pageBytes = 1 << 21; }, "page size 2097152"},
  });
}

TEST_CASE("broken resident weights are refused") {
  checkAllRefused({
      {"an unknown kind", [](Artifact &a) { a.residents[0].format.kind = WeightKind(7); },
       "resident weight 0: unknown weight kind 7, this reads 0 to 6"},
      {"a float with groups", [](Artifact &a) { a.residents[1].format.group = 32; },
       "resident weight 1: a f32 matrix has groups or offsets"},
      {"an activation group that no kernel has",
       [](Artifact &a) { a.residents[0].format.activationGroup = 8; },
       "activation group 8, expected 16, 32 or 64"},
      {"a group that the activation group does not divide",
       [](Artifact &a) { a.residents[0].format.group = 48; }, "weight group 48"},
      {"no rows", [](Artifact &a) { a.residents[2].shape.rows = 0; }, "a matrix of 0 x 32"},
      {"a size that does not follow from the shape", [](Artifact &a) { --a.residents[2].bytes; },
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

TEST_CASE("slices that are no planes of one grid are refused") {
  // Expert 0 of layer 1 has planes of 2, 2 and 4 bits.
  auto format = [](Artifact &a, size_t slice) -> WeightFormat & {
    return a.moeLayers[1].experts[0].slices[slice].format;
  };
  checkAllRefused({
      {"a first slice that refines", [&](Artifact &a) { format(a, 0).refines = true; },
       "slice 0 refines another, there is none before it"},
      {"a slice that adds up", [&](Artifact &a) { format(a, 1).refines = false; },
       "slice 1: does not refine the slice before it"},
      {"a refinement with offsets", [&](Artifact &a) { format(a, 1).hasOffsets = true; },
       "slice 1: a refinement with offsets"},
      {"a refinement with other groups", [&](Artifact &a) { format(a, 2).group = 64; },
       "slice 2: groups of 64 and 32, those of the slice that it refines are 32 and 32"},
      {"one bit alone", [&](Artifact &a) { format(a, 0).kind = WeightKind::kInt1; },
       "slice 0: a matrix of int1"},
      {"a float that refines",
       [&](Artifact &a) {
         format(a, 1) = {WeightKind::kF32, 0, 0, false, true};
       },
       "slice 1: a f32 matrix cannot refine another"},
      {"planes that are not known", [&](Artifact &a) { format(a, 1).kind = WeightKind::kInt4; },
       "slices of int2+int4+int4, expected"},
      {"more slices than planes",
       [](Artifact &a) {
         Expert &expert = a.moeLayers[1].experts[0];
         expert.slices.push_back(expert.slices.back());
       },
       "number of slices is 4, expected 1 to 3"},
      {"a resident weight that refines", [](Artifact &a) { a.residents[0].format.refines = true; },
       "resident weight 0: it refines another matrix"},
  });
}

TEST_CASE("one bit in activation groups of 16 is refused") {
  constexpr WeightFormat kBase = {WeightKind::kInt2, 32, 16, false};
  constexpr WeightFormat kOneBit = {WeightKind::kInt1, 32, 16, false, true};
  CHECK(checkSliceFormats(std::vector{kBase}).isOk());
  Status status = checkSliceFormats(std::vector{kBase, kOneBit});
  CHECK(status.message() == "slice 1: int1 with activation group 16, expected 32 or 64");
}

TEST_CASE("broken experts and records are refused") {
  checkAllRefused({
      {"a layer number beyond the model", [](Artifact &a) { a.moeLayers[1].layer = 2; },
       "MoE layer 1: its number is 2, expected 0 to 1"},
      {"a layer twice", [](Artifact &a) { a.moeLayers[1].layer = 0; },
       "its number 0 follows 0, expected ascending layers"},
      {"an unknown activation", [](Artifact &a) { a.moeLayers[0].activation = Activation(9); },
       "unknown activation 9"},
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
         a.moeLayers[0].experts[2].slices[0].format = {WeightKind::kBF16, 0, 0, false};
       },
       "expert 2: slice 0: bf16 with activation group 0, the layer's first expert is int4"},
      {"another activation group",
       [](Artifact &a) { a.moeLayers[0].experts[1].slices[0].format.activationGroup = 16; },
       "expert 1: slice 0: int4 with activation group 16"},
      {"a payload of another size",
       [](Artifact &a) { a.moeLayers[0].experts[1].slices[0].payloadBytes -= 1; },
       "slice 0: the payload is"},
      {"a slice of another size",
       [](Artifact &a) { a.moeLayers[0].experts[1].slices[0].bytes += 4096; },
       "slice 0: the size is"},
      {"a slice off its place",
       [](Artifact &a) { a.moeLayers[1].experts[1].slices[1].offset += 4096; },
       "slice 1: the offset is"},
      {"a record longer than its slices",
       [](Artifact &a) { a.moeLayers[0].experts[1].bytes += 4096; }, "its slices have"},
      {"no variants", [](Artifact &a) { a.moeLayers[0].experts[0].variants.clear(); },
       "expert 0: no variants"},
      {"an empty variant", [](Artifact &a) { a.moeLayers[0].experts[0].variants = {{}}; },
       "variant 0 has no slices"},
      {"a variant of a slice that is not there",
       [](Artifact &a) { a.moeLayers[0].experts[0].variants = {{1}}; },
       "variant 0 names slice 1 where slice 0 is expected"},
      {"a first variant that is not everything",
       [](Artifact &a) {
         a.moeLayers[1].experts[0].variants = {{0, 1}};
       },
       "variant 0 has 2 slices, the expert has 3"},
      {"a variant with more slices than there are",
       [](Artifact &a) {
         a.moeLayers[0].experts[0].variants = {{0, 1}};
       },
       "variant 0 has 2 slices, the expert has 1"},
      {"a variant that leaves a slice out",
       [](Artifact &a) {
         a.moeLayers[1].experts[0].variants[1] = {0, 2};
       },
       "variant 1 names slice 2 where slice 1 is expected"},
      {"a variant with a slice twice",
       [](Artifact &a) {
         a.moeLayers[1].experts[0].variants[1] = {0, 0};
       },
       "variant 1 names slice 0 where slice 1 is expected"},
      {"a record on another",
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
       "name '' is empty or taken"},
      {"a name twice", [](Artifact &a) { a.plans[1].name = "default"; },
       "name 'default' is empty or taken"},
      {"a chunk of nothing", [](Artifact &a) { a.plans[0].prefillChunk = 0; },
       "prefill chunk is 0"},
      {"a chunk beyond reason", [](Artifact &a) { a.plans[0].prefillChunk = 1 << 30; },
       "prefill chunk is 1073741824"},
      {"a context beyond the positions", [](Artifact &a) { a.plans[1].contextTokens = 129; },
       "plan 1: context is 129, expected 1 to 128"},
      {"a quota too many", [](Artifact &a) { a.plans[0].quotaPages.push_back(1); },
       "quotas of 3 layers, expected 2"},
      {"no room for a record", [](Artifact &a) { a.plans[1].transitPages = 0; },
       "its largest record needs"},
      {"a quota beyond all records", [](Artifact &a) { a.plans[0].quotaPages[0] = 1000; },
       "MoE layer 0 has a quota of 1000 pages, all its records need"},
      {"the smaller budget first", [](Artifact &a) { std::swap(a.plans[0], a.plans[1]); },
       "expected the largest first"},
      {"a slot without heads", [](Artifact &a) { a.kvSlots[0].kvHeads = 0; },
       "KV slot 0 has 0 heads"},
      {"a slot of many bytes",
       [](Artifact &a) {
         a.kvSlots[0] = {0xffffffff, 0xffffffff, 1};
       },
       "KV slot 0 needs more than 4294967296 bytes per token"},
      {"slots of many bytes together",
       [](Artifact &a) {
         a.kvSlots.assign(3, {1, 1 << 28, 1 << 28});
       },
       "the KV slots need more than"},
      {"a rope without frequencies", [](Artifact &a) { a.ropes[0].inverseFrequencies.clear(); },
       "rope 0 has no frequencies"},
      {"a frequency that is none", [](Artifact &a) { a.ropes[0].inverseFrequencies[1] = NAN; },
       "not finite"},
      {"an unknown style", [](Artifact &a) { a.ropes[0].style = moert::RopeStyle(2); },
       "unknown rope style 2"},
  });
}

TEST_CASE("broken buffers and lists of programs are refused") {
  checkAllRefused({
      {"only one program", [](Artifact &a) { a.programs.pop_back(); },
       "programs 'decode' and 'prefill' expected, found 1"},
      {"a program twice", [](Artifact &a) { a.programs[1].name = "decode"; },
       "two programs are called 'decode'"},
      {"an unknown program", [](Artifact &a) { a.programs[1].name = "encode"; },
       "unknown program 'encode', this reads 'decode' and 'prefill'"},
      {"no instructions",
       [](Artifact &a) {
         decode(a).instructions.clear();
         decode(a).layers.clear();
       },
       "program decode: 0 instructions"},
      {"an instruction without its layer", [](Artifact &a) { decode(a).layers.pop_back(); },
       "layers of 46 instructions, expected 47"},
      {"an instruction of a layer that is not there", [](Artifact &a) { decode(a).layers[3] = 2; },
       "an instruction of layer 2, expected -1 to 1"},
      {"an unknown kind", [](Artifact &a) { decode(a).buffers[0].kind = BufferKind(3); },
       "buffer 0: unknown buffer kind 3"},
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
      {"an arena beyond reason",
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
      {"a scale that is none",
       [](Artifact &a) { firstOf<EmbedInstruction>(decode(a)).scale = INFINITY; },
       "scale is inf, expected a finite number"},
      {"a destination of another width",
       [](Artifact &a) { firstOf<EmbedInstruction>(decode(a)).dst = B::kScores; },
       "dst has width 4, expected 32"},
      {"a norm in pieces that do not divide",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).segment = 5; },
       "segment 5, expected a divisor of the width 32"},
      {"a norm in pieces of nothing",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).segment = 0; }, "segment 0"},
      {"a norm with a weight of another width",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).weight = W::kHeadNorm; },
       "weight is a 1 x 16 matrix of f32, expected 1 x 32 of f32"},
      {"a negative epsilon", [](Artifact &a) { firstOf<NormInstruction>(decode(a)).epsilon = -1; },
       "epsilon is -1"},
      {"an unknown norm",
       [](Artifact &a) { firstOf<NormInstruction>(decode(a)).kind = NormKind(2); },
       "instruction 1: unknown norm kind 2"},
      {"a quantization to floats",
       [](Artifact &a) { firstOf<QuantizeInstruction>(decode(a)).dst = B::kMixed; },
       "(quantize): dst is f32, expected quantized"},
      {"floats for a quantized weight",
       [](Artifact &a) { firstOf<LinearInstruction>(decode(a)).src = B::kNormed; },
       "(linear): src is f32, expected quantized"},
      {"codes of another group",
       [](Artifact &a) {
         Buffer &codes = decode(a).buffers[B::kCodes];
         codes.group = 16;
         codes.bytesPerToken = bufferBytesPerToken(codes.kind, codes.width, codes.group);
       },
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
      {"an unknown activation",
       [](Artifact &a) { firstOf<ActivateInstruction>(decode(a)).activation = Activation(1); },
       "unknown activation 1, this reads 0 to 0"},
      {"more experts than there are",
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).topK = 5; }, "top 5 of 4 experts"},
      {"no experts", [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).topK = 0; },
       "top 0 of 4 experts"},
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
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).scoring = RouterScoring(1); },
       "unknown router scoring 1"},
      {"scratch that is too narrow",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).ranks = B::kMixed; },
       "ranks has width 32, expected 64"},
      {"no input for the down matrix",
       [](Artifact &a) { firstOf<ExpertsInstruction>(decode(a)).hidden = kNone; },
       "hidden is buffer -1, expected one where the experts (here int4) are quantized"},
      {"a gate of several numbers",
       [](Artifact &a) { firstOf<GateRowsInstruction>(decode(a)).gate = B::kScores; },
       "gate has width 4, expected 1"},
      {"a head of another vocabulary",
       [](Artifact &a) { firstOf<HeadInstruction>(decode(a)).weight = W::kQuery; },
       "(head): the weight has 32 rows, expected one for each of 48 tokens"},
  });
}

TEST_CASE("a program that reads what is not there, or writes what it reads, is refused") {
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
         std::swap(steps[9], steps[10]); // store-kv and attend
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
       [](Artifact &a) { firstOf<RouteInstruction>(decode(a)).moeLayer = 1; },
       "does not hold the routing of MoE layer 0"},
      {"expert numbers that were overwritten",
       [](Artifact &a) {
         // The codes that are made between routing and the experts now lie on the expert numbers.
         Program &program = decode(a);
         program.buffers[B::kExperts].offset = program.buffers[B::kCodes].offset;
       },
       "does not hold the routing of MoE layer 0"},
      {"a residual that a buffer in its place overwrites",
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
      {"what was scratch before",
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

TEST_CASE("in-place operation is allowed where the schedule says so") {
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
  // Attention's result is used up before the router's scores are made.
  program.buffers[B::kScores].offset = program.buffers[B::kAttended].offset;
  std::vector<std::byte> file = fileOf(artifact);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  CHECK_MESSAGE(read.isOk(), read.status().message());
}
