#include "tests/unit/format/TinyArtifact.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/Writer.h"
#include "runtime/policy/CacheAllotment.h"

#include <cstring>

using namespace moert;

namespace {

constexpr uint32_t kHidden = 32, kVocabulary = 48, kExpertWidth = 24, kExperts = 4, kTopK = 2;
constexpr uint32_t kHeads = 2, kKvHeads = 1, kHeadDim = 16, kGroup = 32;
constexpr WeightFormat kFloat = {WeightKind::kF32, 0, 0, false};
constexpr WeightFormat kInt8 = {WeightKind::kInt8, kGroup, kGroup, false};
constexpr WeightFormat kInt4 = {WeightKind::kInt4, kGroup, kGroup, false};
constexpr WeightFormat kInt2 = {WeightKind::kInt2, kGroup, kGroup, true};

} // namespace

static int32_t addBuffer(Program &program, BufferKind kind, uint32_t width, uint32_t group = 0) {
  uint64_t bytes = bufferBytesPerRow(kind, width, group);
  program.buffers.push_back({kind, width, group, program.arenaBytesPerToken, bytes});
  program.arenaBytesPerToken += bytes;
  return int32_t(program.buffers.size()) - 1;
}

// Adds the buffers in the order of TinyBuffers.
static void addBuffers(Program &program) {
  addBuffer(program, BufferKind::kF32, kHidden);
  addBuffer(program, BufferKind::kF32, kHidden);
  addBuffer(program, BufferKind::kQuantized, kHidden, kGroup);
  addBuffer(program, BufferKind::kF32, kHeads * kHeadDim);
  addBuffer(program, BufferKind::kF32, kKvHeads * kHeadDim);
  addBuffer(program, BufferKind::kF32, kKvHeads * kHeadDim);
  addBuffer(program, BufferKind::kF32, kHeads * kHeadDim);
  addBuffer(program, BufferKind::kF32, kExperts);
  addBuffer(program, BufferKind::kI32, kTopK);
  addBuffer(program, BufferKind::kF32, kTopK);
  addBuffer(program, BufferKind::kF32, kHidden);
  addBuffer(program, BufferKind::kQuantized, kHidden, kGroup);
  addBuffer(program, BufferKind::kF32, kExpertWidth);
  addBuffer(program, BufferKind::kF32, kExpertWidth);
  addBuffer(program, BufferKind::kQuantized, kExpertWidth, kGroup);
  addBuffer(program, BufferKind::kF32, kTopK * kHidden);
  addBuffer(program, BufferKind::kF32, 1);
}

static void addAttention(Program &program, uint32_t layer) {
  using B = TinyBuffers;
  using W = TinyWeights;
  auto &steps = program.instructions;
  steps.push_back(
      NormInstruction{B::kResidual, B::kNormed, W::kNorm, kNone, NormKind::kRms, 1e-6f, kHidden});
  steps.push_back(QuantizeInstruction{{B::kNormed, B::kCodes}});
  steps.push_back(
      LinearInstruction{B::kCodes, B::kQuery, W::kQuery, W::kQueryBias, ProductRole::kAttention});
  steps.push_back(
      LinearInstruction{B::kCodes, B::kKey, W::kKey, kNone, ProductRole::kAttention, true});
  steps.push_back(
      LinearInstruction{B::kCodes, B::kValue, W::kValue, kNone, ProductRole::kAttention, true});
  // Per head, in place.
  steps.push_back(NormInstruction{B::kQuery, B::kQuery, W::kHeadNorm, W::kHeadNorm,
                                  NormKind::kLayer, 1e-6f, kHeadDim});
  steps.push_back(RopeInstruction{B::kQuery, kHeads, kHeadDim, 0});
  steps.push_back(RopeInstruction{B::kKey, kKvHeads, kHeadDim, 0});
  steps.push_back(StoreKvInstruction{B::kKey, B::kValue, layer});
  steps.push_back(AttendInstruction{{B::kQuery, B::kAttended, layer, kHeads, 0.25f}, layer * 8});
  steps.push_back(QuantizeInstruction{{B::kAttended, B::kCodes}});
  steps.push_back(
      LinearInstruction{B::kCodes, B::kMixed, W::kOutput, kNone, ProductRole::kAttention});
  steps.push_back(AddInstruction{B::kResidual, B::kMixed, B::kResidual, 1});
}

static void addNetwork(Program &program, uint32_t layer) {
  using B = TinyBuffers;
  using W = TinyWeights;
  auto &steps = program.instructions;
  steps.push_back(
      NormInstruction{B::kResidual, B::kNormed, W::kNorm, kNone, NormKind::kRms, 1e-6f, kHidden});
  steps.push_back(
      LinearInstruction{B::kNormed, B::kScores, W::kRouter, kNone, ProductRole::kRouter});
  steps.push_back(RouteInstruction{B::kScores, B::kExperts, B::kWeights, layer,
                                   RouterScoring::kSoftmaxThenTopK, true, 1, layer != 0});
  // Both layers share one router; layer 0 reuses the buffer of its scores.
  if (layer == 0)
    steps.push_back(
        PredictInstruction{B::kNormed, B::kScores, W::kRouter, kNone, 1, 1, false, true});
  steps.push_back(QuantizeInstruction{{B::kNormed, B::kCodes}});
  steps.push_back(ExpertsInstruction{B::kCodes, B::kExperts, B::kWeights, B::kMixed, layer,
                                     B::kGathered, B::kGate, B::kUp, B::kHidden, B::kRanks});
  steps.push_back(LinearInstruction{B::kNormed, B::kSharedGate, W::kSharedGate, kNone});
  steps.push_back(GateRowsInstruction{B::kMixed, B::kSharedGate, B::kMixed});
  steps.push_back(ActivateInstruction{{Activation::kSilu}, B::kMixed, B::kNormed, B::kMixed});
  steps.push_back(AddInstruction{B::kResidual, B::kMixed, B::kResidual, 1});
}

static Program tinyProgram(const char *name) {
  using B = TinyBuffers;
  using W = TinyWeights;
  Program program;
  program.name = name;
  addBuffers(program);
  program.instructions.push_back(EmbedInstruction{B::kResidual, W::kEmbedding, 1});
  for (uint32_t layer = 0; layer < 2; ++layer) {
    addAttention(program, layer);
    addNetwork(program, layer);
  }
  program.instructions.push_back(QuantizeInstruction{{B::kResidual, B::kCodes}});
  program.instructions.push_back(HeadInstruction{B::kCodes, W::kEmbedding, kNone, 1});
  program.layers.assign(program.instructions.size(), 1);
  program.layers.front() = program.layers.back() = kNone;
  return program;
}

static WeightFormat refiningSlice(WeightKind kind) {
  return {kind, kGroup, kGroup, false, true};
}

// Layer 0 has experts of one 4-bit slice, layer 1 one expert of each nested width: 8, 3, 4, 2 bits.
static std::vector<WeightFormat> slicesOf(uint32_t layer, uint32_t expert) {
  WeightFormat s1 = refiningSlice(WeightKind::kInt1), s2 = refiningSlice(WeightKind::kInt2),
               s4 = refiningSlice(WeightKind::kInt4);
  const std::vector<WeightFormat> nested[kExperts] = {
      {kInt2, s2, s4}, {kInt2, s1}, {kInt2, s2}, {kInt2}};
  return layer == 0 ? std::vector{kInt4} : nested[expert];
}

static MoeLayer tinyMoeLayer(uint32_t number) {
  MoeLayer layer;
  layer.layer = number;
  layer.topK = kTopK;
  layer.matrices = {{ExpertPart::kGate, {kExpertWidth, kHidden}},
                    {ExpertPart::kUp, {kExpertWidth, kHidden}},
                    {ExpertPart::kDown, {kHidden, kExpertWidth}}};
  for (uint32_t e = 0; e < kExperts; ++e) {
    Expert expert;
    for (const WeightFormat &format : slicesOf(number, e)) {
      Slice slice;
      slice.format = format;
      expert.slices.push_back(slice);
    }
    layer.experts.push_back(expert);
  }
  return layer;
}

static void layOutWithPlans(Artifact &artifact) {
  if (!layOutArtifact(artifact, {kTinyTokenizerBytes}).isOk())
    throw std::string("the tiny artifact cannot be laid out");
  CacheShape::Layer pages[2];
  for (size_t i = 0; i < 2; ++i)
    pages[i] = cacheLayerOf(recordBytesOf(artifact.moeLayers[i]), artifact.pageBytes, kTopK);
  auto most = uint32_t(std::max(pages[0].recordPages, pages[1].recordPages));
  artifact.plans = {
      {"default", 0, 16, 128, most, {uint32_t(pages[0].allPages), uint32_t(pages[1].allPages)}},
      {"1MiB", uint64_t(1) << 20, 4, 64, most, {uint32_t(pages[0].recordPages), 0}}};
}

static Artifact tinyArtifactWithoutChecksums() {
  Artifact artifact;
  artifact.model = {"tiny", kVocabulary, kHidden, 2, 128, 1, {2, 3}};
  artifact.pageBytes = 4096;
  artifact.residents = {
      {"embedding", {kVocabulary, kHidden}, kInt8}, {"norm", {1, kHidden}, kFloat},
      {"q", {kHeads * kHeadDim, kHidden}, kInt8},   {"k", {kKvHeads * kHeadDim, kHidden}, kInt8},
      {"v", {kKvHeads * kHeadDim, kHidden}, kInt8}, {"o", {kHidden, kHeads * kHeadDim}, kInt8},
      {"router", {kExperts, kHidden}, kFloat},      {"q bias", {1, kHeads * kHeadDim}, kFloat},
      {"shared gate", {1, kHidden}, kFloat},        {"head norm", {1, kHeadDim}, kFloat}};
  artifact.moeLayers = {tinyMoeLayer(0), tinyMoeLayer(1)};
  artifact.kvSlots = {{kKvHeads, kHeadDim, kHeadDim}, {kKvHeads, kHeadDim, kHeadDim}};
  artifact.ropes = {{moert::RopeStyle::kHalf, 1, {1, 0.5f, 0.25f, 0.125f}, 0, 0, {}}};
  artifact.programs = {tinyProgram("decode"), tinyProgram("prefill")};
  artifact.provenance = {{"compiler", "moec test"}, {"bits", "4"}};
  layOutWithPlans(artifact);
  return artifact;
}

/// Experts of 32 x 32, whose products take f32 activations: all but one in MXFP4.
static void useMxfp4(Artifact &artifact) {
  using B = TinyBuffers;
  for (MoeLayer &layer : artifact.moeLayers)
    for (ExpertMatrix &matrix : layer.matrices)
      matrix.shape = {kHidden, kHidden};
  for (MoeLayer &layer : artifact.moeLayers)
    for (Expert &expert : layer.experts)
      expert.slices = {{floatFormat(WeightKind::kMxfp4)}};
  artifact.moeLayers[1].experts[2].slices = {{floatFormat(WeightKind::kBF16)}};
  for (Program &program : artifact.programs) {
    for (int32_t index : {B::kGathered, B::kGate, B::kUp}) {
      Buffer &buffer = program.buffers[size_t(index)];
      buffer = {BufferKind::kF32, kHidden, 0, program.arenaBytesPerToken,
                bufferBytesPerRow(BufferKind::kF32, kHidden, 0)};
      program.arenaBytesPerToken += buffer.bytesPerToken;
    }
    for (Instruction &instruction : program.instructions)
      if (auto *experts = std::get_if<ExpertsInstruction>(&instruction)) {
        experts->src = B::kNormed;
        experts->hidden = kNone;
      }
  }
}

Artifact tinyBlocksArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  useMxfp4(artifact);
  for (Expert &expert : artifact.moeLayers[1].experts)
    expert.slices = {
        {ExpertFormat(floatFormat(WeightKind::kQ8x0), floatFormat(WeightKind::kQ4x0))}};
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyMxfp4Artifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  useMxfp4(artifact);
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyByteScalesArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  experts[0].slices = {{WeightFormat{WeightKind::kNl4, kGroup, kGroup, false, false, true}}};
  experts[1].slices = {{WeightFormat{WeightKind::kInt2, kGroup, kGroup, false, false, true}},
                       {WeightFormat{WeightKind::kInt1, kGroup, kGroup, false, true}}};
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

void useHadamard(Artifact &artifact) {
  using H = HadamardBuffers;
  for (Expert &expert : artifact.moeLayers[1].experts)
    for (Slice &slice : expert.slices)
      slice.format.gateUp.hasHadamard = slice.format.down.hasHadamard = true;
  for (Program &program : artifact.programs) {
    addBuffer(program, BufferKind::kHadamard, kHidden, kGroup);
    addBuffer(program, BufferKind::kHadamard, kHidden, kGroup);
    addBuffer(program, BufferKind::kHadamard, kExpertWidth, kGroup);
    QuantizeInstruction *last = nullptr; // It makes the input of the next experts.
    for (Instruction &instruction : program.instructions) {
      if (auto *quantize = std::get_if<QuantizeInstruction>(&instruction))
        last = quantize;
      auto *experts = std::get_if<ExpertsInstruction>(&instruction);
      if (!experts || experts->moeLayer != 1)
        continue;
      last->dst = experts->src = H::kCodes;
      experts->gathered = H::kGathered;
      experts->hidden = H::kHidden;
    }
  }
}

Artifact tinyHadamardArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  const WeightFormat two = {WeightKind::kInt2, kGroup, kGroup};
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  experts[1].slices = {{WeightFormat{WeightKind::kNl4, kGroup, kGroup, false, false, true}}};
  experts[2].slices = {{two},
                       {{refiningSlice(WeightKind::kInt2), refiningSlice(WeightKind::kInt0)}}};
  useHadamard(artifact);
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyNarrowKvArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  artifact.kvSlots[0].kind = KvKind::kF16;
  artifact.kvSlots[1].kind = KvKind::kInt8;
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyWiderDownArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  const WeightFormat two = {WeightKind::kInt2, kGroup, kGroup},
                     four = {WeightKind::kInt4, kGroup, kGroup},
                     none = refiningSlice(WeightKind::kInt0),
                     more = refiningSlice(WeightKind::kInt2);
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  experts[0].slices = {{{two, two}}, {{more, more}}, {{none, more}}};
  experts[1].slices = {{{four, two}}, {{none, more}}};
  experts[2].slices = {{{four, {WeightKind::kInt6, kGroup, kGroup}}}};
  experts[3].slices = {{{two, two}}, {{more, none}}};
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyCopiesArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  const WeightFormat eight = {WeightKind::kInt8, kGroup, kGroup};
  const WeightFormat nonLinear = {WeightKind::kNl2, kGroup, kGroup};
  artifact.pageBytes = 16384;
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  const WeightFormat low = {WeightKind::kInt2, kGroup, kGroup};
  experts[0].slices = {{low}, {eight}};
  experts[1].slices = {{low}, {nonLinear}, {refiningSlice(WeightKind::kInt1)}};
  experts[2].slices = {{low}, {refiningSlice(WeightKind::kInt2)}, {eight}};
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Artifact tinyFloatCopiesArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  useMxfp4(artifact);
  auto addLowCopy = [&](size_t layer, size_t expert, WeightKind kind) {
    std::vector<Slice> &slices = artifact.moeLayers[layer].experts[expert].slices;
    slices.insert(slices.begin(), Slice{WeightFormat{kind, kGroup, kGroup}});
  };
  addLowCopy(0, 0, WeightKind::kInt2);
  addLowCopy(1, 0, WeightKind::kInt2);
  addLowCopy(1, 2, WeightKind::kInt4);
  layOutWithPlans(artifact);
  fileOf(artifact);
  return artifact;
}

Measured tinyMeasured() {
  Measured measured;
  measured.metric = "perplexity";
  measured.target = 0.02;
  measured.loss = 0.0125;
  measured.upperBound = 0.01875;
  measured.klNats = 0.015625;
  measured.topDisagreement = 0.0625;
  measured.confidence = 0.96875;
  measured.units = 3;
  measured.documents = 4;
  measured.unitSpread = 0.0078125;
  measured.isSetAside = true;
  measured.windowTokens = 64;
  measured.solver = "greedy";
  measured.quantizer = "nearest";
  measured.measurements = 12;
  measured.windowsEvaluated = 345;
  measured.calibrationTokens = 6789;
  measured.calibrationTexts = {{"one.txt", 0x0123456789abcdef, 1000, {}, {}},
                               {"two.txt", 0xfedcba9876543210, 2000, {}, {}}};
  measured.acceptanceTexts = {{"one.txt",
                               0x0123456789abcdef,
                               1000,
                               {0, 2, 5},
                               {100.5, 90.25, 110.125},
                               {},
                               0.0125,
                               3,
                               0.0078125},
                              {"two.txt", 0xfedcba9876543210, 2000, {}, {}}};
  measured.candidates = {{"uniform", 8192, 512, 0.0078125, 0.005, 0.0075, {}},
                         {"greedy", 4096, 512, 0.015625, 0.0125, 0.01875, 1.5e6, true}};
  return measured;
}

Measured tinyMeasuredOnItems() {
  Measured measured = tinyMeasured();
  measured.metric = "exact";
  measured.isSetAside = false;
  measured.windowTokens = 0;
  measured.acceptanceTexts = {{"one.jsonl", 0x0123456789abcdef, 1000, {0, 2, 5}, {}, {1, 0.25, 0}},
                              {"two.jsonl", 0xfedcba9876543210, 2000, {}, {}, {}}};
  measured.itemOptions = {{"max-tokens", "128"}, {"stop", "\"\\n\""}};
  return measured;
}

Chat tinyChat() {
  Chat chat;
  chat.templates = {{"default", "{% for m in messages %}{{ m.content }}\n{% endfor %}"},
                    {"tool_use", "{{ tools }}"}};
  chat.specialTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return chat;
}

SamplingDefaults tinySampling() {
  return {true, 0.5f, 20, 0.75f, 0.125f, 1.25f};
}

static void decide(Plan &plan, EvictionPolicy eviction, CacheSharing sharing,
                   PromptSurvival survival) {
  plan.preset = "auto";
  plan.rules = {eviction, sharing, survival};
  plan.start = {{{0, 2}, {5, 0}}, {{3}, {8}}};
  plan.startTokens = 8;
  Forecast &forecast = plan.forecast.emplace();
  forecast.device = "laptop";
  forecast.threads = 4;
  forecast.tokens = 4096;
  forecast.traceTokens = 12288;
  forecast.tokenNs = 1.5e6;
  forecast.medianNs = 1.25e6;
  forecast.slowNs = 4e6;
  forecast.hitRate = 0.75;
  forecast.readyRate = 0.875;
  forecast.bytesPerToken = 65536.5;
  forecast.prefetchRecall = 0.5;
  forecast.prefetchPrecision = 0.625;
  forecast.leastBytesPerToken = 32768;
  forecast.boundNs = 1e6;
  forecast.origin = Origin::kAssumed;
  plan.reasons = {{"eviction", "some", "It reads 1.5% less than lru.", Origin::kMeasured},
                  {"prefetches", "1 ahead", "The disk idles for 40% of a token.", Origin::kStated}};
}

Artifact tinyPlannedArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  if (!layOutArtifact(artifact, {kTinyTokenizerBytes, kTinyPathsBytes, kTinyTraceBytes}).isOk())
    throw std::string("the tiny artifact cannot be laid out");
  Plan &all = artifact.plans[0], &some = artifact.plans[1];
  decide(all, EvictionPolicy::kLfu, CacheSharing::kLayerQuotas, PromptSurvival::kContents);
  all.pinned = {{1, 3}, {0}};
  all.prefetches = {{}, {Predictor::kGate, 1, 3, 2, kFixedPointOne / 16}};
  all.miss = {MissAction::kLower, 2, kFixedPointOne / 2, kFixedPointOne / 4 * 3, 0};
  all.loss = {"perplexity",
              0.0125,
              0.01875,
              0.95,
              0.015625,
              0.0625,
              60,
              61,
              62,
              8,
              {{"one.jsonl", 0x123456789abcdef0, 2000}}};
  decide(some, EvictionPolicy::kArc, CacheSharing::kOnePool, PromptSurvival::kPins);
  some.pinned = {{0}, {}};
  some.prefetches = {{}, {Predictor::kPaths, 1, 4, 1, 0}};
  fileOf(artifact);
  return artifact;
}

Artifact tinyArtifact() {
  Artifact artifact = tinyArtifactWithoutChecksums();
  fileOf(artifact);
  return artifact;
}

static uint64_t fillWithPattern(std::vector<std::byte> &file, uint64_t offset, uint64_t bytes,
                                uint32_t mask = 0xff) {
  for (uint64_t i = offset; i < offset + bytes; ++i)
    file[i] = std::byte((i * 31 + (i >> 8)) & mask);
  return checksum64(std::span<const std::byte>(file).subspan(offset, bytes));
}

// Scales of MXFP4 must be numbers, and small enough for every code; those of blocks are f16, which
// must be numbers.
static uint8_t bitsToFill(const ExpertFormat &format) {
  if (hasBlocks(format.gateUp.kind))
    return 0x6f;
  return format.gateUp.kind == WeightKind::kMxfp4 ? 0x7f : 0xff;
}

std::vector<std::byte> fileOf(Artifact &artifact) {
  uint64_t rawEnd = kPrefixBytes;
  for (uint64_t bytes : {artifact.residentBytes, artifact.recordsBytes, artifact.tokenizerBytes,
                         artifact.pathsBytes, artifact.traceBytes})
    rawEnd = roundUp(rawEnd + bytes, kSectionAlignment);
  std::vector<std::byte> file(rawEnd);
  artifact.residentChecksum = fillWithPattern(file, kPrefixBytes, artifact.residentBytes);
  auto fill = [&](uint64_t offset, uint64_t bytes, uint64_t &checksum) {
    if (bytes != 0)
      checksum = fillWithPattern(file, offset, bytes);
  };
  fill(artifact.tokenizerOffset, artifact.tokenizerBytes, artifact.tokenizerChecksum);
  fill(artifact.pathsOffset, artifact.pathsBytes, artifact.pathsChecksum);
  fill(artifact.traceOffset, artifact.traceBytes, artifact.traceChecksum);
  for (MoeLayer &layer : artifact.moeLayers)
    for (Expert &expert : layer.experts)
      for (Slice &slice : expert.slices)
        if (rangeFits(expert.fileOffset + slice.offset, slice.payloadBytes, rawEnd))
          slice.checksum = fillWithPattern(file, expert.fileOffset + slice.offset,
                                           slice.payloadBytes, bitsToFill(slice.format));

  FilePrefix prefix = {kFormatMajor, kFormatMinor, 0, {}};
  uint64_t end = kPrefixBytes;
  auto add = [&](SectionKind kind, uint64_t bytes, uint64_t checksum) {
    if (bytes != 0)
      prefix.sections.push_back({kind, end, bytes, checksum});
    end = roundUp(end + bytes, kSectionAlignment);
  };
  std::vector<std::byte> manifest = encodeManifest(artifact);
  add(SectionKind::kResident, artifact.residentBytes, artifact.residentChecksum);
  add(SectionKind::kRecords, artifact.recordsBytes, 0);
  add(SectionKind::kTokenizer, artifact.tokenizerBytes, artifact.tokenizerChecksum);
  add(SectionKind::kPaths, artifact.pathsBytes, artifact.pathsChecksum);
  add(SectionKind::kTrace, artifact.traceBytes, artifact.traceChecksum);
  add(SectionKind::kManifest, manifest.size(), checksum64(manifest));
  artifact.fileBytes = prefix.fileBytes = end;
  file.insert(file.end(), manifest.begin(), manifest.end());
  file.resize(end);
  std::vector<std::byte> page = encodePrefix(prefix);
  std::copy(page.begin(), page.end(), file.begin());
  return file;
}

void repairChecksums(std::vector<std::byte> &file) {
  constexpr size_t kSectionsAt = 32, kEntryBytes = 32, kChecksumAt = 24;
  std::span<const std::byte> bytes(file);
  for (size_t entry = kSectionsAt; entry < kSectionsAt + 6 * kEntryBytes; entry += kEntryBytes) {
    uint32_t kind = 0;
    uint64_t offset = 0, length = 0;
    std::memcpy(&kind, &file[entry], 4);
    std::memcpy(&offset, &file[entry + 8], 8);
    std::memcpy(&length, &file[entry + 16], 8);
    if (kind != uint32_t(SectionKind::kManifest) || !rangeFits(offset, length, file.size()))
      continue;
    uint64_t checksum = checksum64(bytes.subspan(offset, length));
    std::memcpy(&file[entry + kChecksumAt], &checksum, 8);
  }
  uint64_t checksum = checksum64(bytes.first(kPrefixBytes - 8));
  std::memcpy(&file[kPrefixBytes - 8], &checksum, 8);
}
