// Frozen files: each is written by the first program of its version and never again, so that every
// later reader of the major version is tested with it. Files of older major versions test that the
// refusal names the version. docs/changing-the-format.md has the rules for writing them:
//
//   MOE_WRITE_FROZEN=1 build/release/tests/format_test -tc="frozen files are written on demand"
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"
#include "runtime/format/Verify.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

using namespace moert;

static std::string frozenPath(const std::string &name) {
  return std::string(MOE_TEST_DATA_DIR) + "/format/" + name;
}

static FileSource openFrozen(const char *name) {
  auto source = FileSource::open(frozenPath(name));
  REQUIRE(source.isOk());
  return std::move(*source);
}

static Artifact readVerified(const FileSource &source) {
  Status status = verifyArtifact(source);
  REQUIRE_MESSAGE(status.isOk(), status.message());
  auto artifact = readArtifact(source);
  REQUIRE(artifact.isOk());
  return *artifact;
}

//===-- Writing them --------------------------------------------------------------------------===//

static void writeFile(const std::string &path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

static Artifact withMeasured(Artifact artifact, Measured measured) {
  artifact.measured = std::move(measured);
  return artifact;
}

static Artifact withConversation(Artifact artifact) {
  artifact.chat = tinyChat();
  artifact.sampling = tinySampling();
  return artifact;
}

static void writeWhole(const std::string &path, Artifact artifact) {
  writeFile(path, fileOf(artifact));
}

/// The tiny planned one, with a plan that exchanges experts.
static Artifact exchangingArtifact() {
  Artifact artifact = tinyPlannedArtifact();
  Plan &plan = artifact.plans[0];
  plan.rules.eviction = EvictionPolicy::kImportance;
  plan.rules.exchange = {4, 2, 5};
  plan.prefetches.clear();
  for (const MoeLayer &layer : artifact.moeLayers) {
    plan.expertNorms.emplace_back(layer.experts.size(), kFixedPointOne);
    plan.expertNorms.back()[0] = kFixedPointOne / 2;
  }
  return artifact;
}

/// The tiny planned one, accepted on quantiles: its widths on one alone, its miss rule beside a
/// mean.
static Artifact quantileArtifact() {
  Measured measured = tinyMeasured();
  measured.target = 0;
  measured.quantile = {0.9, 0.0225, 0.03125};
  Artifact artifact = withMeasured(tinyPlannedArtifact(), measured);
  artifact.plans[0].loss->quantile = {0.5, 0.0125, {}};
  return artifact;
}

// The fuzzers' seeds are the same artifacts: the reader refuses a seed of another version at once.
static void writeSeeds(const std::string &corpus) {
  const std::pair<const char *, Artifact> seeds[] = {
      {"whole_tiny", tinyArtifact()},
      {"whole_planned", tinyPlannedArtifact()},
      {"whole_exchange", exchangingArtifact()},
      {"whole_chat", withConversation(tinyArtifact())},
      {"whole_mxfp4", tinyMxfp4Artifact()},
      {"whole_blocks", tinyBlocksArtifact()},
      {"whole_bytescales", tinyByteScalesArtifact()},
      {"whole_hadamard", tinyHadamardArtifact()},
      {"whole_copies", tinyCopiesArtifact()},
      {"whole_wider_down", tinyWiderDownArtifact()},
      {"whole_narrow_kv", tinyNarrowKvArtifact()},
      {"whole_float_copies", tinyFloatCopiesArtifact()},
      {"whole_quantile", quantileArtifact()},
      {"whole_measured", withMeasured(tinyArtifact(), tinyMeasured())},
      {"whole_measured_on_items", withMeasured(tinyArtifact(), tinyMeasuredOnItems())}};
  for (const auto &[name, artifact] : seeds) {
    writeWhole(corpus + "/artifact/" + name, artifact);
    writeFile(corpus + "/manifest/" + name, encodeManifest(artifact));
  }
}

TEST_CASE("frozen files are written on demand") {
  if (!std::getenv("MOE_WRITE_FROZEN"))
    return;
  writeWhole(frozenPath("v2.1-chat.moe"), withConversation(tinyArtifact()));
  writeWhole(frozenPath("v2.1-mxfp4.moe"), tinyMxfp4Artifact());
  writeWhole(frozenPath("v2.1-blocks.moe"), tinyBlocksArtifact());
  writeWhole(frozenPath("v2.1-bytescales.moe"), tinyByteScalesArtifact());
  writeWhole(frozenPath("v2.1-hadamard.moe"), tinyHadamardArtifact());
  writeWhole(frozenPath("v2.1-copies.moe"), tinyCopiesArtifact());
  writeWhole(frozenPath("v2.1-wider-down.moe"), tinyWiderDownArtifact());
  writeWhole(frozenPath("v2.1-narrow-kv.moe"), tinyNarrowKvArtifact());
  writeWhole(frozenPath("v2.1-exchange.moe"), exchangingArtifact());
  writeWhole(frozenPath("v2.1-quantile.moe"), quantileArtifact());
  writeWhole(frozenPath("v2.1.moe"), withMeasured(tinyPlannedArtifact(), tinyMeasured()));
  writeSeeds(std::string(MOE_TEST_DATA_DIR) + "/../fuzz/corpus");
}

//===-- Reading them --------------------------------------------------------------------------===//

TEST_CASE("a file of version 1 is refused with the remedy in the message") {
  // Its first page, which is all that a reader reads before it refuses.
  const Status status = readArtifact(openFrozen("v1.4.moe")).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("the file is format 1.4, this program reads 2.x; compile it again") !=
        std::string::npos);
}

TEST_CASE("the frozen file of version 2.0 is read and verified") {
  const Artifact artifact = readVerified(openFrozen("v2.0.moe"));
  CHECK(artifact.majorVersion == 2);
  CHECK(artifact.minorVersion == 0);
  CHECK(artifact.model.modelType == "tiny");
  CHECK(artifact.model.vocabularySize == 48);
  CHECK(artifact.model.bosToken == 1);
  CHECK(artifact.residents.size() == 10);
  CHECK(artifact.residents[0].format.kind == WeightKind::kInt8);
  REQUIRE(artifact.moeLayers.size() == 2);
  CHECK(artifact.moeLayers[0].experts[3].slices[0].format.gateUp.kind == WeightKind::kInt4);
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(experts[0].slices[2].format == WeightFormat{WeightKind::kInt4, 32, 32, false, true});
  CHECK(experts[1].slices[1].format == WeightFormat{WeightKind::kInt1, 32, 32, false, true});
  CHECK(experts[3].slices[0].format == WeightFormat{WeightKind::kInt2, 32, 32, true, false});
  REQUIRE(artifact.programs.size() == 2);
  CHECK(artifact.programs[1].name == "prefill");
  CHECK(artifact.programs[1].instructions.size() == 48);
  CHECK(std::holds_alternative<PredictInstruction>(artifact.programs[0].instructions[17]));
  CHECK(artifact.pathsBytes == 200);
  CHECK(artifact.traceBytes == 5000);
  CHECK(artifact.provenance[1] == std::pair<std::string, std::string>("bits", "4"));
}

TEST_CASE("plans of the frozen file of version 2.0 have the same decisions") {
  const Artifact artifact = readVerified(openFrozen("v2.0.moe"));
  const Plan &plan = artifact.plans[0];
  CHECK(plan.preset == "auto");
  CHECK(plan.rules.eviction == EvictionPolicy::kLfu);
  CHECK(plan.rules.survival == PromptSurvival::kContents);
  CHECK(plan.pinned == std::vector<std::vector<uint32_t>>{{1, 3}, {0}});
  CHECK(plan.start == std::vector<LayerStart>{{{0, 2}, {5, 0}}, {{3}, {8}}});
  CHECK(plan.startTokens == 8);
  CHECK(plan.prefetches[1] == PrefetchRule{Predictor::kGate, 1, 3, 2, 1 << 20});
  REQUIRE(plan.forecast);
  CHECK(plan.forecast->device == "laptop");
  CHECK(plan.forecast->tokens == 4096);
  CHECK(plan.forecast->traceTokens == 12288);
  CHECK(plan.forecast->tokenNs == 1.5e6);
  CHECK(plan.forecast->readyRate == 0.875);
  CHECK(plan.forecast->origin == Origin::kAssumed);
  REQUIRE(plan.reasons.size() == 2);
  CHECK(plan.reasons[1] ==
        PlanReason{"prefetches", "1 ahead", "The disk idles for 40% of a token.", Origin::kStated});
  CHECK(artifact.plans[1].budgetBytes == 1 << 20);
  CHECK(artifact.plans[1].rules.sharing == CacheSharing::kOnePool);
  CHECK(artifact.plans[1].prefetches[1].predictor == Predictor::kPaths);
}

TEST_CASE(
    "the frozen file of version 2.1 has a miss rule and its loss, which files of 2.0 do not have") {
  const Artifact artifact = readVerified(openFrozen("v2.1.moe"));
  CHECK(artifact.minorVersion == 1);
  CHECK(artifact.plans[0].miss ==
        MissRule{MissAction::kLower, 2, kFixedPointOne / 2, kFixedPointOne / 4 * 3, 0});
  CHECK(artifact.plans[1].miss == MissRule{});
  REQUIRE(artifact.plans[0].loss);
  CHECK(artifact.plans[0].loss->upperBound == 0.01875);
  CHECK(artifact.plans[0].loss->windowTokens == 8);
  CHECK(artifact.plans[0].loss->texts ==
        std::vector<PlanText>{{"one.jsonl", 0x123456789abcdef0, 2000}});
  CHECK(readVerified(openFrozen("v2.0.moe")).plans[0].miss == MissRule{});
}

TEST_CASE("the frozen file of version 2.1 with exchanges is read") {
  const Artifact artifact = readVerified(openFrozen("v2.1-exchange.moe"));
  const Plan &plan = artifact.plans[0];
  CHECK(plan.rules.eviction == EvictionPolicy::kImportance);
  CHECK(plan.rules.exchange == ExchangeRule{4, 2, 5});
  REQUIRE(plan.expertNorms.size() == 2);
  CHECK(plan.expertNorms[1][0] == kFixedPointOne / 2);
  CHECK(plan.expertNorms[1][1] == kFixedPointOne);
  CHECK(readVerified(openFrozen("v2.1.moe")).plans[0].rules.exchange == ExchangeRule{});
}

TEST_CASE("quantiles are read from the frozen file of version 2.1 that has some") {
  const Artifact artifact = readVerified(openFrozen("v2.1-quantile.moe"));
  REQUIRE(artifact.measured);
  CHECK(artifact.measured->target == 0);
  CHECK(artifact.measured->quantile == QuantileBound{0.9, 0.0225, 0.03125});
  REQUIRE(artifact.plans[0].loss);
  CHECK(artifact.plans[0].loss->quantile == QuantileBound{0.5, 0.0125, {}});
  const Artifact earlier = readVerified(openFrozen("v2.1.moe"));
  CHECK_FALSE(earlier.measured->quantile);
  CHECK_FALSE(earlier.plans[0].loss->quantile);
}

TEST_CASE("measurements are read from the frozen files of version 2.0") {
  const Artifact onWindows = readVerified(openFrozen("v2.0.moe"));
  REQUIRE(onWindows.measured);
  CHECK(onWindows.measured->metric == "perplexity");
  CHECK(onWindows.measured->target == 0.02);
  CHECK(onWindows.measured->upperBound == 0.01875);
  CHECK(onWindows.measured->klNats == 0.015625);
  CHECK(onWindows.measured->windowTokens == 64);
  REQUIRE(onWindows.measured->acceptanceTexts.size() == 2);
  CHECK(onWindows.measured->acceptanceTexts[0].windows == std::vector<uint32_t>{0, 2, 5});
  CHECK(onWindows.measured->acceptanceTexts[0].referenceNats ==
        std::vector<double>{100.5, 90.25, 110.125});
  const Artifact onItems = readVerified(openFrozen("v2.0-items.moe"));
  REQUIRE(onItems.measured);
  CHECK(onItems.measured->isOnItems());
  CHECK(onItems.measured->metric == "exact");
  CHECK(onItems.measured->acceptanceTexts[0].referencePoints == std::vector<double>{1, 0.25, 0});
  CHECK(onItems.measured->itemOptions == std::vector<std::pair<std::string, std::string>>{
                                             {"max-tokens", "128"}, {"stop", "\"\\n\""}});
}

TEST_CASE("measured candidates, which files of 2.0 do not have, are read from that of 2.1") {
  const std::optional<Measured> measured = readVerified(openFrozen("v2.1.moe")).measured;
  REQUIRE(measured);
  REQUIRE(measured->candidates.size() == 2);
  CHECK(measured->candidates[1].solver == "greedy");
  CHECK(measured->candidates[1].expertBytes == 4096);
  CHECK(measured->candidates[1].expectedBound == 0.01875);
  CHECK(measured->candidates[1].tokenNs == 1.5e6);
  CHECK(measured->candidates[1].isChosen);
  CHECK_FALSE(measured->candidates[0].tokenNs);
  CHECK(measured->acceptanceTexts[0].loss == 0.0125);
  CHECK(measured->acceptanceTexts[0].units == 3);
  CHECK_FALSE(measured->acceptanceTexts[1].loss);
  CHECK(readVerified(openFrozen("v2.0.moe")).measured->candidates.empty());
}

TEST_CASE("what a frozen file of version 2.1 has for conversations is read") {
  const Artifact artifact = readVerified(openFrozen("v2.1-chat.moe"));
  CHECK(artifact.minorVersion == 1);
  REQUIRE(artifact.chat);
  REQUIRE(artifact.chat->templates.size() == 2);
  CHECK(artifact.chat->templates[1].name == "tool_use");
  CHECK(artifact.chat->templates[1].text == "{{ tools }}");
  CHECK(artifact.chat->specialTokens[0] == std::pair<std::string, std::string>("bos_token", "<s>"));
  REQUIRE(artifact.sampling);
  CHECK(artifact.sampling->doSample == true);
  CHECK(artifact.sampling->temperature == 0.5f);
  CHECK(artifact.sampling->topK == 20);
  CHECK(artifact.sampling->topP == 0.75f);
  CHECK(artifact.sampling->minP == 0.125f);
  CHECK(artifact.sampling->repetitionPenalty == 1.25f);
  CHECK_FALSE(readVerified(openFrozen("v2.0.moe")).chat);
}

TEST_CASE("experts of MXFP4 are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-mxfp4.moe"));
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(experts[3].slices[0].format == WeightFormat{WeightKind::kMxfp4, 32, 0, false, false});
  // 512 bytes of codes and 32 of scales, each matrix at a multiple of 1024.
  CHECK(experts[3].slices[0].payloadBytes == 2 * 2048 + 1024 + 32);
  CHECK(experts[2].slices[0].format.gateUp.kind == WeightKind::kBF16);
}

TEST_CASE("experts of blocks are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-blocks.moe"));
  const Slice &slice = artifact.moeLayers[1].experts[3].slices[0];
  CHECK(slice.format.gateUp == WeightFormat{WeightKind::kQ8x0, 32, 0, false, false});
  CHECK(slice.format.down == WeightFormat{WeightKind::kQ4x0, 32, 0, false, false});
  // 32 blocks of 34 bytes twice, from multiples of 1024, and 32 of 18.
  CHECK(slice.payloadBytes == 2 * 2048 + 32 * 18);
}

TEST_CASE("experts with byte scales are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-bytescales.moe"));
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(experts[0].slices[0].format == WeightFormat{WeightKind::kNl4, 32, 32, false, false, true});
  // 512 bytes of codes; 2 for each of 32 rows and 32 bytes, each matrix at a multiple of 1024.
  CHECK(experts[0].slices[0].payloadBytes == 2 * 2048 + 1024 + 64 + 32);
  CHECK(experts[1].slices[0].format.gateUp.hasByteScales);
  CHECK_FALSE(experts[1].slices[1].format.gateUp.hasByteScales);
}

TEST_CASE("experts with the Hadamard transform are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-hadamard.moe"));
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(experts[0].slices[0].format ==
        WeightFormat{WeightKind::kInt2, 32, 32, true, false, false, true});
  CHECK(experts[0].slices[2].format ==
        WeightFormat{WeightKind::kInt4, 32, 32, false, true, false, true});
  CHECK(experts[1].slices[0].format ==
        WeightFormat{WeightKind::kNl4, 32, 32, false, false, true, true});
  CHECK(experts[2].slices[1].format.gateUp ==
        WeightFormat{WeightKind::kInt2, 32, 32, false, true, false, true});
  CHECK(experts[2].slices[1].format.down ==
        WeightFormat{WeightKind::kInt0, 32, 32, false, true, false, true});
  // As without it: 256 bytes of codes, 64 of scales and 64 of offsets, each at a multiple of 1024.
  CHECK(experts[3].slices[0].payloadBytes == 2 * 3072 + 2 * 1024 + 64);
  CHECK_FALSE(artifact.moeLayers[0].experts[0].slices[0].format.gateUp.hasHadamard);
  CHECK_FALSE(artifact.residents[0].format.hasHadamard);
  for (const Program &program : artifact.programs) {
    CHECK(program.buffers[2].kind == BufferKind::kQuantized);
    // A row of 32 codes, a scale and a sum, each padded to 64 bytes.
    CHECK(program.buffers[17] == Buffer{BufferKind::kHadamard, 32, 32, 2112, 192});
    CHECK(program.buffers[19] == Buffer{BufferKind::kHadamard, 24, 32, 2496, 192});
  }
}

TEST_CASE("widths of keys and values are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-narrow-kv.moe"));
  REQUIRE(artifact.kvSlots.size() == 2);
  CHECK(artifact.kvSlots[0].kind == KvKind::kF16);
  CHECK(artifact.kvSlots[1].kind == KvKind::kInt8);
  CHECK(artifact.kvSlots[0].kvHeads == readVerified(openFrozen("v2.1.moe")).kvSlots[0].kvHeads);
  CHECK(readVerified(openFrozen("v2.1.moe")).kvSlots[0].kind == KvKind::kF32);
}

TEST_CASE("separate copies are read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-copies.moe"));
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(lowCopySlicesOf(experts[0]) == 1);
  CHECK(lowCopySlicesOf(experts[1]) == 1);
  CHECK(lowCopySlicesOf(experts[2]) == 2);
  CHECK(lowCopySlicesOf(experts[3]) == 0);
  CHECK(experts[0].slices[1].format == WeightFormat{WeightKind::kInt8, 32, 32});
  // A low copy fills pages of 16 KiB.
  CHECK(experts[0].slices[1].offset == 16384);
  CHECK(experts[2].slices[1].offset == 8192);
  CHECK(experts[2].slices[2].offset == 16384);
}

TEST_CASE("a wider down is read from the frozen file of version 2.1") {
  const Artifact artifact = readVerified(openFrozen("v2.1-wider-down.moe"));
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  const ExpertFormat last = experts[0].slices[2].format;
  CHECK(last.gateUp == WeightFormat{WeightKind::kInt0, 32, 32, false, true});
  CHECK(last.down == WeightFormat{WeightKind::kInt2, 32, 32, false, true});
  // Gate and up take none of it, down 32 x 32 codes of 2 bits.
  CHECK(experts[0].slices[2].payloadBytes == 32 * 32 * 2 / 8);
  CHECK(bitsOf(experts[2].slices[0].format) == 4 + 4 + 6);
  for (const Slice &slice : artifact.moeLayers[0].experts[0].slices)
    CHECK(slice.format.hasOneFormat());
}

TEST_CASE("the frozen files' descriptions are still encoded in the same bytes") {
  for (const char *name :
       {"v2.0.moe", "v2.0-items.moe", "v2.1-chat.moe", "v2.1-exchange.moe", "v2.1-mxfp4.moe",
        "v2.1-bytescales.moe", "v2.1-hadamard.moe", "v2.1-copies.moe", "v2.1-wider-down.moe",
        "v2.1-blocks.moe", "v2.1.moe"}) {
    FileSource source = openFrozen(name);
    auto artifact = readArtifact(source);
    REQUIRE(artifact.isOk());
    std::vector<std::byte> stored(artifact->manifestBytes);
    REQUIRE(source.read(artifact->manifestOffset, stored).isOk());
    CHECK(encodeManifest(*artifact) == stored);
  }
}
