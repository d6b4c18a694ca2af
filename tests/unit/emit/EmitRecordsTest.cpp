#include "compiler/emit/EmitArtifact.h"

#include "runtime/format/Verify.h"
#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <functional>

using namespace moec;
using namespace moert;

namespace {

/// The records of an artifact that was emitted from the checkpoint.
class RecordsOfArtifact final : public RecordSource {
public:
  explicit RecordsOfArtifact(const std::string &path) : content(contentOf(path)) {
    auto read = readArtifact(path);
    REQUIRE(read.isOk());
    artifact = std::move(read).value();
  }

  Status read(size_t moeLayer, size_t expert, uint64_t offset,
              std::span<std::byte> out) const override {
    const Expert &record = artifact.moeLayers[moeLayer].experts[expert];
    std::memcpy(out.data(), content.data() + record.fileOffset + offset, out.size());
    return {};
  }
  uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const override {
    return artifact.moeLayers[moeLayer].experts[expert].slices[slice].checksum;
  }
  void damage(size_t moeLayer, size_t expert) {
    content[artifact.moeLayers[moeLayer].experts[expert].fileOffset] ^= 1;
  }

private:
  std::string content;
  Artifact artifact;
};

struct Fixture {
  TemporaryDirectory directory;
  std::string checkpointPath = directory.path("checkpoint");
  EmitPlan plan = tinyPlan();

  Fixture() { writeCheckpoint(checkpointPath, plan, randomTensors(plan, 5)); }

  Status emit(const std::string &name, const std::atomic<bool> *stop = nullptr,
              bool resume = false) {
    auto checkpoint = Checkpoint::open(checkpointPath);
    REQUIRE(checkpoint.isOk());
    EmitOptions options;
    options.outputPath = directory.path(name);
    options.threads = 2;
    options.stop = stop;
    options.resume = resume;
    return emitArtifact(plan, *checkpoint, options).status();
  }
};

} // namespace

TEST_CASE("copied finished records give the same file as the tensors") {
  Fixture fixture;
  REQUIRE(fixture.emit("first.moe").isOk());
  RecordsOfArtifact records(fixture.directory.path("first.moe"));
  fixture.plan.records = &records;
  Status status = fixture.emit("second.moe");
  REQUIRE_MESSAGE(status.isOk(), status.message());
  CHECK(contentOf(fixture.directory.path("second.moe")) ==
        contentOf(fixture.directory.path("first.moe")));
}

TEST_CASE("a finished record that has changed is refused by its name") {
  Fixture fixture;
  REQUIRE(fixture.emit("first.moe").isOk());
  RecordsOfArtifact records(fixture.directory.path("first.moe"));
  records.damage(1, 2);
  fixture.plan.records = &records;
  Status status = fixture.emit("second.moe");
  REQUIRE(status.code() == StatusCode::kFailed);
  CHECK(status.message().find("MoE layer 1, expert 2") != std::string::npos);
}

TEST_CASE("an interrupted emission of finished records resumes to the same file") {
  Fixture fixture;
  REQUIRE(fixture.emit("first.moe").isOk());
  RecordsOfArtifact records(fixture.directory.path("first.moe"));
  fixture.plan.records = &records;
  std::atomic<bool> stop = true;
  REQUIRE(fixture.emit("second.moe", &stop).code() == StatusCode::kInterrupted);
  REQUIRE(fixture.emit("second.moe", nullptr, true).isOk());
  CHECK(contentOf(fixture.directory.path("second.moe")) ==
        contentOf(fixture.directory.path("first.moe")));
}

TEST_CASE("an artifact's weights give the same file without the checkpoint") {
  Fixture fixture;
  REQUIRE(fixture.emit("first.moe").isOk());
  auto stored = StoredArtifact::open(fixture.directory.path("first.moe"));
  REQUIRE(stored.isOk());
  EmitOptions options;
  options.outputPath = fixture.directory.path("second.moe");
  const Status status = emitArtifact(fixture.plan, *stored, options).status();
  REQUIRE_MESSAGE(status.isOk(), status.message());
  CHECK(contentOf(options.outputPath) == contentOf(fixture.directory.path("first.moe")));
}

TEST_CASE("weights that are not the artifact's are refused by their names") {
  Fixture fixture;
  REQUIRE(fixture.emit("first.moe").isOk());
  auto stored = StoredArtifact::open(fixture.directory.path("first.moe"));
  REQUIRE(stored.isOk());
  const auto refusal = [&](const std::function<void(Artifact &)> &change) {
    EmitPlan plan = fixture.plan;
    change(plan.artifact);
    EmitOptions options;
    options.outputPath = fixture.directory.path("second.moe");
    const Status status = emitArtifact(plan, *stored, options).status();
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK_FALSE(std::filesystem::exists(options.outputPath));
    return status.message();
  };
  CHECK(refusal([](Artifact &of) { of.residents[1].name = "other"; }).find("weight other") !=
        std::string::npos);
  CHECK(refusal([](Artifact &of) { of.residents.pop_back(); }).find("resident weights, expected") !=
        std::string::npos);
  CHECK(refusal([](Artifact &of) { of.moeLayers[1].layer += 8; }).find("in layer ") !=
        std::string::npos);
}
