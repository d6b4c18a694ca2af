#include "runtime/serving/RouteRecord.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace moert;

namespace {

/// Two MoE layers of 2 experts per token; the second one is prefetched with 3 candidates.
Artifact smallArtifact() {
  Artifact artifact;
  artifact.moeLayers.resize(2);
  for (MoeLayer &layer : artifact.moeLayers)
    layer.topK = 2;
  Plan &plan = artifact.plans.emplace_back();
  plan.prefetches = {{}, {Predictor::kGate, 1, 3, 1, 0}};
  return artifact;
}

nlohmann::json written(const RouteRecord &record, uint64_t promptTokens) {
  TemporaryDirectory folder;
  const std::string path = folder.path("routes.json");
  auto file = OutputFile::create(path);
  REQUIRE(file.isOk());
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  REQUIRE(record.write(json, text, *file, promptTokens).isOk());
  json.endObject();
  REQUIRE(file->append(text).isOk());
  REQUIRE(file->commit().isOk());
  return nlohmann::json::parse(std::ifstream(path))["routes"];
}

} // namespace

TEST_CASE(
    "routes hold the tokens that all layers have chosen for, and candidates of decoded ones") {
  RouteRecord record(smallArtifact(), 4);
  const std::vector<int32_t> experts = {7, 1};
  for (uint32_t token = 0; token < 3; ++token)
    record.addChosen(0, token, experts);
  for (uint32_t token = 0; token < 2; ++token)
    record.addChosen(1, token, experts);
  record.addCandidates(1, 1, 1, std::vector<PrefetchCandidate>{{5, 900}, {2, 30}});
  CHECK(record.tokens() == 2);
  const nlohmann::json routes = written(record, 1);
  CHECK(routes["tokens"] == 2);
  CHECK(routes["chosen"] == nlohmann::json::parse("[[7,1,7,1],[7,1,7,1]]"));
  CHECK(routes["candidates"][0]["per_token"] == 0);
  CHECK(routes["candidates"][1]["depths"] == 1);
  CHECK(routes["candidates"][1]["per_token"] == 3);
  CHECK(routes["candidates"][1]["experts"] == nlohmann::json::parse("[5,2,2]"));
  CHECK(routes["candidates"][1]["probabilities"] == nlohmann::json::parse("[900,30,30]"));
}

TEST_CASE("of an adaptive rule the predictions of all distances are recorded, the nearest first") {
  Artifact artifact = smallArtifact();
  artifact.plans[0].prefetches[1] = {Predictor::kAdaptiveGate, 2, 1, 1, 0};
  RouteRecord record(artifact, 2);
  for (uint32_t token = 0; token < 2; ++token) {
    for (uint32_t layer = 0; layer < 2; ++layer)
      record.addChosen(layer, token, std::vector<int32_t>{7, 1});
    record.addCandidates(1, 2, token, std::vector<PrefetchCandidate>{{20 + token, 200}});
    record.addCandidates(1, 1, token, std::vector<PrefetchCandidate>{{10 + token, 100}});
  }
  const nlohmann::json layer = written(record, 0)["candidates"][1];
  CHECK(layer["per_token"] == 1);
  CHECK(layer["depths"] == 2);
  CHECK(layer["experts"] == nlohmann::json::parse("[10,20,11,21]"));
  CHECK(layer["probabilities"] == nlohmann::json::parse("[100,200,100,200]"));
}

TEST_CASE("a long run's routes are its first tokens, as many as the memory holds") {
  const Artifact artifact = smallArtifact();
  RouteRecord record(artifact, uint64_t(1) << 40);
  const std::vector<int32_t> experts = {0, 1};
  // 2 + 2 experts of 2 bytes and 3 candidates of 8.
  const uint32_t room = kMostRouteBytes / 32;
  for (uint32_t token = 0; token < room + 10; ++token)
    for (uint32_t layer : {0, 1})
      record.addChosen(layer, token, experts);
  CHECK(record.tokens() == room);
  CHECK(RouteRecord::memoryBytes(artifact, uint64_t(1) << 40) >= kMostRouteBytes - 32);
  CHECK(RouteRecord::memoryBytes(artifact, 0) == 0);
}

TEST_CASE("without room nothing is recorded") {
  RouteRecord record;
  record.addChosen(0, 0, std::vector<int32_t>{1});
  record.addCandidates(0, 1, 0, std::vector<PrefetchCandidate>{{1, 1}});
  CHECK(record.tokens() == 0);
}
