// What a test of a miss rule leaves out, by what the artifact keeps of it.
#include "compiler/planning/ReadTexts.h"

#include "runtime/format/Writer.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

/// The tiny artifact in a file, without a tokenizer.
struct TinyModel {
  explicit TinyModel(const std::optional<Measured> &measured) {
    Artifact artifact = tinyArtifact();
    artifact.measured = measured;
    REQUIRE(layOutArtifact(artifact, {}).isOk());
    const std::vector<std::byte> bytes = fileOf(artifact);
    directory.write("tiny.moe",
                    std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
    auto opened = Model::open(directory.path("tiny.moe"));
    REQUIRE_MESSAGE(opened.isOk(), opened.status().message());
    model = std::move(opened).value();
  }
  TemporaryDirectory directory;
  std::unique_ptr<Model> model;
};

} // namespace

TEST_CASE("what was read of an artifact is known by its trace, or if it was not calibrated") {
  Artifact artifact = tinyArtifact();
  CHECK(keptRuns(artifact, std::nullopt) == std::vector<uint64_t>());
  PlanTrace trace = smallTrace();
  CHECK_FALSE(keptRuns(artifact, trace)); // An earlier version has none.
  trace.readRuns = {5, 9};
  CHECK(keptRuns(artifact, trace) == std::vector<uint64_t>{5, 9});
  artifact.measured = tinyMeasured();
  CHECK_FALSE(keptRuns(artifact, std::nullopt));
}

TEST_CASE("what an artifact keeps is left out without its texts, and without it they are needed") {
  const std::string none;
  const GivenTexts nothing{{}, none, none};
  std::string said;
  const moec::Session session = {nullptr, nullptr, [&](std::string_view line) { said = line; }};
  const TinyModel measured(tinyMeasured());
  auto read = readTextsOf(*measured.model, std::vector<uint64_t>{5, 9}, nothing, session);
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->seen.containsRun(9));
  REQUIRE(read->files.size() == 2); // Texts of the same content are refused whole.
  CHECK(read->files[1].hash == 0xfedcba9876543210);
  const Status refused = readTextsOf(*measured.model, std::nullopt, nothing, session).status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("by a version that did not keep what calibration and the search "
                               "for its widths have read, which is one.txt, 1000 bytes") !=
        std::string::npos);
  CHECK(refused.message().find("expected --calibration-text") != std::string::npos);
  CHECK(said.empty());
}

TEST_CASE("an earlier artifact that names no texts is reported to leave nothing out") {
  const std::string none;
  std::string said;
  const moec::Session session = {nullptr, nullptr, [&](std::string_view line) { said = line; }};
  const TinyModel plain(std::nullopt);
  REQUIRE(readTextsOf(*plain.model, std::vector<uint64_t>(), {{}, none, none}, session).isOk());
  CHECK(said.empty()); // Nothing was read.
  auto read = readTextsOf(*plain.model, std::nullopt, {{}, none, none}, session);
  REQUIRE(read.isOk());
  CHECK(read->seen.isEmpty());
  CHECK(said.find("nothing of it is left out of --eval-text") != std::string::npos);
}
