// Frozen files were written by the first program of their version and are never written again:
// every later reader of 1.x has to read them.
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"
#include "runtime/format/Verify.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

using namespace moert;

static FileSource openFrozen(const char *name) {
  auto source = FileSource::open(std::string(MOE_TEST_DATA_DIR) + "/format/" + name);
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

// What the files of all versions have in common.
static void checkTiny(const Artifact &artifact, size_t instructions = 47) {
  CHECK(artifact.majorVersion == 1);
  CHECK(artifact.model.modelType == "tiny");
  CHECK(artifact.model.vocabularySize == 48);
  CHECK(artifact.model.bosToken == 1);
  CHECK(artifact.residents.size() == 10);
  CHECK(artifact.residents[0].format.kind == WeightKind::kInt8);
  REQUIRE(artifact.moeLayers.size() == 2);
  CHECK(artifact.moeLayers[0].experts[3].slices[0].format.kind == WeightKind::kInt4);
  REQUIRE(artifact.programs.size() == 2);
  CHECK(artifact.programs[1].name == "prefill");
  CHECK(artifact.programs[1].instructions.size() == instructions);
  CHECK(artifact.plans[1].budgetBytes == 1 << 20);
  CHECK(artifact.provenance[1] == std::pair<std::string, std::string>("bits", "4"));
}

TEST_CASE("the frozen file of version 1.0 is read and verified") {
  Artifact artifact = readVerified(openFrozen("v1.moe"));
  checkTiny(artifact);
  CHECK(artifact.minorVersion == 0);
  // Slices that add up, which later versions do not write.
  CHECK(artifact.moeLayers[1].experts[3].variants ==
        std::vector<std::vector<uint8_t>>{{0, 1}, {0}});
  CHECK(!artifact.moeLayers[1].experts[3].slices[1].format.refines);
}

TEST_CASE("the frozen file of version 1.1 is read and verified") {
  Artifact artifact = readVerified(openFrozen("v1.1.moe"));
  checkTiny(artifact);
  CHECK(artifact.minorVersion == 1);
  const std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(experts[0].variants == std::vector<std::vector<uint8_t>>{{0, 1, 2}, {0, 1}, {0}});
  CHECK(experts[0].slices[2].format == WeightFormat{WeightKind::kInt4, 32, 32, false, true});
  CHECK(experts[1].slices[1].format == WeightFormat{WeightKind::kInt1, 32, 32, false, true});
  CHECK(experts[2].slices[1].format == WeightFormat{WeightKind::kInt2, 32, 32, false, true});
  CHECK(experts[3].slices[0].format == WeightFormat{WeightKind::kInt2, 32, 32, true, false});
}

TEST_CASE("the frozen file of version 1.2 is read and verified") {
  Artifact artifact = readVerified(openFrozen("v1.2.moe"));
  checkTiny(artifact);
  CHECK(artifact.minorVersion == 2);
  REQUIRE(artifact.measured);
  const Measured &measured = *artifact.measured;
  CHECK(measured.metric == "perplexity");
  CHECK(measured.target == 0.02);
  CHECK(measured.loss == 0.0125);
  CHECK(measured.upperBound == 0.01875);
  CHECK(measured.klNats == 0.015625);
  CHECK(measured.topDisagreement == 0.0625);
  CHECK(measured.looks == 3);
  CHECK(measured.isSetAside);
  CHECK(measured.windowTokens == 64);
  CHECK(measured.solver == "greedy");
  CHECK(measured.quantizer == "nearest");
  CHECK(measured.measurements == 12);
  CHECK(measured.windowsPlayed == 345);
  CHECK(measured.calibrationTokens == 6789);
  CHECK(measured.calibrationTexts.size() == 2);
  REQUIRE(measured.acceptanceTexts.size() == 2);
  CHECK(measured.acceptanceTexts[0] ==
        MeasuredText{"one.txt", 0x0123456789abcdef, 1000, {0, 2, 5}, {100.5, 90.25, 110.125}});
}

TEST_CASE("the frozen file of version 1.3 is read and verified") {
  Artifact artifact = readVerified(openFrozen("v1.3.moe"));
  checkTiny(artifact);
  CHECK(artifact.minorVersion == 3);
  REQUIRE(artifact.measured);
  const Measured &measured = *artifact.measured;
  CHECK(measured.isOnItems());
  CHECK(measured.metric == "exact");
  CHECK(measured.target == 0.02);
  CHECK(!measured.isSetAside);
  REQUIRE(measured.acceptanceTexts.size() == 2);
  CHECK(measured.acceptanceTexts[0] ==
        MeasuredText{"one.jsonl", 0x0123456789abcdef, 1000, {0, 2, 5}, {}, {1, 0.25, 0}});
  CHECK(measured.itemOptions == std::vector<std::pair<std::string, std::string>>{
                                    {"max-tokens", "128"}, {"stop", "\"\\n\""}});
}

TEST_CASE("the frozen file of version 1.4 is read and verified") {
  Artifact artifact = readVerified(openFrozen("v1.4.moe"));
  checkTiny(artifact, 48); // The layers before have a guess of layer 1.
  CHECK(artifact.minorVersion == 4);
  CHECK(artifact.pathsBytes == 200);
  CHECK(artifact.traceBytes == 5000);
  CHECK(std::holds_alternative<PredictInstruction>(artifact.programs[0].instructions[17]));
  const Plan &plan = artifact.plans[0];
  CHECK(plan.preset == "auto");
  CHECK(plan.rules.eviction == EvictionPolicy::kLfu);
  CHECK(plan.rules.survival == PromptSurvival::kContents);
  CHECK(plan.pinned == std::vector<std::vector<uint32_t>>{{1, 3}, {0}});
  CHECK(plan.start == std::vector<LayerStart>{{{0, 2}, {5, 0}}, {{3}, {8}}});
  CHECK(plan.startTokens == 8);
  CHECK(plan.guesses[1] == GuessRule{Predictor::kGate, 1, 3, 2, 1 << 20});
  REQUIRE(plan.forecast);
  CHECK(plan.forecast->device == "laptop");
  CHECK(plan.forecast->tokenNs == 1.5e6);
  CHECK(plan.forecast->presentRate == 0.875);
  CHECK(plan.forecast->origin == Origin::kAssumed);
  REQUIRE(plan.reasons.size() == 2);
  CHECK(plan.reasons[1] ==
        PlanReason{"guesses", "1 ahead", "The disk idles for 40% of a token.", Origin::kStated});
  CHECK(artifact.plans[1].rules.sharing == CacheSharing::kOnePool);
  CHECK(artifact.plans[1].guesses[1].predictor == Predictor::kPaths);
}

TEST_CASE("plans of files before version 1.4 decide what they always have") {
  for (const char *name : {"v1.moe", "v1.1.moe", "v1.2.moe", "v1.3.moe"}) {
    auto artifact = readArtifact(openFrozen(name));
    REQUIRE(artifact.isOk());
    for (const Plan &plan : artifact->plans) {
      CHECK(plan.preset.empty());
      CHECK(plan.rules == CacheRules{EvictionPolicy::kCyclic, CacheSharing::kLayerQuotas,
                                     PromptSurvival::kEverything});
      CHECK(plan.pinned.empty());
      CHECK(plan.start.empty());
      CHECK(plan.guesses.empty());
      CHECK(!plan.forecast);
    }
  }
}

TEST_CASE("the frozen files' descriptions are still encoded in the same bytes") {
  for (const char *name : {"v1.moe", "v1.1.moe", "v1.2.moe", "v1.3.moe", "v1.4.moe"}) {
    FileSource source = openFrozen(name);
    auto artifact = readArtifact(source);
    REQUIRE(artifact.isOk());
    std::vector<std::byte> stored(artifact->manifestBytes);
    REQUIRE(source.read(artifact->manifestOffset, stored).isOk());
    CHECK(encodeManifest(*artifact) == stored);
  }
}

TEST_CASE("planes in a file that calls itself version 1.0 are refused") {
  FileSource source = openFrozen("v1.1.moe");
  auto artifact = readArtifact(source);
  REQUIRE(artifact.isOk());
  artifact->minorVersion = 0;
  Status status = validateArtifact(*artifact);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("which version 1.0 does not have") != std::string::npos);
}

TEST_CASE("what version 1.4 brought is refused in a file that calls itself version 1.3") {
  auto refusalOf = [](const std::function<void(Artifact &)> &change) {
    auto artifact = readArtifact(openFrozen("v1.4.moe"));
    REQUIRE(artifact.isOk());
    artifact->minorVersion = 3;
    change(*artifact);
    Status status = validateArtifact(*artifact);
    REQUIRE(!status.isOk());
    CHECK(status.message().find("version 1.3 does not have") != std::string::npos);
    return status.message();
  };
  auto dropSections = [](Artifact &a) { a.pathsBytes = a.traceBytes = 0; };
  auto dropPlans = [&](Artifact &a) {
    dropSections(a);
    for (Plan &plan : a.plans)
      plan = {plan.name,          plan.budgetBytes,  plan.prefillChunk,
              plan.contextTokens, plan.transitPages, plan.quotaPages};
  };
  CHECK(refusalOf([](Artifact &) {}).find("sections of paths and traces") == 0);
  CHECK(refusalOf(dropSections).find("plan 0: it decides what") == 0);
  CHECK(refusalOf(dropPlans).find("(predict)") != std::string::npos);
}

TEST_CASE("what was measured is refused in a file that calls itself version 1.1") {
  auto artifact = readArtifact(openFrozen("v1.2.moe"));
  REQUIRE(artifact.isOk());
  artifact->minorVersion = 1;
  Status status = validateArtifact(*artifact);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("which version 1.1 does not have") != std::string::npos);
}

TEST_CASE("what was measured on items is refused in a file that calls itself version 1.2") {
  auto artifact = readArtifact(openFrozen("v1.3.moe"));
  REQUIRE(artifact.isOk());
  artifact->minorVersion = 2;
  Status status = validateArtifact(*artifact);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("on items is said, which version 1.2 does not have") !=
        std::string::npos);
}

TEST_CASE("slices that add up are refused from version 1.1 on") {
  FileSource source = openFrozen("v1.moe");
  auto artifact = readArtifact(source);
  REQUIRE(artifact.isOk());
  artifact->minorVersion = 1;
  Status status = validateArtifact(*artifact);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("slice 1: does not refine the slice before it") != std::string::npos);
}
