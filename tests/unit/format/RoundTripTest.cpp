// Whatever is written can be read back unchanged.
#include "runtime/base/Checksum.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/PlanName.h"
#include "runtime/format/Reader.h"
#include "runtime/format/Writer.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace moert;

TEST_CASE("a plan is named with its miss rule once") {
  Plan plan;
  plan.miss.action = MissAction::kMask;
  plan.name = "25%";
  CHECK(nameWithRule(plan) == "25%, mask");
  plan.name = "25% mask";
  CHECK(nameWithRule(plan) == "25% mask");
  plan.miss = {};
  CHECK(nameWithRule(plan) == "25% mask, wait");
}

TEST_CASE("the tiny artifact survives a round trip") {
  Artifact written = tinyArtifact();
  std::vector<std::byte> file = fileOf(written);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(encodeManifest(*read) == encodeManifest(written));
  CHECK(read->majorVersion == 2);
  CHECK(read->fileBytes == file.size());
  CHECK(read->residentOffset == written.residentOffset);
  CHECK(read->residentBytes == written.residentBytes);
  CHECK(read->residentChecksum == written.residentChecksum);
  CHECK(read->recordsOffset == written.recordsOffset);
  CHECK(read->recordsBytes == written.recordsBytes);
  CHECK(read->tokenizerOffset == written.tokenizerOffset);
  CHECK(read->tokenizerBytes == kTinyTokenizerBytes);
  CHECK(read->tokenizerChecksum == written.tokenizerChecksum);
}

TEST_CASE("experts with the Hadamard transform and their buffers survive a round trip") {
  Artifact written = tinyHadamardArtifact();
  std::vector<std::byte> file = fileOf(written);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->moeLayers == written.moeLayers);
  CHECK(read->programs == written.programs);
}

TEST_CASE("sealing gives the bytes of the file's two ends") {
  for (Artifact artifact : {tinyArtifact(), tinyPlannedArtifact(), tinyHadamardArtifact()}) {
    std::vector<std::byte> file = fileOf(artifact);
    auto sealed = sealArtifact(artifact);
    REQUIRE_MESSAGE(sealed.isOk(), sealed.status().message());
    CHECK(artifact.fileBytes == file.size());
    CHECK(sealed->manifestOffset + sealed->manifest.size() == file.size());
    CHECK(std::memcmp(sealed->prefix.data(), file.data(), sealed->prefix.size()) == 0);
    CHECK(std::memcmp(sealed->manifest.data(), file.data() + sealed->manifestOffset,
                      sealed->manifest.size()) == 0);
  }
}

TEST_CASE("sealing refuses what a reader would refuse") {
  Artifact artifact = tinyArtifact();
  artifact.plans[0].quotaPages.pop_back();
  auto sealed = sealArtifact(artifact);
  REQUIRE(!sealed.isOk());
  CHECK(sealed.status().message().find("quotas of 1 layers, expected 2") != std::string::npos);
}

TEST_CASE("the tokenizer's table is read unchanged") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  auto table = readTokenizerTable(MemorySource("tiny.moe", file), artifact);
  REQUIRE(table.isOk());
  REQUIRE(table->size() == kTinyTokenizerBytes);
  CHECK(std::memcmp(table->data(), file.data() + artifact.tokenizerOffset, table->size()) == 0);
  file[artifact.tokenizerOffset + 7] ^= std::byte(1);
  auto broken = readTokenizerTable(MemorySource("tiny.moe", file), artifact);
  REQUIRE(!broken.isOk());
  CHECK(broken.status().message().find("section tokenizer is damaged") != std::string::npos);
  CHECK(broken.status().message().find(
            strCat("expected ", formatChecksum(artifact.tokenizerChecksum))) != std::string::npos);
}

TEST_CASE("plans survive a round trip") {
  Artifact written = tinyPlannedArtifact();
  std::vector<std::byte> file = fileOf(written);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->plans == written.plans);
  CHECK(read->pathsOffset == written.pathsOffset);
  CHECK(read->pathsBytes == kTinyPathsBytes);
  CHECK(read->pathsChecksum == written.pathsChecksum);
  CHECK(read->traceOffset == written.traceOffset);
  CHECK(read->traceBytes == kTinyTraceBytes);
  CHECK(read->traceChecksum == written.traceChecksum);
}

TEST_CASE("paths and trace are read unchanged, damaged ones refused, absent ones empty") {
  Artifact artifact = tinyPlannedArtifact(), plain = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact), plainFile = fileOf(plain);
  MemorySource source("tiny.moe", file), plainSource("plain.moe", plainFile);
  struct Section {
    Result<std::vector<std::byte>> (*read)(const ByteSource &, const Artifact &);
    uint64_t offset, bytes;
    const char *message;
  };
  for (const Section &section :
       {Section{readPaths, artifact.pathsOffset, kTinyPathsBytes, "section paths is damaged"},
        Section{readTrace, artifact.traceOffset, kTinyTraceBytes, "section trace is damaged"}}) {
    auto content = section.read(source, artifact);
    REQUIRE(content.isOk());
    REQUIRE(content->size() == section.bytes);
    CHECK(std::memcmp(content->data(), file.data() + section.offset, content->size()) == 0);
    file[section.offset + 3] ^= std::byte(1);
    auto broken = section.read(source, artifact);
    REQUIRE(!broken.isOk());
    CHECK(broken.status().message().find(section.message) != std::string::npos);
    auto absent = section.read(plainSource, plain);
    REQUIRE(absent.isOk());
    CHECK(absent->empty());
  }
}
