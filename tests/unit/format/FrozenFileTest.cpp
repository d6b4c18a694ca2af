// tests/data/format/v1.moe was written by the first version of the format and is never written
// again: every later reader of 1.x has to read it.
#include "runtime/format/Manifest.h"
#include "runtime/format/Verify.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace moert;

static Result<FileSource> openFrozen() {
  return FileSource::open(std::string(MOE_TEST_DATA_DIR) + "/format/v1.moe");
}

TEST_CASE("the frozen file of version 1 is read and verified") {
  auto source = openFrozen();
  REQUIRE(source.isOk());
  Status status = verifyArtifact(*source);
  REQUIRE_MESSAGE(status.isOk(), status.message());
  auto artifact = readArtifact(*source);
  REQUIRE(artifact.isOk());
  CHECK(artifact->majorVersion == 1);
  CHECK(artifact->minorVersion == 0);
  CHECK(artifact->model.modelType == "tiny");
  CHECK(artifact->model.vocabularySize == 48);
  CHECK(artifact->model.bosToken == 1);
  CHECK(artifact->residents.size() == 10);
  CHECK(artifact->residents[0].format.kind == WeightKind::kInt8);
  REQUIRE(artifact->moeLayers.size() == 2);
  CHECK(artifact->moeLayers[0].experts[3].slices[0].format.kind == WeightKind::kInt4);
  CHECK(artifact->moeLayers[1].experts[3].variants ==
        std::vector<std::vector<uint8_t>>{{0, 1}, {0}});
  REQUIRE(artifact->programs.size() == 2);
  CHECK(artifact->programs[1].name == "prefill");
  CHECK(artifact->programs[1].instructions.size() == 47);
  CHECK(artifact->plans[1].budgetBytes == 1 << 20);
  CHECK(artifact->provenance[1] == std::pair<std::string, std::string>("bits", "4"));
}

TEST_CASE("the frozen file's description is still encoded in the same bytes") {
  auto source = openFrozen();
  REQUIRE(source.isOk());
  auto artifact = readArtifact(*source);
  REQUIRE(artifact.isOk());
  std::vector<std::byte> stored(artifact->manifestBytes);
  REQUIRE(source->read(artifact->manifestOffset, stored).isOk());
  CHECK(encodeManifest(*artifact) == stored);
}
